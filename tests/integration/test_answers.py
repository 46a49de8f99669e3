"""Which answers are visits of their page, and what a project says of them."""

import json
import re

import pytest

from integration_support import AnySpider
from servers import Site

SPIDER = """
    from tests.seeded import Seeded

    class Any(Seeded):
        paths = ["/page"]

        def parse(self, response):
            {parse}
"""
YIELDS_JSON = SPIDER.format(parse="yield from response.json()")
PIPELINES = 'custom_settings = {"ITEM_PIPELINES": {"hacs_crawler.pipelines.OnlyChanges": 1}}'
ONLY_CHANGES = YIELDS_JSON.replace("paths =", f"{PIPELINES}\n        paths =")
REJECTS = SPIDER.format(
    parse="""if b"log in" in response.body:
                response.meta["hacs"].reject("login page")"""
)
LOGIN = 'if b"log in" in response.body:'
REJECTED_ITEMS = ONLY_CHANGES.replace(
    "yield from",
    f"""{LOGIN}
                response.meta["hacs"].reject("login page")
            yield from""",
)
REJECTING_MIDDLEWARE = (
    ONLY_CHANGES.replace(
        "class Any",
        f"""class Rejects:
        def process_response(self, request, response, spider=None):
            {LOGIN}
                request.meta["hacs"] = Expected()
                request.meta["hacs"].reject("login page")
            return response

    class Any""",
    )
    .replace("custom_settings = {", 'custom_settings = {"DOWNLOADER_MIDDLEWARES": {Rejects: 543}, ')
    .replace("from tests", "from hacs_crawler.outcome import Expected\n    from tests")
)
FAILS = SPIDER.format(parse="raise ValueError('a page of another layout')")


def answer(site: Site, body: str, kind: str = "text/html") -> None:
    site.pages["/page"] = (200, {"Content-Type": kind}, body.encode())


def test_a_rejected_answer_is_not_recorded(any_spider: AnySpider, site: Site) -> None:
    updates = []
    for body in ("<a href=/one>", "<p>Please log in <a href=/lost>", "<a href=/one>"):
        answer(site, body)
        crawl = any_spider.run(REJECTS)
        updates.append((crawl.stat("hacs/visits"), crawl.stat("hacs/updates")))
        if "log in" in body:
            assert crawl.stat("hacs/not_observed/rejected") == 1
            assert "1 answer rejected by the project: 1 x login page" in crawl.log
    assert updates == [(1, 0), (0, 0), (1, 0)]


@pytest.mark.parametrize("code", [REJECTED_ITEMS, REJECTING_MIDDLEWARE])
def test_items_of_a_rejected_answer_pass_no_pipeline(
    any_spider: AnySpider, site: Site, code: str
) -> None:
    passed = []
    for name in ("log in", "kettle", "log in", "kettle"):
        answer(site, json.dumps([{"name": name}]), "application/json")
        crawl = any_spider.run(code, HACS_WATCH="items")
        passed.append([item["name"] for item in crawl.items])
        assert crawl.stat("hacs/unread_items") == (name == "log in")
    assert passed == [[], ["kettle"], [], []]


def test_links_of_a_page_whose_callback_fails_are_recorded(
    any_spider: AnySpider, site: Site
) -> None:
    answer(site, "<a href=/one>")
    assert any_spider.run(FAILS, tracebacks=True).stat("hacs/visits") == 1


@pytest.mark.parametrize("fault", ["response.meta['hacs'].reject()", "1 / 0"])
def test_a_budget_is_not_spent_on_the_same_faulty_pages_for_ever(
    any_spider: AnySpider, site: Site, fault: str
) -> None:
    code = SPIDER.format(parse=fault).replace("paths = [", 'paths = ["/other", ')
    for path in ("/other", "/page"):
        site.set(path, "/one")
        any_spider.run(code, tracebacks=True, HACS_WATCH="items", HACS_BUDGET=1)
    assert {*site.visited()} == {"/other", "/page"}


def test_an_answer_of_the_http_cache_counts_if_the_server_confirmed_it(
    any_spider: AnySpider, site: Site
) -> None:
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(any_spider.folder)}
    cache["HTTPCACHE_POLICY"] = "scrapy.extensions.httpcache.RFC2616Policy"
    visits = []
    for status in (200, 200, 500):
        site.set("/page", "/one", status=status, ETag=f'"{status}"')
        crawl = any_spider.run(SPIDER.format(parse="pass"), **cache)
        visits.append((crawl.stat("hacs/visits"), crawl.stat("hacs/not_observed/cached")))
    assert visits == [(1, 0), (1, 0), (0, 1)]


POSTS = ONLY_CHANGES.replace(
    "yield from response.json()",
    """yield {"at": response.url, "shown": response.url[-3:]}

        async def start(self):
            page = self.start_urls[0]
            for body in ("one", "two", "six"):
                yield scrapy.Request(REQUEST)""",
)
POST = "page, method='POST', body=body"
ONE_PAGE = r"Requests with different URLs or bodies are for one page, SITE/page(#\w+)?, and"


@pytest.mark.parametrize(
    ("url", "meta", "times", "said"),
    [
        (POST, "{'hacs': True}", 1, ONE_PAGE),
        (POST, "{'hacs_page': f'{page}#{body}'}", 1, ONE_PAGE),
        (POST, "{'hacs_page': 'q=1'}", 1, "hacs_page = 'q=1' is not a URL"),
        (POST, "{}", 1, r"3 items .* will pass in every run: set meta..hacs_page.. of each POST"),
        ("f'{page}?{body}'", "{'hacs_page': page}", 1, ONE_PAGE),
        ("f'{page}?{body}=age'", "{'hacs_page': page}", 0, ONE_PAGE),  # each shows "age"
    ],
)
def test_it_is_said_once_if_requests_for_different_things_share_a_page_or_have_none(
    any_spider: AnySpider, site: Site, url: str, meta: str, times: int, said: str
) -> None:
    queries = (f"?{body}{more}" for body in ("one", "two", "six") for more in ("", "=age"))
    for query in ("", *queries):
        site.set(f"/page{query}", "/one")
    code = POSTS.replace("REQUEST", f"{url}, meta={meta}")
    crawl = any_spider.run(code, HACS_PAGES="all", HACS_WATCH="items")
    assert len(re.findall(f"WARNING: {said}".replace("SITE", site.url), crawl.log)) == times
    assert "was requested by POST" not in crawl.log
