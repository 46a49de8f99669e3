"""What is watched of pages in whole crawls: prices, lists, texts."""

import json
from typing import Any

import pytest
from scrapy.exceptions import DropItem
from scrapy.http import Response
from scrapy.signals import item_scraped
from scrapy.utils.test import get_crawler
from twisted.python.failure import Failure

from hacs_crawler.pipelines import OnlyChanges
from hacs_crawler.state import all_findings
from integration_support import AnySpider, Crawl
from reliability_support import opened
from servers import Site

SHOP = """
    from tests.seeded import Seeded

    class Shop(Seeded):
        paths = ["/kettle"]

        def parse(self, response):
            outcome = response.meta["hacs"]
            price = response.css(".price").xpath("string()").get()
            yield {
                "update": outcome.is_update,
                "counts": [outcome.gained, outcome.lost],
                "is_new": outcome.is_new(price),
                "reason": getattr(outcome, "reason", ""),
            }

    def prices(response):
        return response.css(".price").xpath("string()").getall()
"""


def price(site: Site, *prices: str, page: str = "/kettle") -> None:
    shown = "".join(f"<p class=price>{one}</p>" for one in prices)
    body = f"<html><body><a href=/elsewhere>more</a>{shown}</body></html>".encode()
    site.pages[page] = (200, {}, body)


def visits(
    any_spider: AnySpider, site: Site, prices: str, **settings: object
) -> list[dict[str, Any]]:
    """What the spider was told of each day's price."""
    found = []
    for one in prices:
        price(site, *one)
        found += any_spider.run(SHOP, **settings).items
    return found


def test_a_price_that_changes_and_returns_is_two_updates(
    any_spider: AnySpider, site: Site, redis_port: int, namespace: str
) -> None:
    state = {"HACS_STATE": f"redis://127.0.0.1:{redis_port}/9", "HACS_NAMESPACE": namespace}
    found = visits(any_spider, site, "ABAA", HACS_WATCH="css:.price", **state)
    assert [one["update"] for one in found] == [False, True, True, False]
    assert [one["counts"] for one in found] == [[0, 0], [1, 1], [1, 1], [0, 0]]
    assert [one["is_new"] for one in found] == [False, True, True, False]


def test_a_page_without_what_it_showed_was_not_read(any_spider: AnySpider, site: Site) -> None:
    settings = {"HACS_WATCH": "css:.price"}
    visits(any_spider, site, "A", **settings)
    price(site)
    blocked = any_spider.run(SHOP, **settings)
    [told] = blocked.items
    assert told == {"update": False, "counts": [0, 0], "is_new": False, "reason": "nothing_shown"}
    assert blocked.stat("hacs/not_observed/nothing_shown") == 1
    assert blocked.stat("hacs/visits") == 0
    assert "HACS_WATCH = 'css:.price': found on none of the pages that answered (1)" in blocked.log
    price(site, "A")
    assert any_spider.run(SHOP, **settings).items[0]["update"] is False


PLAIN = """
    from tests.seeded import Seeded

    class Jobs(Seeded):
        paths = ["/kettle"]

        def parse(self, response):
            for text in response.css(".price::text").getall():
                yield {"job": text}
"""
ASYNCHRONOUS = "    import asyncio\n" + PLAIN.replace("def parse", "async def parse").replace(
    "yield", "await asyncio.sleep(0)\n                yield"
)
CRAWLING = """
    from scrapy.linkextractors import LinkExtractor
    from scrapy.spiders import CrawlSpider, Rule
    from tests.seeded import Seeded

    class Jobs(Seeded, CrawlSpider):
        rules = (Rule(LinkExtractor(allow="/kettle"), callback="parse_job"),)
        custom_settings = {"HACS_PAGES": ["/kettle"]}

        def parse_job(self, response):
            return [{"job": text} for text in response.css(".price::text").getall()]
"""


def updates(
    any_spider: AnySpider, site: Site, code: str, days: list[str], **settings: object
) -> list[int]:
    """How many updates each day's crawl found, with an item for each letter."""
    found = []
    for one in days:
        price(site, *one)
        crawl = any_spider.run(code, HACS_WATCH="items", **settings)
        found.append(crawl.stat("hacs/updates"))
    return found


