"""Spiders that know nothing of HACS, in a project that has one line in ADDONS."""

import time
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from integration_support import AnySpider
from servers import Site

START_URLS = """
    from tests.seeded import Seeded

    class Plain(Seeded):
        paths = [f"/{n}" for n in range(4)]

        def parse(self, response):
            self.logger.info("parsed %s", response.url)
"""


@pytest.fixture
def site(site: Site) -> Site:
    for number in range(30):
        site.set(f"/{number}", f"/linked-from-{number}")
    return site


@pytest.fixture
def ranked(site: Site, write_state: Callable[..., None]) -> None:
    """Page n of the site has had n updates in ten visits, no bursts, so that 9 is ranked first."""
    start = int(time.time()) - 11 * DAY
    for number in range(10):
        url = f"{site.url}/{number}"
        write_state(
            *(
                Visit(url, start + day * DAY, marks=frozenset(range(day * number // 9)))
                for day in range(10)
            )
        )


def test_what_is_no_page_of_the_web_is_sent_whatever_the_budget(
    any_spider: AnySpider, site: Site
) -> None:
    code = (
        START_URLS
        + """
        async def start(self):
            async for request in super().start():
                yield request
            for number in "12":
                yield request.replace(url=f"data:text/html,{number}")
    """
    )
    crawl = any_spider.run(code, HACS_BUDGET=1)
    assert (crawl.log.count("parsed data:"), crawl.log.count("parsed http:")) == (2, 1)
    assert crawl.stat("hacs/visits") == 1
    assert not list(any_spider.folder.glob("*.lock")), "which only shards have"


@pytest.mark.parametrize("budget", [1, 2])
def test_a_redirect_to_a_page_that_the_budget_leaves_out_is_no_duplicate_of_its_request(
    budget: int, any_spider: AnySpider, site: Site
) -> None:
    site.pages["/0"] = (302, {"Location": f"{site.url}/1"}, b"")
    code = (
        START_URLS
        + """
        async def start(self):
            async for request in super().start():
                yield request.replace(dont_filter=False)
    """
    )
    crawl = any_spider.run(code, HACS_BUDGET=budget, HACS_CONTROLS=0, ROBOTSTXT_OBEY=False)
    assert (crawl.stat("hacs/visits"), crawl.stat("hacs/not_observed")) == (budget, 0)
    assert sorted(site.asked) == ["/0", "/1"]


def test_what_hacs_asks_for_itself_is_no_page_that_closes_a_spider(
    any_spider: AnySpider, site: Site
) -> None:
    site.pages["/robots.txt"] = (200, {}, f"Sitemap: {site.url}/map.xml\n".encode())
    site.pages["/map.xml"] = (200, {"Content-Type": "text/xml"}, b"<urlset></urlset>")
    settings = {"HACS_SIGNALS": 9, "ROBOTSTXT_OBEY": False, "CLOSESPIDER_PAGECOUNT": 4}
    crawl = any_spider.run(START_URLS, **settings)
    assert "/map.xml" in site.asked, "which is an answer, too"
    assert crawl.log.count("parsed ") == 4


@pytest.mark.usefixtures("ranked")
@pytest.mark.parametrize(
    ("settings", "visited"),
    [({}, 11), ({"HACS_BUDGET": 7}, 7), ({"HACS_BUDGET": 8, "HACS_DISCOVER": 0.5}, 8)],
    ids=str,
)
def test_with_jobdir_what_callbacks_asked_for_goes_on_too_best_first_and_within_the_budget(
    any_spider: AnySpider, site: Site, settings: dict[str, Any], visited: int
) -> None:
    code = """
        class Following(scrapy.Spider):
            name = "following"

            async def start(self):
                yield scrapy.Request(f"{self.url}/20")

            def parse(self, response):
                if response.url.endswith("/20"):
                    for number in range(10):
                        yield scrapy.Request(f"{self.url}/{number}")
    """
    settings = {"HACS_PAGES": "all", "HACS_POLICY": "hacs", "ROBOTSTXT_OBEY": False, **settings}
    settings |= {"JOBDIR": any_spider.folder / "job", "CONCURRENT_REQUESTS": 1}
    stopped = any_spider.run(code, CLOSESPIDER_PAGECOUNT=4, **settings)
    assert "'finish_reason': 'closespider_pagecount'" in stopped.log
    before = site.visited()
    assert before[:4] == ["/20", "/9", "/8", "/7"]
    resumed = any_spider.run(code, **settings)
    expected = ["/20", *(f"/{number}" for number in range(9, -1, -1))]
    assert before + site.visited() == expected[:visited]
    dropped = [crawl.stat("hacs/dropped/budget") for crawl in (stopped, resumed)]
    assert sum(dropped) == len(expected) - visited
    assert "'finish_reason': 'finished'" in resumed.log


def test_all_sitemaps_of_an_index_are_read_before_their_pages_compete_for_the_budget(
    any_spider: AnySpider, site: Site
) -> None:
    def lists(path: str, root: str, tag: str, *paths: str) -> None:
        entries = "".join(f"<{tag}><loc>{site.url}{listed}</loc></{tag}>" for listed in paths)
        kind = {"Content-Type": "text/xml"}
        site.pages[path] = (200, kind, f"<{root}>{entries}</{root}>".encode())

    code = """
        from scrapy.spiders import SitemapSpider
        from tests.seeded import Seeded

        class Maps(Seeded, SitemapSpider):
            sitemap_urls = property(lambda spider: [spider.start_urls[0] + "index.xml"])

            def parse(self, response): ...
    """
    parts = [f"/part{number}.xml" for number in range(2)]
    for number, part in enumerate(parts):
        lists(part, "urlset", "url", *(f"/{4 * number + page}" for page in range(4)))
    settings = {"ROBOTSTXT_OBEY": False, "HACS_BUDGET": 4, "DOWNLOAD_DELAY": 0.2}
    for shown in (parts[:1], parts[::-1]):  # the last is read first
        lists("/index.xml", "sitemapindex", "sitemap", *shown)
        site.visited()
        assert any_spider.run(code, **settings).stat("hacs/visits") == 4
    assert {*site.visited()} == {"/index.xml", *parts, "/4", "/5", "/6", "/7"}


def test_a_project_that_switches_something_of_it_off_is_told_and_still_recorded(
    any_spider: AnySpider, site: Site
) -> None:
    off = '{"hacs_crawler.middlewares.downloads.PageMemoryMiddleware": null}'
    settings = {"SCHEDULER": "scrapy.core.scheduler.Scheduler", "DOWNLOADER_MIDDLEWARES": off}
    crawl = any_spider.run(START_URLS, **settings)
    assert "DOWNLOADER_MIDDLEWARES switches PageMemoryMiddleware off" in crawl.log
    assert "SCHEDULER is set to scrapy.core.scheduler.Scheduler" in crawl.log
    assert "HACS_INNER_SCHEDULER" in crawl.log
    assert (crawl.stat("hacs/visits"), len(site.visited())) == (4, 4)


@pytest.mark.parametrize(
    ("setting", "name", "said"),
    [
        ("DUPEFILTER_CLASS", "Broken", "KeyError: 'oops'"),
        ("SCHEDULER_PRIORITY_QUEUE", "Missing", "NameError: Module 'any_spider'"),
    ],
)
def test_a_class_of_the_project_that_cannot_be_made_is_shown_by_one_traceback(
    setting: str, name: str, said: str, any_spider: AnySpider
) -> None:
    code = dedent(START_URLS) + "\n\nclass Broken:\n    def __init__(self): {}['oops']\n"
    crawl = any_spider.run(code, status=1, tracebacks=True, **{setting: f"any_spider.{name}"})
    # Scrapy 2.13 raises it while it handles another one, whose traceback stands above
    assert crawl.log.count("Traceback") - crawl.log.count("another exception occurred") == 1
    assert f"ERROR: the crawl cannot start: {said}" in crawl.log
    assert "HACS_INNER_SCHEDULER" not in crawl.log


@pytest.mark.usefixtures("ranked")
def test_start_urls_are_ranked_on_a_reactor_that_is_not_asyncios(
    any_spider: AnySpider, site: Site
) -> None:
    reactor = "twisted.internet.selectreactor.SelectReactor"
    crawl = any_spider.run(START_URLS, TWISTED_REACTOR=reactor, CONCURRENT_REQUESTS=1)
    assert site.visited() == ["/3", "/2", "/1", "/0"]
    assert crawl.stat("hacs/visits") == 4
