"""Any spider's pages are under care: recorded, ranked, skipped, and visited again by themselves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from redis import Redis

from changed import changed
from integration_support import AnySpider, Crawl
from reliability_support import whole_pages
from servers import Site

SHOP = """
    from scrapy.linkextractors import LinkExtractor
    from scrapy.spiders import CrawlSpider, Rule


    class Shop(CrawlSpider):
        name = "shop"
        rules = (
            Rule(LinkExtractor(allow="/list"), follow=True),
            Rule(LinkExtractor(allow="/item"), callback="parse_item"),
        )

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.start_urls = [url + "/"]

        def parse_item(self, response):
            links = [link.get() for link in response.css("a::attr(href)")]
            yield {"url": response.url, "links": links}
"""


API = """
    import scrapy


    class Api(scrapy.Spider):
        name = "api"

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.start_urls = [url + "/"]

        def parse(self, response):
            for number in range(24):
                yield response.follow(f"/api/{number}", self.parse_item)

        def parse_item(self, response):
            yield response.json()
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


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    """A shop, and a state whose crawls saw that two items change every day, and others never."""
    with Site() as site:
        spider = AnySpider(tmp_path_factory.mktemp("shop"), site)
        for spider.days in range(4):
            set_shop(site, changed=CHANGING, day=spider.days)
            assert spider.run(SHOP, HACS_PAGES="all").exit_status == 0
        yield site, spider.folder / "state.db"


@pytest.fixture
def learned(shop: tuple[Site, Path], tmp_path: Path) -> tuple[AnySpider, Site]:
    """The spider of the shop two days later, with a copy of the state."""
    site, state = shop
    shutil.copy(state, tmp_path / "state.db")
    set_shop(site, changed=CHANGING, day=5)
    site.visited()
    spider = AnySpider(tmp_path, site)
    spider.days = 5
    return spider, site


def test_pages_may_be_named_by_expressions(any_spider: AnySpider, site: Site) -> None:
    set_shop(site)
    crawl = any_spider.run(SHOP, HACS_PAGES="/item/1$,/list")
    assert crawl.stat("hacs/visits") == 3
    assert len(crawl.items) == 20


def test_a_user_of_start_requests_only_is_told_what_that_leaves_out(
    any_spider: AnySpider, site: Site
) -> None:
    set_shop(site)
    crawl = any_spider.run(SHOP)
    assert "1 of 23 requests was a start request" in crawl.log
    assert "HACS_PAGES" in crawl.log
    everything = any_spider.run(SHOP, HACS_PAGES="all")
    assert "was a start request" not in everything.log
    assert everything.stat("hacs/visits") == 23
    assert len(everything.items) == 20


def test_answers_count_that_may_show_what_is_watched(any_spider: AnySpider, site: Site) -> None:
    json = {"Content-Type": "application/json"}
    site.set("/", "/about.html")
    for number in range(24):
        site.pages[f"/api/{number}"] = (200, json, b'{"id": %d}' % number)
    crawl = any_spider.run(API, HACS_WATCH="items")
    assert "1 of 25 requests was a start request" in crawl.log
    assert "start request" not in any_spider.run(API).log


def test_a_budget_covers_followed_pages(any_spider: AnySpider, site: Site) -> None:
    set_shop(site)
    crawl = any_spider.run(SHOP, HACS_PAGES="all", HACS_BUDGET=10)
    assert len(site.visited()) == 10
    assert crawl.stat("hacs/visits") == 10
    assert crawl.stat("finish_reason") == 0
    assert "'finish_reason': 'finished'" in crawl.log


def test_the_best_known_pages_are_visited_directly(learned: tuple[AnySpider, Site]) -> None:
    any_spider, site = learned
    crawl = any_spider.run(SHOP, HACS_PAGES="all", HACS_BUDGET=2, HACS_REVISIT="budget")
    assert sorted(site.visited()) == ["/item/3", "/item/7"]
    assert sorted(item["url"] for item in crawl.items) == [
        f"{site.url}/item/{number}" for number in CHANGING
    ]
    assert all(len(item["links"]) == 6 for item in crawl.items)
    assert crawl.stat("hacs/updates") == 2


