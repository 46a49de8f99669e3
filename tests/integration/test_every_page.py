"""Any spider's pages are under care: recorded, ranked, skipped, and visited again by themselves."""

import json
import re

import pytest
from redis import Redis

from changed import changed
from integration_support import AnySpider, Crawl
from servers import Site

SHOP = """
    from scrapy.linkextractors import LinkExtractor
    from scrapy.spiders import CrawlSpider, Rule
    from tests.seeded import Seeded

    class Shop(Seeded, CrawlSpider):
        rules = (
            Rule(LinkExtractor(allow="/list"), follow=True),
            Rule(LinkExtractor(allow="/item"), callback="parse_item"),
        )

        def parse_item(self, response):
            links = [link.get() for link in response.css("a::attr(href)")]
            yield {"url": response.url, "links": links}
"""


def set_shop(site: Site, pages: int = 20, changed: tuple[int, ...] = (), day: int = 0) -> None:
    """A shop of items behind listings of ten; some items have gained a link on that day."""
    listings = [f"/list/{number}" for number in range(pages // 10)]
    site.set("/", *listings)
    for number, listing in enumerate(listings):
        site.set(listing, *(f"/item/{10 * number + one}" for one in range(10)))
    for number in range(pages):
        news = [f"/news/{number}/{one}" for one in range(day)] if number in changed else []
        site.set(f"/item/{number}", "/", *news)


CHANGING = (3, 7)


def test_the_best_known_pages_are_visited_directly(any_spider: AnySpider, site: Site) -> None:
    given = {"HACS_PAGES": "all", "HACS_BUDGET": 30, "HACS_EVERY": '{"/item/1": [null, 20]}'}
    for any_spider.days in range(4):  # two items change every day, and others never
        set_shop(site, changed=CHANGING, day=any_spider.days)
        crawl = any_spider.run(SHOP, **given)
        # said once, of the pages that have been found by then
        assert re.search(
            r"INFO: Intervals: (no page|(\d+) pages?) (is|are) overdue(?(2),.*visits \2)\.",
            crawl.log,
        )
    any_spider.days = 5
    set_shop(site, changed=CHANGING, day=5)
    site.visited()
    crawl = any_spider.run(SHOP, HACS_PAGES="all", HACS_BUDGET=2, HACS_REVISIT="budget")
    assert sorted(site.visited()) == ["/item/3", "/item/7"]
    assert sorted(item["url"] for item in crawl.items) == [
        f"{site.url}/item/{number}" for number in CHANGING
    ]
    assert all(len(item["links"]) == 6 for item in crawl.items)
    assert crawl.stat("hacs/updates") == 2
    renamed = SHOP.replace("rules", "name = 'renamed'; rules", 1)
    log = any_spider.run(renamed, HACS_PAGES="all", HACS_BUDGET=5, HACS_REVISIT="budget").log
    assert "keeps no request of the spider renamed, only of " in log
    assert "hacs/revisits" not in log
    assert "HACS_REVISIT = " not in log


def test_pages_of_all_lists_compete_for_the_budget(any_spider: AnySpider, site: Site) -> None:
    for any_spider.days, budget in ((0, 0), (1, 0), (2, 0), (5, 10)):
        set_shop(site, 60 + budget, (57,), any_spider.days)
        site.set("/", "/list/0")
        for first in range(0, 60 + budget, 10):  # each list leads to the next one
            items = (f"/item/{first + one}" for one in range(10))
            site.set(f"/list/{first // 10}", f"/list/{first // 10 + 1}", *items)
        site.visited()
        crawl = any_spider.run(SHOP, HACS_PAGES="/item/,/$", HACS_BUDGET=budget or "")
    assert "/item/57" in site.visited()
    assert "of them for pages never seen (see HACS_DISCOVER)" in crawl.log


NEWS = """
    class News(scrapy.Spider):
        name = "news"

        async def start(self):
            yield scrapy.Request(self.url + "/", cookies={"who": "ada"}, headers={"Authorization": "x"})

        def parse(self, response):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(
                    link,
                    callback=self.parse_story,
                    headers={"X-Part": "story", "Authorization": "Bearer x"},
                    cb_kwargs={"part": link},
                    meta={"colour": "red", "cookiejar": 7, "made": object()},
                )

        def parse_story(self, response, part):
            yield {"part": part, "colour": response.meta.get("colour"), "depth": response.meta["depth"]}
"""


def set_day(site: Site, day: int, index: str, *paths: str) -> None:
    """An index of pages that gain a link a day."""
    site.set(index, *paths)
    for path in paths:
        site.set(path, *(f"{path}/{one}" for one in range(day)))


def test_a_page_is_asked_for_as_before_without_what_says_who_asked(
    any_spider: AnySpider, site: Site
) -> None:
    for any_spider.days in range(3):
        set_day(site, any_spider.days, "/", "/a", "/b")
        any_spider.run(NEWS, HACS_PAGES="all")
    any_spider.days = 4
    set_day(site, 4, "/", "/a", "/b")
    site.visited()
    crawl = any_spider.run(NEWS, HACS_PAGES="all", HACS_BUDGET=2, HACS_REVISIT="budget")
    headers = list(site.headers)
    assert sorted(site.visited()) == ["/a", "/b"]
    assert sorted(crawl.items, key=lambda item: item["part"]) == [
        {"part": "/a", "colour": "red", "depth": 1},
        {"part": "/b", "colour": "red", "depth": 1},
    ]
    pages = [one for one in headers if one.get("x-part")]
    assert [one["x-part"] for one in pages] == ["story", "story"]
    assert not any("authorization" in one or "cookie" in one for one in pages)


def test_pages_whose_callback_is_gone_are_said_once(any_spider: AnySpider, site: Site) -> None:
    set_day(site, 1, "/", "/a", "/b")
    any_spider.run(NEWS, HACS_PAGES="all")
    any_spider.days = 3
    renamed = NEWS.replace("parse_story", "parse_article")
    first = any_spider.run(renamed, HACS_PAGES="all", HACS_REVISIT=10)
    assert "2 known pages are not visited again" in first.log
    assert "(parse_story)" in first.log
    second = any_spider.run(renamed, HACS_PAGES="all", HACS_REVISIT=10)
    assert "are not visited again" not in second.log


DATED = """
    import asyncio

    class Dated(scrapy.Spider):
        name = "dated"

        run, waits = "1", ""

        async def start(self):
            self.answered = asyncio.Event()
            yield self.request("/first")
            if self.waits:
                await self.answered.wait()
            yield self.request("/a")

        def request(self, path):
            return scrapy.Request(
                self.url + path, cb_kwargs={"run": self.run}, headers={"X-Run": self.run}
            )

        def parse(self, response, run):
            path = response.url.removeprefix(self.url)
            if path == "/a":
                self.answered.set()
            yield {"path": path, "run": run}
"""


def test_start_requests_go_before_the_revisits_of_their_pages_and_are_answered_after_them_too(
    any_spider: AnySpider, site: Site
) -> None:
    site.set("/a", "/x")
    site.set("/first", "/x")
    any_spider.run(DATED, HACS_REVISIT=9)
    site.visited()
    any_spider.days = 2
    site.headers.clear()
    crawl = any_spider.run(DATED, "run=2", HACS_REVISIT=9)
    asked_by = {one["x-run"] for one in site.headers if "x-run" in one}
    assert sorted(site.visited()) == ["/a", "/first"]
    assert {item["run"] for item in crawl.items} == asked_by == {"2"}
    any_spider.days = 4
    crawl = any_spider.run(DATED, "run=3", "waits=1", HACS_REVISIT=9)
    assert sorted(site.visited()) == ["/a", "/a", "/first"]
    assert [item["run"] for item in crawl.items if item["path"] == "/a"] == ["2", "3"]


LOGIN = """
    class Forum(scrapy.Spider):
        name = "forum"

        async def start(self):
            for word in "ab":
                data = {"a": word}
                yield scrapy.FormRequest(self.url + "/login", self.after_login, formdata=data)

        def after_login(self, response):
            yield response.follow("/threads", callback=self.parse_threads)

        def parse_threads(self, response):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, callback=self.parse_thread)

        def parse_thread(self, response):
            yield {"url": response.url}
"""


def test_pages_behind_a_form_are_asked_for_only_by_the_spider(
    any_spider: AnySpider, site: Site
) -> None:
    site.set("/login")
    for any_spider.days in range(3):
        set_day(site, any_spider.days, "/threads", "/t/1", "/t/2")
        any_spider.run(LOGIN, HACS_PAGES="all", ROBOTSTXT_OBEY=False)
    any_spider.days = 4
    set_day(site, 4, "/threads", "/t/1", "/t/2")
    site.visited()
    two = {"HACS_BUDGET": 2, "HACS_REVISIT": "budget", "HACS_DISCOVER": 0}
    crawl = any_spider.run(LOGIN, HACS_PAGES="/t/", **two, ROBOTSTXT_OBEY=False)
    asked = site.visited()
    assert asked[0] == "/login"
    assert sorted(asked) == ["/login", "/login", "/t/1", "/t/2", "/threads"]
    assert len(crawl.items) == 2
    assert "3 of the best pages are not revisited, as they are requested by POST" in crawl.log
    assert crawl.log.count(f"INFO: {site.url}/login was requested by POST") == 1
    unseen = any_spider.run(LOGIN, ROBOTSTXT_OBEY=False)
    assert f"INFO: {site.url}/login was requested by POST" in unseen.log
    assert crawl.stat("hacs/revisits") == 0


BEHIND_A_LOGIN = """
    class BehindALogin(scrapy.Spider):
        name = "behind-a-login"

        async def start(self):
            yield scrapy.Request(self.url + "/form", callback=self.parse_form)
            yield scrapy.FormRequest(self.url + "/login?start", formdata={"a": "b"})

        def parse_form(self, response):
            data = {"a": "b"}
            yield scrapy.FormRequest(response.urljoin("/login"), formdata=data)
            yield response.follow("/file.pdf")

        def parse(self, response):
            yield {"url": response.url}
"""


@pytest.mark.parametrize("pages", ["start", "/form|/home"])
def test_what_a_request_for_no_page_leads_to_by_a_redirect_is_sent_whatever_the_budget(
    pages: str, any_spider: AnySpider, site: Site
) -> None:
    site.set("/form", "/x")
    redirects = {"/login": "/home", "/login?start": "/home?start", "/file.pdf": "/home?file"}
    for path, target in redirects.items():
        site.pages[path] = (302, {"Location": f"{site.url}{target}"}, b"")
        site.set(target)
    crawl = any_spider.run(
        BEHIND_A_LOGIN, HACS_PAGES=pages, HACS_BUDGET=1, HACS_DISCOVER=0, ROBOTSTXT_OBEY=False
    )
    assert {item["url"].removeprefix(site.url) for item in crawl.items} == {*redirects.values()}
    assert crawl.stat("hacs/visits") == 1


FED = """
    from scrapy.core.engine import ExecutionEngine
    from scrapy_redis.spiders import RedisSpider

    ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 0.2  # instead of 5 s, which an idle spider waits for

    class Fed(RedisSpider):
        name = "fed"
        redis_key = {key!r}

        def parse(self, response):
            yield {{"url": response.url}}
"""


IDLE = """
    from scrapy import signals
    from scrapy.exceptions import DontCloseSpider

    class Idle(scrapy.Spider):
        name = "idle"
        left = ["/1", "/2"]

        async def start(self):
            self.crawler.signals.connect(self.feed, signals.spider_idle)
            return
            yield

        def feed(self):
            if self.left:
                self.crawler.engine.crawl(scrapy.Request(self.url + self.left.pop()))
                raise DontCloseSpider

        def parse(self, response):
            yield {"url": response.url}
"""
MAPS = IDLE.replace("scrapy.Spider", "scrapy.spiders.SitemapSpider").replace(
    "self.left.pop()", "self.left.pop(), self._parse_sitemap"
)


@pytest.mark.parametrize(
    ("pages", "kind", "said"),
    [
        ("start", "xml;sitemap", ""),
        ("start", "html", "Only start requests are ranked and recorded, 0 of 2 requests"),
        ("/product/", "html", "WARNING: HACS_PAGES matches none of the URLs that answered"),
        ("all", "html", ""),
        ("start", "xml", "WARNING: HACS_WATCH = 'publications' cannot read XML: 2 of 2 answers."),
    ],
)
def test_where_no_answer_was_a_page_it_is_said_why(
    pages: str, kind: str, said: str, any_spider: AnySpider, site: Site
) -> None:
    for path in ("/1", "/2"):
        site.set(path, Content_Type=f"text/{kind}")
    crawl = any_spider.run(MAPS if "sitemap" in kind else IDLE, HACS_PAGES=pages)
    assert said in crawl.log
    assert ("cannot read" in crawl.log) is (kind == "xml")
    assert crawl.stat("hacs/visits") == (2 if pages == "all" else 0)
    assert ("HACS_PAGES" in crawl.log) is (bool(said) and kind == "html")


def test_patterns_that_find_nothing_beside_others_that_do_are_named_in_the_first_run(
    any_spider: AnySpider, site: Site
) -> None:
    site.set("/1", "/2", "/ad")
    deny = f"{site.url}/ad$,/calendar/"
    first, second = (
        any_spider.run(IDLE, HACS_PAGES="/1,/product/", HACS_LINKS_DENY=deny) for _ in range(2)
    )
    assert "WARNING: HACS_PAGES: '/product/' matches no known page" in first.log
    assert "WARNING: HACS_LINKS_DENY: '/calendar/' matches no link" in first.log
    assert "matches no" not in second.log
    items = {"HACS_WATCH": "items", "HACS_NAMESPACE": "items", "HACS_LINKS_DENY": "/ad$"}
    unread = any_spider.run(IDLE, HACS_PAGES="/1", **items)
    assert "WARNING: HACS_LINKS_DENY = '/ad$' has no effect with HACS_WATCH = 'items'" in unread.log
    for given in ({}, {}, {"HACS_NAMESPACE": "new"}):
        none = any_spider.run(IDLE, HACS_PAGES="/1", HACS_LINKS_DENY="http", **given)
        assert "WARNING: HACS_LINKS_DENY leaves no link on any page of this run (1)" in none.log
        assert "without a link" not in none.log


def test_what_a_redis_queue_feeds_is_ranked_in_its_batches(
    any_spider: AnySpider, site: Site, redis_port: int, namespace: str
) -> None:
    server = Redis(port=redis_port)
    code = FED.format(key=namespace)
    quiet = [f"/quiet-{number}" for number in range(6)]
    for path in quiet:
        site.set(path, "/x")

    def crawl(day: int) -> Crawl:
        any_spider.days = day
        site.set("/busy", *(f"/{one}" for one in range(day + 1 - (day == 2))))
        for path in (*quiet, "/busy"):
            server.rpush(namespace, json.dumps({"url": site.url + path}))
        return any_spider.run(
            code,
            REDIS_URL=f"redis://127.0.0.1:{redis_port}",
            MAX_IDLE_TIME_BEFORE_CLOSE=1,
            ROBOTSTXT_OBEY=False,  # those that wait for it together go on in any order
            CONCURRENT_REQUESTS_PER_DOMAIN=1,  # of two at once the server may note either first
            **changed(crawl__start_watch__PAUSE_SECONDS=30),  # a busy machine's pause is not one
        )

    for day in range(5):
        crawl(day)
    site.visited()
    last = crawl(6)
    visited = site.visited()
    assert sorted(visited) == sorted([*quiet, "/busy"])
    assert visited[0] == "/busy", "it was the last of the queue"
    assert last.stat("hacs/ranked") == last.stat("hacs/visits") == len(visited)


LISTING = """
    from tests.seeded import Seeded

    class Listing(Seeded):
        paths = ["/list"]

        def parse(self, response):
            yield from response.follow_all(css="a", callback=self.parse_item)

        def parse_item(self, response):
            yield {"url": response.url}
"""


def test_a_page_that_only_leads_to_others_gets_no_condition(
    site: Site, any_spider: AnySpider
) -> None:
    site.set("/list", "item", ETag='"list"')
    site.set("/item", "x.pdf", ETag='"item"')
    for _ in range(2):
        site.visited()
        any_spider.run(LISTING, HACS_PAGES="all", HACS_CONDITIONAL_REQUESTS=True)
    asked = zip(site.asked, site.headers, strict=True)
    conditional = {path for path, headers in asked if "if-none-match" in headers}
    assert conditional == {"/item"}