@pytest.mark.parametrize("code", [PLAIN, ASYNCHRONOUS, CRAWLING], ids=["plain", "async", "crawl"])
def test_the_items_that_a_callback_yields_are_what_its_page_shows(
    any_spider: AnySpider, site: Site, code: str
) -> None:
    site.set("/", "/kettle")
    assert updates(any_spider, site, code, ["AB", "BA", "BAC", "BC"]) == [0, 0, 1, 0]
    assert [(new.kind, new.text) for new in any_spider.things()] == [("item", "C")]


BROKEN = {
    "raises": "raise ValueError(text)",
    "asks": "response.meta['hacs'].is_new(text)",
    "closes": "from scrapy.exceptions import CloseSpider; raise CloseSpider('enough')",
}


@pytest.mark.parametrize("end", [*BROKEN, "raises at once"])
def test_a_callback_that_is_cut_short_or_raises_at_once_is_no_observation(
    any_spider: AnySpider, site: Site, end: str
) -> None:
    assert updates(any_spider, site, PLAIN, ["AB"]) == [0]
    price(site, "C", "X")
    site.set("/", "/kettle")
    if end in BROKEN:
        end_of_loop = f"if text == 'X': {BROKEN[end]}"
        cut = PLAIN.replace("yield", f"{end_of_loop}\n                yield")
    else:
        cut = CRAWLING.replace("return [", "return 1 / 0 and [")
    crawl = any_spider.run(cut, tracebacks=True, HACS_WATCH="items")
    assert crawl.items == [{"job": "C"}] * (end in BROKEN)
    assert ("no attribute 'is_new'; if items are watched, the" in crawl.log) is (end == "asks")
    assert crawl.stat("hacs/not_observed/callback_failed") == 1
    assert (crawl.stat("hacs/visits"), crawl.stat("hacs/not_observed/unfinished")) == (0, 0)
    assert updates(any_spider, site, PLAIN, ["AB"]) == [0]


def test_an_answer_to_which_the_callback_asks_for_its_page_again_is_no_observation(
    any_spider: AnySpider, site: Site
) -> None:
    again = "get_retry_request(response.request, spider=self, reason='no jobs')"
    retrying = PLAIN.replace(
        "for text",
        f"""from scrapy.downloadermiddlewares.retry import get_retry_request
            if "retry_times" not in response.meta:
                return [{again}]
            return [{{"job": text}} for text""",
    ).replace('():\n                yield {"job": text}', "()]")
    price(site, "A")
    crawl = any_spider.run(retrying, HACS_WATCH="items", DOWNLOAD_DELAY=1)
    assert crawl.items == [{"job": "A"}], crawl.log
    assert (crawl.stat("hacs/visits"), crawl.stat("hacs/updates")) == (1, 0)
    assert crawl.stat("hacs/not_observed/asked_again") == 1


def test_an_empty_list_is_neither_baseline_nor_update(any_spider: AnySpider, site: Site) -> None:
    settings = {"HACS_UPDATES": "any-change"}
    days = ["", "A", "AB", "", "AB"]
    assert updates(any_spider, site, PLAIN, days, **settings) == [0, 0, 1, 0, 0]


LISTS = """
    from tests.seeded import Seeded

    class Lists(Seeded):

        def parse(self, response):
            yield from response.follow_all(css="a.list")
            yield from response.follow_all(css="a.item", callback=self.parse_item)

        def parse_item(self, response):
            yield {key: response.css(f".{key}::text").get() for key in ("name", "price")}
"""


def shop_of_lists(site: Site, *products: str) -> None:
    """The first page leads to a list, and the list to products."""

    def page(path: str, body: str) -> None:
        site.pages[path] = (200, {}, f"<html><body>{body}</body></html>".encode())

    page("/", "<a class=list href=/list>all</a>")
    page("/list", "".join(f"<a class=item href=/{name}>{name}</a>" for name in products))
    for name in products:
        page(f"/{name}", f"<b class=name>{name}</b> <i class=price>{len(name)}</i>")