def test_new_pages_have_their_share_of_a_budget(learned: tuple[AnySpider, Site]) -> None:
    any_spider, site = learned
    site.set("/item/3", *(f"/item/{number}" for number in range(100, 150)))
    follows = SHOP.replace('callback="parse_item"', 'callback="parse_item", follow=True')
    any_spider.run(
        follows, HACS_PAGES="all", HACS_BUDGET=10, HACS_REVISIT="budget", HACS_DISCOVER=0.3
    )
    asked = site.visited()
    assert len(asked) == 10
    assert sum(len(path) == len("/item/100") for path in asked) == 3


def test_pages_below_the_threshold_are_not_asked_for(learned: tuple[AnySpider, Site]) -> None:
    any_spider, site = learned
    crawl = any_spider.run(SHOP, HACS_PAGES="all", HACS_THRESHOLD=0.2)
    asked = site.visited()
    assert "/item/3" in asked
    assert "/item/7" in asked
    assert "/item/4" not in asked
    assert {"/", "/list/0", "/list/1"} <= set(asked), "what only leads on is never skipped"
    assert crawl.stat("hacs/dropped/threshold") == 18


NEWS = """
    import scrapy


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


def set_news(site: Site, day: int) -> None:
    site.set("/", "/a", "/b")
    for path in ("/a", "/b"):
        site.set(path, *(f"{path}/{one}" for one in range(day)))


def test_a_page_is_asked_for_as_before_without_what_says_who_asked(
    any_spider: AnySpider, site: Site
) -> None:
    for day in range(3):
        any_spider.days = day
        set_news(site, day)
        any_spider.run(NEWS, HACS_PAGES="all")
    any_spider.days = 4
    set_news(site, 4)
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
    set_news(site, 1)
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

    import scrapy


    class Dated(scrapy.Spider):
        name = "dated"

        def __init__(self, url, run="1", waits="", *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.url, self.run, self.waits = url, run, waits
            self.answered = asyncio.Event()

        async def start(self):
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


def begin_with_two_known_pages(any_spider: AnySpider, site: Site) -> None:
    site.set("/a", "/x")
    site.set("/first", "/x")
    any_spider.run(DATED, HACS_REVISIT=9)
    site.visited()
    any_spider.days = 2


def test_a_start_request_of_the_spiders_own_goes_before_the_revisit_of_its_page(
    any_spider: AnySpider, site: Site
) -> None:
    begin_with_two_known_pages(any_spider, site)
    site.headers.clear()
    crawl = any_spider.run(DATED, "-a", "run=2", HACS_REVISIT=9)
    asked_by = {one["x-run"] for one in site.headers if "x-run" in one}
    assert sorted(site.visited()) == ["/a", "/first"]
    assert {item["run"] for item in crawl.items} == asked_by == {"2"}


def test_a_start_request_is_answered_though_the_page_was_visited_again_before_it_came(
    any_spider: AnySpider, site: Site
) -> None:
    begin_with_two_known_pages(any_spider, site)
    crawl = any_spider.run(DATED, "-a", "run=2", "-a", "waits=1", HACS_REVISIT=9)
    assert sorted(site.visited()) == ["/a", "/a", "/first"]
    assert [item["run"] for item in crawl.items if item["path"] == "/a"] == ["1", "2"]


LOGIN = """
    import scrapy


    class Forum(scrapy.Spider):
        name = "forum"

        async def start(self):
            yield scrapy.FormRequest(self.url + "/login", formdata={"a": "b"}, callback=self.after_login)

        def after_login(self, response):
            yield response.follow("/threads", callback=self.parse_threads)

        def parse_threads(self, response):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, callback=self.parse_thread)

        def parse_thread(self, response):
            yield {"url": response.url}
