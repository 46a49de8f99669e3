"""The command `hacs`, also as `python -m hacs_crawler`. Ctrl-C ends it with one line, at any time."""

from __future__ import annotations

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # typing takes longer to import than all of this module
if TYPE_CHECKING:
    from types import FrameType

# The exit status that a shell reports for a command ended by SIGINT.
STOPPED = 130
LINE = "Stopped.\n"


def main() -> None:
    """Run the command that the arguments name."""
    asked = False

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        if logging := sys.modules.get("logging"):
            # messages of interrupted code would only confuse
            logging.disable()
        raise KeyboardInterrupt

    def end_all_the_same(unraisable: sys.UnraisableHookArgs) -> None:
        # a KeyboardInterrupt in a destructor or callback is swallowed, and the command would continue
        if not (asked and unraisable.exc_type is KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        sys.stderr.write(LINE)
        leave()

    def leave() -> None:
        # `python -m` kills itself by SIGINT if a KeyboardInterrupt passed exec(), as in a dataclass
        if asked:
            sys.stderr.flush()
            os._exit(STOPPED)

    atexit.register(leave)  # registered first, so called last
    # shells start background jobs with SIGINT ignored; leave that as it is
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        sys.unraisablehook = end_all_the_same
        signal.signal(signal.SIGINT, ask)
    try:
        from hacs_crawler.cli.app import app  # noqa: PLC0415 - after Ctrl-C is handled

        app(prog_name="hacs")
    except BaseException:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not asked:
            raise
        # an interrupted library may raise another exception, such as ImportError
        sys.stderr.write(LINE)
        sys.exit(STOPPED)


if __name__ == "__main__":
    main()
