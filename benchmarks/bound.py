"""What HACS_LINK_BYTES costs in updates, on the timelines of real pages.

python benchmarks/bound.py ../shared/data/scholarly-timelines

"Found": a visit of every version of every page, one after the other; of the visits that find an update
without a bound, how many find one with it. "Hits": the simulated crawl of benchmarks/simulate.py with
the policy `hacs` and 5 visits a day, but each visit shows the links that the page had, and is recorded
with the bound. A hit is a visit of a page that had gained links, whether or not that was seen: what the
bound costs here is that pages are ranked by less.
"""

import argparse
import gzip
import json
from bisect import bisect_right
from collections import Counter
from datetime import datetime
from functools import partial
from pathlib import Path
from unittest.mock import patch

from hacs_crawler.archive.timelines import parse_day, read_timelines
from hacs_crawler.links.urls import fingerprint
from hacs_crawler.simulation import simulation
from hacs_crawler.simulation.baselines import BASELINES
from hacs_crawler.simulation.simulation import Scenario, World, simulate
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Page, Visit, bound_links, merge

START, END = (parse_day(day, "day") for day in ("2022-01-01", "2026-01-01"))
BOUNDS = (None, 2048, 1024, 512, 256, 128)
Versions = dict[str, list[tuple[int, frozenset[int]]]]


def read_versions(file: Path) -> Versions:
    """Return each page's versions: when each began, and the fingerprints of its links."""
    versions: Versions = {}
    with gzip.open(file, "rt") as lines:
        for line in lines:
            timeline = json.loads(line)
            shown: set[int] = set()
            versions[timeline["url"]] = history = []
            for version in timeline["versions"]:
                shown -= {fingerprint(link) for link in version["removed"]}
                shown |= {fingerprint(link) for link in version["added"]}
                at = int(datetime.fromisoformat(version["at"]).timestamp())
                history.append((at, frozenset(shown)))
    return versions


def replayed(
    url: str, history: list[tuple[int, frozenset[int]]], bound: int | None
) -> tuple[Page, int]:
    """Return a page after a visit of each version, and how many found an update."""
    page, updates = Page(url), 0
    for at, links in history:
        updates += bool(merge(page, Visit(url, at, links=links)))
        if bound is not None:
            bound_links(page, bound)
    return page, updates


def kept(level: int) -> str:
    return ("8 bytes", "4 bytes", "2 bytes")[level] if level < 3 else f"1 in {2 ** (level - 2)}"


def hits(scenario: Scenario, versions: Versions, bound: int | None) -> int:
    """Return the hits of a simulated crawl that records the links which pages had."""

    class Showing(World):
        def _shown(self, page: int, at: int) -> Visit:
            url = self._urls[page]
            place = bisect_right(versions[url], at, key=lambda version: version[0]) - 1
            return Visit(url, at, links=versions[url][max(place, 0)][1])

    with (
        patch.object(simulation, "World", Showing),
        patch.object(simulation, "State", partial(State, link_bytes=bound)),
    ):
        return simulate(scenario, "hacs", BASELINES["hacs"].make).hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="with pages, updates, captures and versions")
    folder = parser.parse_args().folder
    versions = read_versions(folder / "versions.jsonl.gz")
    timelines = read_timelines(
        *(folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    )
    scenario = Scenario(timelines, START, END, 5, Estimation())
    print("| HACS_LINK_BYTES | links, bytes a page | pages by what is kept | found | % | hits |")
    print("|---:|---:|---|---:|---:|---:|")
    whole = 0
    for bound in BOUNDS:
        after = [replayed(url, history, bound) for url, history in versions.items()]
        found = sum(updates for _, updates in after)
        whole = whole or found
        size = sum(len(page.links) * page.links.itemsize for page, _ in after) / len(after)
        levels = sorted(Counter(page.link_level for page, _ in after).items())
        text = ", ".join(f"{number} {kept(level)}" for level, number in levels)
        share = f"{100 * found / whole:.1f}"
        print(
            f"| {bound} | {size:.0f} | {text} | {found:,} | {share} | "
            f"{hits(scenario, versions, bound)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