"""


def set_forum(site: Site, day: int) -> None:
    site.set("/login")
    site.set("/threads", "/t/1", "/t/2")
    for thread in ("/t/1", "/t/2"):
        site.set(thread, *(f"{thread}/{one}" for one in range(day)))


def test_pages_behind_a_form_are_asked_for_only_by_the_spider(
    any_spider: AnySpider, site: Site
) -> None:
    for day in range(3):
        any_spider.days = day
        set_forum(site, day)
        any_spider.run(LOGIN, HACS_PAGES="all", ROBOTSTXT_OBEY=False)
    any_spider.days = 4
    set_forum(site, 4)
    site.visited()
    crawl = any_spider.run(
        LOGIN,
        HACS_PAGES="/t/",
        HACS_BUDGET=2,
        HACS_REVISIT="budget",
        HACS_DISCOVER=0,
        ROBOTSTXT_OBEY=False,
    )
    asked = site.visited()
    assert asked[0] == "/login"
    assert sorted(asked[1:]) == ["/t/1", "/t/2", "/threads"]
    assert len(crawl.items) == 2
    assert "3 known pages were first reached after a form was posted" in crawl.log
    assert crawl.stat("hacs/revisits") == 0


BEHIND_A_LOGIN = """
    import scrapy

    class BehindALogin(scrapy.Spider):
        name = "behind-a-login"

        def __init__(self, url, **kwargs):
            super().__init__(**kwargs)
            self.url = url

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


MAP = """
    from scrapy.spiders import SitemapSpider


    class Map(SitemapSpider):
        name = "map"

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.sitemap_urls = [url + "/sitemap.xml"]

        def parse(self, response):
            yield {"url": response.url}
"""


def test_what_a_sitemap_names_are_pages_and_the_sitemap_is_none(
    any_spider: AnySpider, site: Site
) -> None:
    sitemap = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'
    names = "".join(f"<url><loc>{site.url}/{one}</loc></url>" for one in range(12))
    body = sitemap.format(names).encode()
    site.pages["/sitemap.xml"] = (200, {"Content-Type": "application/xml"}, body)
    for one in range(12):
        site.set(f"/{one}", "/x")
    crawl = any_spider.run(MAP, HACS_BUDGET=5)
    assert crawl.stat("hacs/visits") == 5
    assert crawl.stat("hacs/not_observed") == 0
    assert len(site.visited()) == 6


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
    import scrapy
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


def test_a_spider_that_feeds_itself_when_idle_learns_how_its_pages_are_recorded(
    any_spider: AnySpider, site: Site
) -> None:
    site.set("/1")
    site.set("/2")
    by_default = any_spider.run(IDLE)
    assert "0 of 2 requests were a start request" in by_default.log
    assert 'set HACS_PAGES = "all"' in by_default.log
    assert any_spider.run(IDLE, HACS_PAGES="all").stat("hacs/visits") == 2


def test_a_posted_start_request_says_how_it_is_recorded(any_spider: AnySpider, site: Site) -> None:
    site.set("/1")
    code = """
    import scrapy


    class Posts(scrapy.Spider):
        name = "posts"
        handle_httpstatus_all = True
        custom_settings = {"HTTPERROR_ALLOW_ALL": True}

        async def start(self):
            for word in "ab":
                yield scrapy.Request(self.url + "/1", method="POST", body=word)
"""
    log = any_spider.run(code).log
    assert log.count("was requested by POST") == 1
    assert "a start request" not in log


def test_patterns_that_match_no_answer_say_so(any_spider: AnySpider, site: Site) -> None:
    site.set("/1")
    site.set("/2")
    crawl = any_spider.run(IDLE, HACS_PAGES="/product/")
    assert "WARNING: HACS_PAGES is found in no URL that was answered" in crawl.log
    assert f"{site.url}/2" in crawl.log


