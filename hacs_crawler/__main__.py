"""The command `hacs`, also as `python -m hacs_crawler`. Ctrl-C ends it with one line at any moment.

Until this module runs, in the first hundredths of a second, Ctrl-C is for Python itself to answer.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # typing takes longer to load than all that is here
if TYPE_CHECKING:
    from types import FrameType

# What a shell reports of a command that was ended by SIGINT.
STOPPED = 130
LINE = "Stopped.\n"


def main() -> None:
    """Run the command that the arguments name."""
    asked = False

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        if logging := sys.modules.get("logging"):
            # what an interrupted part would say of itself is of no use
            logging.disable()
        raise KeyboardInterrupt

    def end_all_the_same(unraisable: sys.UnraisableHookArgs) -> None:
        # a KeyboardInterrupt in a destructor or a callback goes nowhere, and the command would go on
        if not (asked and unraisable.exc_type is KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        sys.stderr.write(LINE)
        leave()

    def leave() -> None:
        # `python -m` ends itself by SIGINT if one passed through exec(), as in a dataclass
        if asked:
            sys.stderr.flush()
            os._exit(STOPPED)

    atexit.register(leave)  # the first one registered is the last to be called
    # a job in the background is started with SIGINT ignored, so that Ctrl-C ends only others
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        sys.unraisablehook = end_all_the_same
        signal.signal(signal.SIGINT, ask)
    try:
        from hacs_crawler.cli.app import app  # noqa: PLC0415 - Ctrl-C may come meanwhile

        app(prog_name="hacs")
    except BaseException:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not asked:
            raise
        # what an interrupted library makes of it, an ImportError among others, is of no use
        sys.stderr.write(LINE)
        sys.exit(STOPPED)


if __name__ == "__main__":
    main()
