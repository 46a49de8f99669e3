"""Which answers are visits of their page, and what a project says of them."""

from __future__ import annotations

import json

from integration_support import AnySpider
from servers import Site

SPIDER = """
    import scrapy


    class Any(scrapy.Spider):
        name = "any"

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.start_urls = [url + "/page"]

        def parse(self, response):
            {parse}
"""
YIELDS_JSON = SPIDER.format(parse="yield from response.json()")
PIPELINES = 'custom_settings = {"ITEM_PIPELINES": {"hacs_crawler.pipelines.OnlyChanges": 1}}'
ONLY_CHANGES = YIELDS_JSON.replace('name = "any"', f'name = "any"\n        {PIPELINES}')
REJECTS = SPIDER.format(
    parse="""if b"log in" in response.body:
                response.meta["hacs"].reject("login page")"""
)
FAILS = SPIDER.format(parse="raise ValueError('a page of another layout')")


def answer(site: Site, body: str, kind: str = "text/html") -> None:
    site.pages["/page"] = (200, {"Content-Type": kind}, body.encode())


def test_items_of_json_are_watched(any_spider: AnySpider, site: Site) -> None:
    found = []
    for day in range(3):
        items = [{"id": number, "price": 9} for number in range(3 + day)]
        answer(site, json.dumps(items), "application/json")
        crawl = any_spider.run(ONLY_CHANGES, HACS_WATCH="items")
        any_spider.days += 1
        found.append([crawl.stat(f"hacs/{name}") for name in ("visits", "updates", "not_observed")])
        assert crawl.stat("item_scraped_count") == (3 if day == 0 else 1)
    assert found == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


def test_json_where_links_are_watched_is_no_failure_and_is_said(
    any_spider: AnySpider, site: Site
) -> None:
    answer(site, "[]", "application/json")
    crawl = any_spider.run(YIELDS_JSON)
    assert "1 of 1 answer were JSON" in crawl.log or "1 of 1 answers were JSON" in crawl.log
    assert '"items", or "jmespath' in crawl.log
    assert " failed" not in crawl.log.partition("HACS visited")[2].partition("\n")[0]


def test_a_rejected_answer_is_not_recorded(any_spider: AnySpider, site: Site) -> None:
    updates = []
    for body in ("<a href=/one>", "<p>Please log in <a href=/lost>", "<a href=/one>"):
        answer(site, body)
        crawl = any_spider.run(REJECTS)
        any_spider.days += 1
        updates.append((crawl.stat("hacs/visits"), crawl.stat("hacs/updates")))
        if "log in" in body:
            assert crawl.stat("hacs/not_observed/rejected") == 1
            assert "1 answer the project said to be no page: 1 x login page" in crawl.log
    assert updates == [(1, 0), (0, 0), (1, 0)]


def test_links_of_a_page_whose_callback_fails_are_recorded(
    any_spider: AnySpider, site: Site
) -> None:
    answer(site, "<a href=/one>")
    assert any_spider.run(FAILS).stat("hacs/visits") == 1


def test_a_first_visit_that_shows_nothing_is_no_baseline(any_spider: AnySpider, site: Site) -> None:
    code = SPIDER.format(
        parse="""for price in response.css("b::text").getall():
                yield {"price": price}"""
    )
    found = []
    for body in ("<h1>Are you a robot?</h1>", "<b>9</b>", "<h1>Are you a robot?</h1>", "<b>9</b>"):
        answer(site, body)
        crawl = any_spider.run(code, HACS_WATCH="css:b")
        any_spider.days += 1
        found.append((crawl.stat("hacs/visits"), crawl.stat("hacs/updates")))
    assert found == [(0, 0), (1, 0), (0, 0), (1, 0)]


def test_pages_that_show_the_very_same_in_one_run_were_not_read(
    any_spider: AnySpider, site: Site
) -> None:
    code = SPIDER.format(parse="pass").replace(
        '[url + "/page"]', '[f"{url}/{n}" for n in range(3)]'
    )
    updates = []
    for day in range(4):
        for page in range(3):
            links = "".join(f"<a href=/{page}/{n}>x</a>" for n in range(6))
            body = "<a href=/a>Log in</a><a href=/b>Help</a>" if day in {1, 2} else links
            site.pages[f"/{page}"] = (200, {"Content-Type": "text/html"}, body.encode())
        crawl = any_spider.run(code)
        any_spider.days += 1
        updates.append((crawl.stat("hacs/unread_visits"), crawl.stat("hacs/updates")))
    assert updates == [(0, 0), (3, 0), (3, 0), (0, 0)]
