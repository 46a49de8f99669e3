"""Writes the histories that `hacs simulate` has without files, by the generator of the demonstration.

python benchmarks/timelines.py     # writes hacs_crawler/lab/simulation/made-up/*.csv
"""

import argparse
import csv
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from hacs_crawler.demo.web import BEGIN, generated

AUTHORS, SEED = 40, 1
HOST = "https://www.example.edu"
FOLDER = Path(__file__).parents[1] / "hacs_crawler" / "lab" / "simulation" / "made-up"


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    pages = [page for page in generated(SEED, AUTHORS).pages if page.captures]
    first = {page.path: min(BEGIN, page.captures[0], *page.updates[:1]) for page in pages}
    _write(
        "pages",
        ("url", "site", "level", "first_seen"),
        (
            (HOST + page.path, _site(page.path), _level(page.path), _iso(first[page.path]))
            for page in pages
        ),
    )
    _write(
        "updates",
        ("url", "updated_at", "new_links"),
        (
            (HOST + page.path, _iso(at), links)
            for page in pages
            for at, links in zip(page.updates, page.new_links, strict=True)
        ),
    )
    _write(
        "captures",
        ("url", "captured_at"),
        ((HOST + page.path, _iso(at)) for page in pages for at in page.captures),
    )


def _site(path: str) -> str:
    return f"{HOST}{path[: path.index('/', 1) + 1]}"


def _level(path: str) -> str:
    return "homepage" if path.endswith("/") else "subpage"


def _iso(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")


def _write(name: str, titles: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    with (FOLDER / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(titles)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
