"""How many updates are new to their site, what remembering that takes, and what the bound costs.

python benchmarks/site_links.py FOLDER     # with pages.csv, updates.csv, versions.jsonl.gz; a minute

versions.jsonl.gz has one object a line: {"url": …, "versions": [{"at": …, "added": [link, …]}, …]}.
Every update of the histories is seen as it happens. Some memories are bounded to fewer links than that
of a state, one is of all sites together, as a key that is too wide would have it.
"""

import argparse
import gzip
import json
import time
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path
from unittest import mock

import numpy as np

from hacs_crawler.lab.timelines import read_timelines
from hacs_crawler.links import fingerprint, menu_id
from hacs_crawler.state import site_links
from hacs_crawler.state.site_links import ENTRY, MOST_LINKS, LinkClaim, claimed, owned_links
from hacs_crawler.utils.times import DAY, parse_iso

BOUNDS = (32, 128, 512, MOST_LINKS)


def read_links(path, timelines):
    """For each page the links that it had before its first update, and those that each update added."""
    places = {url: number for number, url in enumerate(timelines.urls)}
    links = [[set() for _ in range(len(timelines.updates.of(n)) + 1)] for n in range(len(places))]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for page in map(json.loads, file):
            if page["url"] in places:
                number, seen = places[page["url"]], set()
                times = timelines.updates.of(number).tolist()
                for version in page["versions"]:
                    new = {fingerprint(link) for link in version["added"]} - seen
                    seen |= new
                    links[number][bisect_right(times, parse_iso(version["at"]))] |= new
    return links


def events_of(timelines, links):
    """Each page's first sight (update 0) and its updates, in the order of time."""
    events = []
    for page, first in enumerate(timelines.first_seen.tolist()):
        times = [first, *timelines.updates.of(page).tolist()]
        events += [
            (at, page, number, added)
            for number, (at, added) in enumerate(zip(times, links[page], strict=True))
        ]
    return sorted(events, key=lambda event: event[:3])


def shares_of_a_day(events, sites):
    """Which updates have only links that another page of the site gained the same day."""
    gained = defaultdict(set)
    for at, page, number, added in events:
        if number:
            gained[sites[page], at // DAY].update((link, page) for link in added)
    return [
        all(
            any((link, other) in gained[sites[page], at // DAY] for other in of_site(sites, page))
            for link in added
        )
        for at, page, number, added in events
        if number
    ]


def of_site(sites, page):
    return [other for other in np.flatnonzero(sites == sites[page]).tolist() if other != page]


def echoes(events, sites, most=MOST_LINKS):
    """Which updates are echoes, as a memory so bounded has it, and the memories."""
    memories, found = defaultdict(bytes), []
    with mock.patch.object(site_links, "MOST_BYTES", most * ENTRY.itemsize):
        for _, page, number, added in events:
            claim = LinkClaim.of(int(sites[page]), page, added)
            memories[claim.site], (is_own,) = claimed(memories[claim.site], [claim])
            if number:
                found.append(not owned_links(added, claim, is_own))
    return np.array(found), memories


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    timelines = read_timelines(folder / "pages.csv", folder / "updates.csv", None)
    links = read_links(folder / "versions.jsonl.gz", timelines)
    events = events_of(timelines, links)
    sites = np.array([menu_id(url) for url in timelines.urls])
    same_day = np.mean(shares_of_a_day(events, sites))
    exact, memories = echoes(events, sites, most=10**9)
    sizes = np.array([len(memory) for memory in memories.values()])
    print("| | of all updates |\n|---|---:|")
    print(f"| number | {len(events) - len(sites):,} |")
    print(f"| only links of another page's day | {same_day:.1%} |")
    print(f"| echoes, each seen at once | {exact.mean():.1%} |")
    print(f"\n| bytes of {len(sizes)} sites' memories | |\n|---|---:|")
    print(f"| a page | {sizes.sum() / len(sites):.0f} |")
    print(f"| a site, median | {np.median(sizes):.0f} |\n| the largest | {sizes.max():,} |")
    print("\n| a site remembers | echoes taken for new | new taken for echoes | µs a claim |")
    print("|---|---:|---:|---:|")
    for most in BOUNDS:
        started = time.perf_counter()
        found, _ = echoes(events, sites, most)
        each = (time.perf_counter() - started) / len(events)
        wrong = f"{np.mean(exact & ~found):.2%} | {np.mean(~exact & found):.2%}"
        print(f"| {most:,} links | {wrong} | {1e6 * each:.0f} |")
    found, _ = echoes(events, np.zeros_like(sites), most=10**9)
    print(f"| all, under one key | | {np.mean(~exact & found):.2%} | |")


if __name__ == "__main__":
    main()