def test_patterns_that_find_nothing_beside_others_that_do_are_named_in_the_first_run(
    any_spider: AnySpider, site: Site
) -> None:
    site.set("/1", "/2", "/ad")
    deny = f"{site.url}/ad$,/calendar/"
    first, second = (
        any_spider.run(IDLE, HACS_PAGES="/1,/product/", HACS_LINKS_DENY=deny) for _ in range(2)
    )
    assert "WARNING: HACS_PAGES: '/product/' finds no page" in first.log
    assert "WARNING: HACS_LINKS_DENY: '/calendar/' finds no link" in first.log
    assert "finds no" not in second.log


def test_a_site_whose_urls_change_with_each_run_is_noticed_in_the_second(
    any_spider: AnySpider, site: Site
) -> None:
    for run, said in (("1", 0), ("2", 1)):
        site.set(f"/{run}")
        code = IDLE.replace('["/1", "/2"]', f'["/{run}"]')
        any_spider.days += 1
        log = any_spider.run(code, HACS_PAGES="all").log
        assert log.count("None of the 1 page that the state knew before was visited") == said


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


SHARED = FED.replace(
    "            yield {{",
    """            for link in response.css("a::attr(href)").getall():
                yield response.follow(link)
            yield {{""",
)
"""A spider of scrapy-redis that follows links, by the queue that its processes share."""


@pytest.mark.slow
def test_of_a_queue_that_two_processes_share_each_page_is_visited_by_one_of_them(
    site: Site, tmp_path: Path, redis_port: int, namespace: str
) -> None:
    server, url = Redis(port=redis_port), f"redis://127.0.0.1:{redis_port}"
    paths = [f"/{number}" for number in range(40)]
    for path in paths:
        site.set(path, f"{path}/leaf")
        site.set(f"{path}/leaf")
        server.rpush(namespace, json.dumps({"url": site.url + path}))

    def crawl(number: int) -> Crawl:
        (tmp_path / str(number)).mkdir()
        return AnySpider(tmp_path / str(number), site).run(
            SHARED.format(key=namespace),
            HACS_STATE=url,
            HACS_NAMESPACE=namespace,
            HACS_PAGES="all",
            HACS_INNER_SCHEDULER="scrapy_redis.scheduler.Scheduler",
            DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter",
            SCHEDULER_QUEUE_KEY=f"{namespace}:requests",
            SCHEDULER_DUPEFILTER_KEY=f"{namespace}:seen",
            REDIS_URL=url,
            REDIS_START_URLS_BATCH_SIZE=4,
            MAX_IDLE_TIME_BEFORE_CLOSE=3,
        )

    with ThreadPoolExecutor() as threads:
        both = [*threads.map(crawl, range(2))]
    assert [one.exit_status for one in both] == [0, 0], "\n".join(one.log for one in both)
    assert sorted(site.visited()) == sorted([*paths, *(f"{path}/leaf" for path in paths)])
    assert sum(one.stat("hacs/visits") for one in both) == len(whole_pages(url, namespace)) == 80
    assert sum(one.stat("hacs/ranked") for one in both) == len(paths)
    assert sum(len(one.items) for one in both) == 80


RETRIES = """
    import scrapy


    class Retries(scrapy.Spider):
        name = "retries"

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.start_urls = [url + "/"]

        def parse(self, response):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, lambda one: self.parse_item(one))

        def parse_item(self, response):
            if not response.meta.get("again"):
                yield response.request.replace(
                    dont_filter=True, meta={**response.meta, "again": True}
                )
            else:
                yield {"url": response.url}
"""


def test_a_request_made_again_by_the_spider_is_neither_ranked_nor_left_out(
    any_spider: AnySpider, site: Site
) -> None:
    site.set("/", "/a", "/b")
    for path in ("/a", "/b"):
        site.set(path, "/x")
    crawl = any_spider.run(RETRIES, HACS_PAGES="all", HACS_BUDGET=3)
    assert sorted(site.visited()) == ["/", "/a", "/a", "/b", "/b"]
    assert len(crawl.items) == 2
    assert "2 pages cannot be visited again by themselves" in crawl.log