def test_a_page_that_only_leads_to_others_shows_these(any_spider: AnySpider, site: Site) -> None:
    settings = {"HACS_WATCH": "items", "HACS_PAGES": "all"}
    shop_of_lists(site, "kettle", "teapot")
    first = any_spider.run(LISTS, **settings)
    assert (first.stat("hacs/visits"), first.stat("hacs/not_observed")) == (4, 0)
    quiet = any_spider.run(LISTS, **settings)
    assert (quiet.stat("hacs/visits"), quiet.stat("hacs/updates")) == (4, 0)
    shop_of_lists(site, "kettle", "teapot", "urn")
    gained = any_spider.run(LISTS, **settings)
    assert (gained.stat("hacs/visits"), gained.stat("hacs/updates")) == (5, 1)
    assert [(new.kind, new.text, new.url) for new in any_spider.things()] == [
        ("link", "urn", f"{site.url}/urn")
    ]
    site.pages["/urn"] = site.pages["/list"]
    assert any_spider.run(LISTS, **settings).stat("hacs/not_observed/nothing_shown") == 1


FEED = """
    from tests.seeded import Seeded

    class Feed(Seeded):
        paths = ["/feed"]

        def parse(self, response):
            for url in response.xpath("//item/link/text()|//*[local-name()='link']/@href").getall():
                yield response.follow(url.strip(), self.parse_story)

        def parse_story(self, response):
            yield {"story": response.url}
"""


def test_the_new_entries_of_a_feed_have_their_titles(any_spider: AnySpider, site: Site) -> None:
    story = (200, {}, b"<html><body>a story</body></html>")
    entry = f"<item><title>Tea\n &amp; milk</title><link>\n{site.url}/tea </link></item>"
    of_atom = "<a:entry><a:title>Urns</a:title><a:link href='/urn'/></a:entry>"
    for shown in ("<item><link>/</link></item>", entry + of_atom):
        feed = f"<rss xmlns:a='http://www.w3.org/2005/Atom'>{shown}</rss>".encode()
        site.pages |= {"/feed": (200, {"Content-Type": "application/rss+xml"}, feed)}
        site.pages |= dict.fromkeys(("/", "/tea", "/urn"), story)
        any_spider.run(FEED, HACS_WATCH="items")
    named = {(new.text, new.url) for new in any_spider.things()}
    assert named == {("Tea & milk", f"{site.url}/tea"), ("Urns", f"{site.url}/urn")}


API = """
    import json

    from scrapy.http import JsonRequest
    from tests.seeded import Seeded

    class Api(Seeded):
        paths = ["/api"]

        def parse(self, response):
            answer = response.json()
            for name in answer["names"]:
                if answer["as"] == "items":
                    yield {"name": name}
                elif answer["as"] == "gets":
                    yield response.follow(f"/api/{name}", self.parse_one)
                else:
                    meta = {"hacs_page": response.urljoin(name)} if answer["as"] == "pages" else {}
                    posted = {"url": response.urljoin("/one"), "data": {"name": f"#{name} & more"}}
                    yield JsonRequest(callback=self.parse_one, meta=meta, **posted)

        def parse_one(self, response):
            yield {"answer": response.text}
"""


def shown_by_api(any_spider: AnySpider, site: Site, how: str, *names: str) -> Crawl:
    paths = ("/one", *(f"/api/{name}" for name in names))
    for path, answer in {
        "/api": {"as": how, "names": names},
        **dict(zip(paths, paths, strict=True)),
    }.items():
        kind = {"Content-Type": "application/json"}
        site.pages[path] = (200, kind, json.dumps(answer).encode())
    return any_spider.run(API, HACS_WATCH="items", ROBOTSTXT_OBEY=False)


@pytest.mark.parametrize("how", ["gets", "posts", "pages"])
def test_a_list_in_json_shows_what_it_asks_for_whatever_the_method(
    any_spider: AnySpider, site: Site, how: str
) -> None:
    shown = [("kettle", "teapot"), ("kettle", "teapot"), ("kettle", "teapot", "urn")]
    crawls = [shown_by_api(any_spider, site, how, *names) for names in shown]
    assert [crawl.stat("hacs/updates") for crawl in crawls] == [0, 0, 1]
    assert [crawl.stat("hacs/not_observed") for crawl in crawls] == [0, 0, 0]
    asked = {"gets": "/api/urn", "posts": "/one", "pages": "/urn"}
    assert [new.url for new in any_spider.things()] == [f"{site.url}{asked[how]}"]


