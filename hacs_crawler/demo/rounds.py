"""The crawls of a demonstration, round by round, each some days of demo time after the one before."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from hacs_crawler.demo import clock
from hacs_crawler.demo.processes import SCRAPY, Processes
from hacs_crawler.demo.project import HOMEPAGES, PAGES, STATE, write_project
from hacs_crawler.demo.server import CLOCK_FILE
from hacs_crawler.demo.web import Web
from hacs_crawler.exceptions import HacsError
from hacs_crawler.experiment.data import record_of
from hacs_crawler.links import site_id
from hacs_crawler.ranking.arms import Arm, Experiment
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.state import Estimation, open_state
from hacs_crawler.utils.times import DAY

DAYS: Final = 14
"""Of demo time, from one round to the next."""
PAGES_A_VISIT: Final = 7.5
"""A round visits one of so many pages."""
ENDING_SECONDS: Final = 6.0
"""What the status and the report take after the last round."""
ARMS: Final = ("hacs", "last-obs")
EXPERIMENT: Final = Experiment(tuple(Arm(name, POLICIES[name], 0.5) for name in ARMS))


@dataclass(frozen=True, slots=True)
class RoundScore:
    """How far the arms are after a round at second `at`: visits, and those that found an update."""

    at: int
    visits: tuple[int, ...]
    hits: tuple[int, ...]


def budget_of(web: Web) -> int:
    """Return how many pages a round visits: an even number, for the arms have half each."""
    return 2 * max(1, round(len(web.pages) / PAGES_A_VISIT / 2))


def most_rounds(web: Web) -> int:
    """Return how many rounds there can be before the histories end."""
    return 1 + (web.end - web.start) // (DAYS * DAY)


def serve_web(processes: Processes, folder: Path, web: Web) -> str:
    """Start the server and write the project that crawls it; return the web's address."""
    line = processes.serve("server", "-m", "hacs_crawler.demo.server", str(folder))
    web_port, archive_port = json.loads(line)
    write_project(folder, web, (web_port, archive_port), budget_of(web))
    return f"http://127.0.0.1:{web_port}"


def read_archive(processes: Processes) -> None:
    """Have the spider `wayback` record what the archive knows."""
    crawl = (*SCRAPY, "crawl", "wayback", "-a", f"seeds={HOMEPAGES}", "-a", "level=website")
    processes.run("wayback", *crawl)


def play(
    processes: Processes, folder: Path, web: Web, until: float, rounds: int | None
) -> Iterator[RoundScore]:
    """Crawl round by round, until that second of `time.monotonic` or so many rounds are over.

    There are two rounds at least. Raises HacsError, Interruption.
    """
    last = min(rounds or most_rounds(web), most_rounds(web))
    longest, before = 0.0, 0
    for place in range(last):
        began = time.monotonic()
        if rounds is None and place >= 2 and began + longest + ENDING_SECONDS > until:
            return
        at = web.start + place * DAYS * DAY
        name = f"crawl-{place + 1:02}"
        clock.set_to(folder / CLOCK_FILE, at)
        # the spider has AutoThrottle on, unless the command line says otherwise
        crawl = (*SCRAPY, "crawl", "scholar", "-a", f"seeds={PAGES}", "-a", "level=homepage")
        processes.run(name, *crawl, "-s", "AUTOTHROTTLE_ENABLED=False")
        standing = _standing(folder, at)
        if sum(standing.visits) == before:
            msg = f"{name} recorded no visit; the end of its log:\n{processes.last_lines(name)}"
            raise HacsError(msg)
        before = sum(standing.visits)
        longest = max(longest, time.monotonic() - began)
        yield standing


def to_be_found(web: Web, until: int) -> tuple[int, ...]:
    """Return how many updates each arm's pages had up to a time that the archive did not show."""
    sites = np.array([site_id(f"http://127.0.0.1{page.path}") for page in web.pages])
    arms = EXPERIMENT.assign(sites)
    updates = [
        page.updates_between(page.captures[-1] if page.captures else web.start, until)
        for page in web.pages
    ]
    return tuple(np.bincount(arms, updates, len(ARMS)).astype(int).tolist())


def _standing(folder: Path, at: int) -> RoundScore:
    state = open_state(f"sqlite:///{STATE}", "hacs", folder, Estimation())
    try:
        outcomes = state.outcomes()
        record = record_of(EXPERIMENT, outcomes, state.labels_of(outcomes))
    finally:
        state.close()
    visits = np.bincount(record.arms, minlength=len(ARMS))
    hits = np.bincount(record.arms[record.is_updated], minlength=len(ARMS))
    return RoundScore(at, tuple(visits.tolist()), tuple(hits.tolist()))
