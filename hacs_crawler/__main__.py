"""The command `hacs`, also as `python -m hacs_crawler`. Ctrl-C ends it with one line at any moment."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from types import FrameType

STOPPED = 130
"""What a shell reports of a command that was ended by SIGINT."""


def main() -> None:
    """Run the command that the arguments name."""
    asked = False

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    def leave() -> None:
        # `python -m` ends itself by SIGINT where one went through exec(), as in a dataclass
        if asked:
            sys.stderr.flush()
            os._exit(STOPPED)

    atexit.register(leave)  # the first one registered is the last to be called
    # a job in the background is started with SIGINT ignored, so that Ctrl-C ends only others
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, ask)
    try:
        from hacs_crawler.cli.app import app  # noqa: PLC0415 - Ctrl-C may come meanwhile

        app(prog_name="hacs")
    except BaseException:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not asked:
            raise
        # what an interrupted library makes of it, an ImportError among others, is of no use
        sys.stderr.write("Stopped.\n")
        sys.exit(STOPPED)


if __name__ == "__main__":
    main()