def test_a_page_without_its_items_is_a_list_if_confirmed(any_spider: AnySpider, site: Site) -> None:
    names = ("kettle", "teapot")
    assert shown_by_api(any_spider, site, "items", *names).stat("hacs/visits") == 1
    for _ in range(2):
        crawl = shown_by_api(any_spider, site, "gets", *names)
        assert crawl.stat("hacs/not_observed/nothing_shown") == 1
    crawl = shown_by_api(any_spider, site, "gets", *names)
    assert (crawl.stat("hacs/visits"), crawl.stat("hacs/updates")) == (1 + 2, 0)
    crawl = shown_by_api(any_spider, site, "gets", *names, "urn")
    assert (crawl.stat("hacs/visits"), crawl.stat("hacs/updates")) == (1 + 3, 1)
    crawl = shown_by_api(any_spider, site, "items", *names, "urn")
    assert (crawl.stat("hacs/visits"), crawl.stat("hacs/updates")) == (1, 0)


def test_a_field_that_is_empty_everywhere_is_said_and_not_to_be_ignored(
    any_spider: AnySpider, site: Site
) -> None:
    settings = {"HACS_WATCH": "items", "HACS_PAGES": "all", "HACS_WATCH_KEY": "name"}
    products = [f"jug-{number}" for number in range(25)]
    shop_of_lists(site, *products)
    any_spider.run(LISTS, **settings)
    for name in products:
        status, headers, body = site.pages[f"/{name}"]
        site.pages[f"/{name}"] = status, headers, body.replace(b"class=price", b"class=cost")
    crawl = any_spider.run(LISTS, **settings)
    assert "The field 'price' has become empty in 25 of 25 items" in crawl.log
    assert "HACS_WATCH_IGNORE" not in crawl.log
    crawl = any_spider.run(LISTS, HACS_WATCH_FIELDS="name,stok", **settings)
    assert "HACS_WATCH_FIELDS: none of 25 items has stok" in crawl.log
    assert "25 visits served as a baseline: what is watched has changed" in crawl.log


PIPELINE = {"ITEM_PIPELINES": '{"hacs_crawler.pipelines.OnlyChanges": 500}'}


@pytest.mark.parametrize("code", [PLAIN, ASYNCHRONOUS], ids=["plain", "async"])
def test_a_pipeline_lets_only_items_pass_that_their_page_did_not_show_before(
    any_spider: AnySpider, site: Site, code: str
) -> None:
    def passed(shown: str, **settings: object) -> str:
        price(site, *shown)
        crawl = any_spider.run(code, HACS_WATCH="items", **PIPELINE, **settings)
        dropped = crawl.stat("item_dropped_count")
        assert dropped == crawl.stat("hacs/unchanged_items") == len(shown) - len(crawl.items)
        return "".join(sorted(item["job"] for item in crawl.items))

    assert [passed(shown) for shown in ("AB", "AC", "AC", "AB")] == ["AB", "C", "", "B"]
    assert passed("CD", HACS_UPDATES="page") == "D"
    price(site, "E", "X")
    broken = code.replace("yield", "if text == 'X': raise ValueError(text)\n                yield")
    failed = any_spider.run(broken, tracebacks=True, HACS_WATCH="items", **PIPELINE)
    assert failed.items == [{"job": "E"}]
    assert passed("EX") == "EX", "as the callback failed"
    off = any_spider.run(code, **PIPELINE)
    assert 'OnlyChanges needs HACS_WATCH = "items"' in off.log
    assert len(off.items) == 2
    wrong = any_spider.run(code, status=1, HACS_WATCH="items", HACS_BUDGET=0, **PIPELINE)
    assert "HACS_BUDGET = '0'" in wrong.log
    assert (wrong.output, failed.output[:1]) == ("", "["), "no feed is opened, and so emptied"
    assert "OnlyChanges needs" not in wrong.log
    bare = any_spider.run(code, status=1, HACS_WATCH="items", ADDONS="{}", **PIPELINE)
    assert "OnlyChanges needs the add-on" in bare.log
    assert "OnlyChanges passes" not in bare.log


ONE_OBJECT = """
    from tests.seeded import Seeded

    class Rows(Seeded):
        paths = ["/rows"]

        def parse(self, response):
            item = {}
            for text in response.css("li::text").getall():
                item["text"] = text
                yield item if len(text) == 1 else {"text": text}
"""


