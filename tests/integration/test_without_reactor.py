"""Crawls without Twisted's reactor: `TWISTED_REACTOR_ENABLED = False`, where Scrapy has it."""

import pytest
from scrapy.settings import Settings

from integration_support import Crawl, Project
from servers import Site

pytestmark = pytest.mark.skipif(
    "TWISTED_REACTOR_ENABLED" not in Settings(), reason="this Scrapy always has its reactor"
)
PATHS = [f"/{number}" for number in range(6)]


def test_pages_are_ranked_visited_and_recorded_as_ever(
    site: Site, project: Project, redis_port: int
) -> None:
    project.state = f"redis://127.0.0.1:{redis_port}/0"

    def crawl(**settings: object) -> Crawl:
        seeds = [f"{site.url}{path}" for path in PATHS]
        return project.crawl(seeds, TWISTED_REACTOR_ENABLED=False, **settings)

    for path in PATHS:
        site.set(path, "/old")
    assert crawl(HACS_SIGNALS=9).stat("hacs/first_visits") == 6
    site.set("/3", "/old", "/new")
    assert crawl(HACS_CONTROLS=0.5).stat("hacs/new_links") == 1
    site.visited()
    project.runs += 43_200  # a day later, when it makes no difference how long the crawls took
    assert crawl(HACS_BUDGET=1).stat("hacs/visits") == 1
    assert site.visited() == ["/3"]


def test_a_page_that_needs_a_browser_is_left_out_with_a_line_that_says_why(
    site: Site, project: Project
) -> None:
    pytest.importorskip("scrapy_playwright")
    site.set("/", "/a")
    crawl = project.crawl([site.url], TWISTED_REACTOR_ENABLED=False, HACS_RENDER="always")
    assert crawl.log.count("There is no browser (") == 1
    assert crawl.stat("hacs/not_observed/needs_browser") == 1
