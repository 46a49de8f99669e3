"""Make histories of pages from the crawl logs of Kolobov et al., NeurIPS 2019.

    python benchmarks/recrawl/from_kolobov.py urlid_offset_history.txt OUT --pages 10000

18 million URLs, crawled about daily for 14 weeks of 2017. Where the files are and what they have, says
README.md ("Dataset Format") of github.com/microsoft/Optimal-Freshness-Crawl-Scheduling, commit 0ed8343:
a line has, with tabs between, a URL's number, the days until its first crawl, and a list of [days since
the crawl before, 1 if the URL had changed and else 0]. A change is put at the middle of its gap. The
first day is not published: it is called 2017-07-01 here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from histories import Page, write

BEGIN = 1_498_867_200  # 2017-07-01, UTC
DAY = 86_400


def pages_of(lines: Iterable[str]) -> Iterator[Page]:
    """Yield the page of each line, of a site of its own; ends the program at a line that tells none."""
    for place, line in enumerate(lines, start=1):
        try:
            number, offset, crawls = line.split("\t", 2)
            at = BEGIN + float(offset) * DAY
            captures, updates = [round(at)], {}
            for days, is_changed in json.loads(crawls):
                if is_changed:
                    updates[round(at + days * DAY / 2)] = 1
                at += days * DAY
                captures.append(round(at))
        except (TypeError, ValueError) as error:
            sys.exit(f"line {place} is no crawl history: {error}")
        site = f"http://url-{number}.example/"
        yield Page(site, site, captures[0], updates, captures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="urlid_offset_history.txt")
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--pages", type=int, default=10_000, help="the first ones (%(default)s)")
    given = parser.parse_args()
    with given.file.open() as file:
        print(write(given.out, pages_of(islice(file, given.pages))))


if __name__ == "__main__":
    main()
