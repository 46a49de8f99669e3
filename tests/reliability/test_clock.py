"""A clock that goes back, or fails, while a crawl runs."""

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from clocks import DAY, START
from hacs_crawler.state.page import News
from integration_support import Project
from reliability_support import PROMPT, fill, record, visits_of, whole_pages
from servers import Site


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
