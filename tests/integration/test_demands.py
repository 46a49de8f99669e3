"""Weights and intervals in crawls: patterns, seed lists, and requests that ask for their page."""

from urllib.parse import urlsplit

from integration_support import AnySpider, Project
from servers import Site

PAGES = """
    class Pages(scrapy.Spider):
        name = "pages"

        async def start(self):
            for number in range(4):
                yield scrapy.Request(f"{self.url}/{number}.html", meta=self.meta(number))

        def meta(self, number):
            return {"hacs_every": (1, 3)} if number == 2 else {"hacs_weight": number + 1}

        def parse(self, response):
            yield {"url": response.url}
"""


def test_what_requests_ask_of_their_pages_holds_from_run_to_run(
    any_spider: AnySpider, site: Site
) -> None:
    for number in range(4):
        site.set(f"/{number}.html")
    any_spider.run(PAGES)
    assert len(site.visited()) == 4
    any_spider.days = 0.5
    second = any_spider.run(PAGES, HACS_BUDGET=2, CONCURRENT_REQUESTS=1)
    assert second.stat("hacs/dropped/early") == 1
    assert site.visited() == ["/3.html", "/1.html"]
    any_spider.days = 4
    third = any_spider.run(PAGES, HACS_BUDGET=1)
    assert (site.visited(), third.stat("hacs/overdue")) == (["/2.html"], 0)
    assert "Intervals: 1 page is overdue, and this run visits 1." in third.log


def test_weights_of_a_seed_list_order_its_pages(site: Site, project: Project) -> None:
    urls = [f"{site.url}/{number}.html" for number in range(3)]
    for url in urls:
        site.set(urlsplit(url).path)
    crawl = project.crawl([urls[0], f"{urls[1]} 2", f"{urls[2]}, 2.5"], CONCURRENT_REQUESTS=1)
    assert site.visited() == ["/2.html", "/1.html", "/0.html"]
    assert "2 seeds have a weight" in crawl.log


def test_what_a_budget_cannot_keep_and_what_finds_no_page_is_said(
    site: Site, project: Project
) -> None:
    for number in range(3):
        site.set(f"/a/{number}.html")
    urls = [f"{site.url}/a/{number}.html" for number in range(3)]
    settings = {"HACS_EVERY": '{"/a/": [null, 10], "/b/": [1, 2]}', "HACS_WEIGHTS": '{"/c/": 2}'}
    for seeds in (urls, "state"):
        crawl = project.crawl(seeds, HACS_BUDGET=1, **settings)
        assert crawl.stat("hacs/overdue") == (2 if seeds == urls else 0)
        assert "HACS_EVERY: '/b/' matches no known page" in crawl.log
        assert "HACS_WEIGHTS: '/c/' matches no known page" in crawl.log
        assert "HACS_BUDGET = 1 keeps them if a run comes at least every" in crawl.log
    others = project.crawl([f"{site.url}/d.html"], **settings)
    assert "HACS_EVERY: '/b/' matches no known page" in others.log
