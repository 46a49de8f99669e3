"""The tutorial's part of the made-up web: a clock that the reader turns, and the list of pages.

`python -m hacs_crawler.demo.tutorial FOLDER` makes both. The clock is a file, so that all crawls and
commands agree on the time; only the reader moves it.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from scrapy import Request, Spider
from scrapy.http import Response

from hacs_crawler.demo.web import AUTHORS, HOST, START, generated
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.times import DAY, day_text

# The environment variable that names the clock's file; `CLOCK` if it is not set.
VARIABLE: Final = "HACS_DEMO_CLOCK"
CLOCK: Final = "web/clock"
PAGES: Final = "pages.txt"


def now() -> float:
    """Return the time in the web in seconds since 1970 UTC: the tutorial's HACS_CLOCK."""
    return read_clock(Path(os.environ.get(VARIABLE) or CLOCK))


def read_clock(file: Path) -> float:
    """Return the time of a clock; raises HacsError if it cannot be read."""
    try:
        return float(file.read_text())
    except OSError as error:
        raise HacsError(f"{file}: cannot read the clock: {error.strerror}") from error
    except ValueError:
        raise HacsError(f"{file} is not a clock of the made-up web") from None


def set_clock(file: Path, second: float) -> None:
    """Set a clock to a time in seconds since 1970 UTC."""
    file.write_text(f"{second:.0f}\n")


class TutorialWeb:
    """Downloader middleware: the made-up web answers, at the time of the reader's clock."""

    def __init__(self) -> None:
        self._web = generated()

    def process_request(self, request: Request, spider: Spider | None = None) -> Response:
        """Return the page as it is now."""
        return self._web.answer(request.url, now())


def main() -> None:
    """Make the folder, or move its clock."""
    parser = argparse.ArgumentParser(prog="python -m hacs_crawler.demo.tutorial")
    parser.add_argument("folder", type=Path, help="the folder of the clock and the list of pages")
    parser.add_argument("--later", type=float, metavar="DAYS", help="turn the clock forward")
    given = parser.parse_args()
    clock = given.folder / "clock"
    try:
        if given.later is not None:
            set_clock(clock, read_clock(clock) + given.later * DAY)
            sys.stdout.write(f"It is {day_text(read_clock(clock))} now.\n")
            return
        given.folder.mkdir(parents=True, exist_ok=True)
        if not clock.exists():
            set_clock(clock, START)
        urls = [f"{HOST}{page.path}\n" for page in generated().pages if not page.is_gone(START)]
        (given.folder / PAGES).write_text("".join(urls), encoding="utf-8")
        sys.stdout.write(f"It is {day_text(read_clock(clock))} in a web of {AUTHORS} authors.\n")
        sys.stdout.write(f"Its {len(urls)} pages are listed in {given.folder / PAGES}.\n")
    except HacsError as error:
        sys.exit(f"ERROR: {error}")


if __name__ == "__main__":
    main()
