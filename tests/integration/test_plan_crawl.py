"""A plan foretells a crawl."""

import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from scrapy.settings import Settings

from hacs_crawler.analysis import plan_table
from hacs_crawler.config import Config
from hacs_crawler.ranking.plan import make_plan
from hacs_crawler.state.page import News, Page, Visit
from hacs_crawler.utils.times import DAY
from integration_support import Project
from reliability_support import opened
from servers import Site

TODAY = int(time.time())


def history(url: str, number: int) -> list[Visit]:
    """Ten visits, of which the last `number` found a link; the fewer, the longer ago."""
    last = TODAY - (12 - number) * DAY
    return [
        Visit(url, last - day * DAY, marks=frozenset(range(max(0, number - day))))
        for day in range(10)
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"HACS_BUDGET": 9},
        {"HACS_BUDGET": 9, "HACS_WEIGHTS": '{"/~a[12]": 5}', "HACS_EVERY": '{"/~a4": [null, 1]}'},
    ],
)
def test_a_crawl_of_the_whole_state_visits_what_was_planned_in_that_order(
    settings: dict[str, object], site: Site, project: Project, write_state: Callable[..., None]
) -> None:
    for number in range(12):
        path = f"/~a{number // 2}/{number}.html"  # two pages a site: siblings
        site.set(path)
        write_state(*history(site.url + path, number))
    gone = f"{site.url}/~a0/gone.html"
    write_state(*history(gone, 9), Visit(gone, TODAY - DAY // 2, News.GONE))
    with opened(project.state) as state:
        plan = make_plan(state, Config.from_settings(Settings(settings)).ranking, time.time())
        planned = [urlsplit(url).path for url in plan_table(plan, state)["url"]]
    project.crawl("state", "level=homepage", CONCURRENT_REQUESTS=1, **settings)
    assert site.visited() == planned
    assert len(planned) == settings["HACS_BUDGET"]
    assert plan.waiting == 1


def test_pages_that_cannot_be_visited_cost_one_line(site: Site, project: Project) -> None:
    site.set("/")
    bad = [Page(f"ftp://h{number}.edu/") for number in range(50)]
    with opened(project.state) as state:
        state.restore([Page(f"{site.url}/"), *bad])
    crawl = project.crawl("state", "level=homepage")
    assert site.visited() == ["/"]
    (said,) = (line for line in crawl.log.splitlines() if "ftp:" in line)
    assert "skipped: 50 pages of the state that cannot be visited, such as ftp://h" in said
