"""The local web of the tutorial: `python -m hacs_crawler.demo.tutorial FOLDER` serves it.

It is the demonstration's web, smaller; the reader turns the clock by hand.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from typing import Final

from hacs_crawler.demo import clock
from hacs_crawler.demo.histories import generated
from hacs_crawler.demo.server import LiveWeb, Server
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.times import DAY, day_text

AUTHORS: Final = 40
SEED: Final = 0
"""A web of busy authors, so that there is something to see after three crawls."""
PORT: Final = 8123
PAGES_FILE: Final = "pages.txt"
CLOCK_FILE: Final = "clock"


def serve(folder: Path, port: int) -> Server:
    """Serve the web by the clock of a folder, which is made if need be; raises HacsError."""
    web, file = generated(SEED, AUTHORS), folder / CLOCK_FILE
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        clock.set_to(file, web.start)
    try:
        server = Server(LiveWeb(web, lambda: clock.read(file)), port)
    except OSError as error:
        raise HacsError(f"port {port} cannot be used: {error.strerror}; try --port") from error
    lines = "".join(
        f"{server.address}{page.path}\n" for page in web.pages if not page.is_gone(web.start)
    )
    (folder / PAGES_FILE).write_text(lines, encoding="utf-8")
    return server


def turn(folder: Path, days: float) -> str:
    """Turn the clock of a folder forward, and return the day that it then shows; raises HacsError."""
    file = folder / CLOCK_FILE
    second = clock.read(file) + days * DAY
    clock.set_to(file, second)
    return day_text(second)


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m hacs_crawler.demo.tutorial")
    parser.add_argument("folder", type=Path, help="where the web, its pages and its clock are")
    parser.add_argument("--port", type=int, default=PORT, help=f"serve there; {PORT} if not told")
    parser.add_argument(
        "--later", type=float, metavar="DAYS", help="turn the clock forward, and serve nothing"
    )
    given = parser.parse_args()
    try:
        if given.later is not None:
            sys.stdout.write(f"It is {turn(given.folder, given.later)} now.\n")
            return
        server = serve(given.folder, given.port)
        sys.stdout.write(f"A web of {AUTHORS} authors is at {server.address}/.\n")
        sys.stdout.write(f"Its pages are in {given.folder / PAGES_FILE}. Ctrl-C ends it.\n")
        sys.stdout.flush()
        threading.Event().wait()
    except HacsError as error:
        sys.exit(f"ERROR: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
