"""A clock that goes back, or fails, while a crawl runs."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from parsel import Selector

from clocks import DAY, START
from hacs_crawler.links.extract import link_fingerprints
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.page import News, Visit
from integration_support import Project
from reliability_support import PROMPT, fill, record, visits_of, whole_pages
from servers import Site


def test_visits_out_of_order_leave_the_state_that_the_right_order_would_have_left(
    site: Site, project: Project
) -> None:
    urls = fill(site)
    record(project.state, visits_of(urls, START))
    record(project.state, visits_of(urls[::2], START + 7 * DAY))
    clock = "tests.clocks.jumping_back"
    crawl = project.crawl(urls, "-a", "level=homepage", HACS_CLOCK=clock, HACS_FLUSH_VISITS=5)
    assert crawl.exit_status == 0
    assert "Traceback" not in crawl.log
    assert crawl.stat("hacs/visits") == len(urls)
    pages = whole_pages(project.state)
    times = {at for page in pages.values() for at in page.visits}
    assert min(times - {START}) < START + 6 * DAY < START + 9 * DAY < max(times)
    assert all(list(page.visits) == sorted(page.visits) for page in pages.values())
    earlier = {at: frozenset({1, 2}) for at in (START, START + 7 * DAY)}
    of_site = link_fingerprints_of(site)
    visits = [
        Visit(page.url, at, marks=earlier.get(at, of_site[page.url]), rules=page.rules_at(at))
        for page in pages.values()
        for at in page.visits
    ]
    with closing(MemoryStore()) as store:
        in_order = State(store, Estimation())
        in_order.record(sorted(visits, key=lambda visit: visit.at))
        expected = in_order.load(list(pages))
    for key, page in pages.items():
        in_order_page = expected[key]
        assert (page.visits, page.spells) == (in_order_page.visits, in_order_page.spells)
        assert page.rule_changes == in_order_page.rule_changes
        assert page.update_times == in_order_page.update_times


@pytest.mark.parametrize(("source", "kind"), [("seeds", "redis"), ("state", "sqlite")])
def test_a_crawl_sets_aside_what_a_fast_clock_recorded_and_says_so_in_one_line(
    source: str,
    kind: str,
    site: Site,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    namespace: str,
) -> None:
    state = f"sqlite:///{tmp_path}/state.db"
    if kind == "redis":
        state = f"redis://127.0.0.1:{request.getfixturevalue('redis_port')}/0"
    project = Project(tmp_path, state)
    urls, now = fill(site, 4), int(time.time())
    early, late = urls[:3], urls[3:]
    days = [visits_of(early, now - day * DAY) for day in range(30, 20, -1)]
    future = [
        *visits_of(early[:2], now + 400 * DAY),
        *[replace(one, news=News.GONE, marks=None) for one in visits_of(early, now + 401 * DAY)],
    ]
    for visits in (*days[:5], future, *days[5:], visits_of(late, now - DAY)):
        record(state, visits, namespace)
    more = {"HACS_NAMESPACE": namespace, "HACS_BUDGET": 3}
    crawl = project.crawl("state" if source == "state" else urls, "-a", "level=homepage", **more)
    assert crawl.exit_status == 0
    said = [line for line in crawl.log.splitlines() if "later than now" in line]
    assert len(said) == 1
    assert "3 pages have visits later than now, the latest at " in said[0]
    assert sorted(site.visited()) == ["/0/", "/1/", "/2/"], "seen longest ago, so first"


def link_fingerprints_of(site: Site) -> dict[str, frozenset[int]]:
    """What each page of the site shows."""
    return {
        site.url + path: link_fingerprints(Selector(body.decode()).root, site.url + path)
        for path, (_, _, body) in site.pages.items()
    }


@pytest.mark.parametrize(
    ("clock", "line"),
    [
        ("failing", "ERROR: HACS_CLOCK: ValueError: no time left"),
        ("leaving", "ERROR: HACS_CLOCK, or this machine's clock, says second nan"),
    ],
)
def test_a_clock_that_fails_while_a_crawl_runs_ends_it_with_a_line_and_what_was_recorded_is_kept(
    clock: str, line: str, site: Site, project: Project
) -> None:
    crawl = project.crawl(fill(site, 40), HACS_CLOCK=f"tests.clocks.{clock}", **PROMPT)
    assert crawl.exit_status == 1
    assert crawl.log.count(line) == 1, crawl.log
    assert "Traceback" not in crawl.log
    assert crawl.stat("hacs/visits") > 0
    pages = whole_pages(project.state).values()
    assert [list(page.visits) for page in pages] == crawl.stat("hacs/visits") * [[START]]