@pytest.mark.parametrize("at_once", [1, 100])
def test_one_object_yielded_several_times_and_equal_items_are_told_apart(
    any_spider: AnySpider, site: Site, at_once: int
) -> None:
    def passed(*texts: str) -> list[str]:
        body = "".join(f"<li>{text}</li>" for text in texts)
        site.pages["/rows"] = (200, {}, f"<html><body><ul>{body}</ul></body></html>".encode())
        settings = {"HACS_WATCH": "items", "CONCURRENT_ITEMS": at_once, **PIPELINE}
        crawl = any_spider.run(ONE_OBJECT, **settings)
        assert "unknown items" not in crawl.log
        return [item["text"] for item in crawl.items]

    rows = ("a", "a", "sold out", "sold out", "sold out")
    assert len(passed(*rows)) == 5
    assert passed(*rows) == []
    assert passed(*rows, "sold in", "sold in") == ["sold in", "sold in"]


def test_copies_of_equal_items_are_known_in_any_order_and_others_not(caplog) -> None:
    crawler = get_crawler(settings_dict={"HACS_WATCH": "items"})
    pipeline = OnlyChanges.from_crawler(crawler)
    items = [{"text": "a"}, {"text": "a"}]
    for item in items:
        pipeline._tell(item, "known")
    for item in reversed(items):
        with pytest.raises(DropItem) as dropped:
            pipeline.process_item({**item})
        pipeline._forget(item, dropped.value)
    assert not pipeline._verdicts
    for response in (Failure(ValueError()), Response("http://a.example/")):
        assert "unknown items" not in caplog.text
        pipeline.process_item(items[0])
        crawler.signals.send_catch_log(item_scraped, item=items[0], response=response)
    assert "OnlyChanges passes unknown items" in caplog.text
    assert crawler.stats.get_value("hacs/unknown_items") == 1


def test_items_outside_pages_pass_and_a_line_says_so(any_spider: AnySpider, site: Site) -> None:
    shop_of_lists(site, "kettle", "teapot")
    code = (
        LISTS
        + """
        async def start(self):
            import scrapy
            yield {"of": "start()"}
            yield scrapy.Request("http://127.0.0.1:1/", errback=lambda _: [{"of": "errback"}])
            async for request in super().start():
                yield request
    """
    )
    for _ in range(2):
        crawl = any_spider.run(code, HACS_WATCH="items", **PIPELINE)
        assert (len(crawl.items), crawl.stat("hacs/unknown_items")) == (4, 0)
        assert "unknown items" not in crawl.log
        said = "3 items came from start() or answers that are not pages, and will pass in every run: set"
        assert f'{said} HACS_PAGES = "all", or meta["hacs"] = True in requests, or' in crawl.log
    given = {"HACS_WATCH": "items", "HACS_PAGES": "all", **PIPELINE}
    followed = any_spider.run(LISTS, HACS_WEIGHTS='{"/none/": 2}', **given)
    assert "HACS_WEIGHTS: '/none/' matches no known page" in followed.log
    other = LISTS.replace("def parse(", "name = 'other'\n\n        def parse(")
    refused = any_spider.run(other, status=1, HACS_WATCH_FIELDS="price", **given)
    assert "is also watched by the spider 'seeded', but differently" in refused.log
    assert "answers that are not pages" not in refused.log


@pytest.mark.parametrize("watch", ["links", "items", "css:.price"])
def test_a_signal_tells_of_each_visit_whatever_is_watched(
    any_spider: AnySpider, site: Site, watch: str
) -> None:
    listening = PLAIN.replace(
        "        def parse(",
        """        def visited(self, page, outcome):
            new = outcome.status({"job": "B"}) if outcome.gained else "nothing"
            shown = (page[-7:], outcome.is_update, outcome.gained, outcome.lost, new)
            self.logger.info("shown: %s %s +%d -%d %s", *shown)
            outcome.reject("too late")

        def parse(""",
    )
    if watch != "items":
        listening = listening.replace('{"job": "B"}', '"B"')
    logs = []
    for shown in ("A", "B"):
        price(site, shown)
        logs.append(any_spider.run(listening, HACS_WATCH=watch).log)
    assert "shown: /kettle False +0 -0 nothing" in logs[0]
    assert "the visit is recorded: reject the answer in its callback or before" in logs[0]
    expected = "False +0 -0 nothing" if watch == "links" else "True +1 -1 new"
    assert f"shown: /kettle {expected}" in logs[1]


PRODUCTS = """
    from tests.seeded import Seeded

    class Shop(Seeded):
        paths = [f"/{page}" for page in range(6)]

        def parse(self, response):
            texts = response.css(".price::text").getall() or [None, None]
            yield {"url": response.url, "name": texts[0], "price": texts[-1]}
"""


@pytest.mark.parametrize(
    "settings", [{}, {"HACS_WATCH_KEY": "url"}, {"HACS_UPDATES": "site"}], ids=["", "key", "site"]
)
def test_an_error_page_with_status_200_is_neither_news_nor_the_end_of_it(
    any_spider: AnySpider, site: Site, settings: dict[str, str]
) -> None:
    def crawl(*shown: tuple[str, ...]) -> Crawl:
        for page, texts in enumerate(shown):
            price(site, *texts, page=f"/{page}")
        return any_spider.run(PRODUCTS, HACS_WATCH="items", **PIPELINE, **settings)

    own = [(f"jug {page}", "9") for page in range(6)]
    assert len(crawl(*own).items) == 6
    error = crawl(*[("Error", "0")] * 6)
    assert (error.stat("hacs/unread_items"), error.stat("hacs/unread_visits")) == (4, 6)
    assert error.stat("hacs/updates") == error.stat("hacs/found_updates") == 0
    assert len(error.items) == 2
    assert "6 pages of one site showed the very same" in error.log
    assert "(2 such items are in the feed already)" in error.log
    assert "visited 0 of 6 requested pages. 6 pages showed no items that count" in error.log
    still = crawl(*own[:5], ("Error", "0"))
    assert len(still.items) == still.stat("hacs/updates") == 1
    login = crawl(*[()] * 6)
    assert (login.items, login.stat("hacs/unread_items")) == ([], 6)
    assert login.stat("hacs/not_observed/nothing_shown") == 6
    back = crawl(*own[:5], ("jug 5", "8"))
    assert [item["price"] for item in back.items] == ["8"]
    assert back.stat("hacs/updates") == 1


def test_new_pages_whose_items_differ_in_their_address_only_are_new_to_the_site(
    any_spider: AnySpider, site: Site
) -> None:
    settings = {"HACS_WATCH": "items", "HACS_UPDATES": "site", **PIPELINE}
    for page in range(6):
        price(site, "jug", "9", page=f"/{page}")
    any_spider.run(PRODUCTS.replace("range(6)", "range(3)"), **settings)
    assert len(any_spider.run(PRODUCTS, **settings).items) == 3


@pytest.mark.parametrize("updates", ["page", "site"])
def test_what_passes_is_what_was_found_also_of_lists_that_change_as_a_whole(
    any_spider: AnySpider, site: Site, updates: str
) -> None:
    def passed(*lists: str, cut: int = 0) -> str:
        for page, rows in enumerate(lists):
            price(site, *rows, page=f"/{page}")
        status, headers, body = site.pages["/0"]
        site.pages["/0"] = status, headers, body[: len(body) - cut]
        crawl = any_spider.run(
            ASYNCHRONOUS.replace('["/kettle"]', '["/0", "/1"]'),
            **{"HACS_WATCH": "items", "HACS_UPDATES": updates, **PIPELINE},
        )
        assert "answers that are not pages" not in crawl.log
        return "".join(sorted(item["job"] for item in crawl.items))

    assert passed("ABCDEF", "GHIJKL") == "ABCDEFGHIJKL"
    assert passed("ABCDEFM", "GHIJKLM") == ("M" if updates == "site" else "MM")
    assert passed("NOPQRS", "GHIJKLM") == "NOPQRS"
    assert passed("NOPQRS", "GHIJKLM", cut=16) == "", "cut within a tag, so it is not the page"
    assert passed("NOPQRS", "GHIJKLM") == ""
    with opened(f"sqlite:///{any_spider.folder}/state.db") as state:
        found = [thing.text for _, page in all_findings(state.store) for thing in page.things]
    assert sorted(set(found)) == [*"MNOPQRS"]
