"""Pages that only a sitemap or a feed names are asked for as the spider would, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from integration_support import AnySpider, Crawl
from servers import Site

RULES = """
    from scrapy.linkextractors import LinkExtractor
    from scrapy.spiders import CrawlSpider, Rule


    class Shop(CrawlSpider):
        name = "shop"
        rules = (
            Rule(LinkExtractor(allow="/list"), follow=True),
            Rule(LinkExtractor(allow="/item", deny="/item/not"), callback="parse_item", {more}),
        )

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.start_urls = [url + "/"]

        def made(self, request, response):
            return {made}

        def parse_item(self, response, **said):
            links = [link.get() for link in response.css("a::attr(href)")]
            yield {{"url": response.url, "links": links, "meta": response.meta["rule"], **said}}
"""
SHOP = RULES.format(more="cb_kwargs={'said': 'by the rule'}", made="request")
PLAIN = """
    import scrapy


    class Plain(scrapy.Spider):
        name = "plain"

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.start_urls = [url + "/"]

        def parse(self, response):
            for link in response.css("a::attr(href)").getall():
                if "/item/" in link:
                    yield response.follow(link, self.parse_item, cb_kwargs={kwargs}, meta={{"a": 1}})

        def parse_item(self, response, **said):
            yield {{"url": response.url, "a": response.meta["a"], **said}}
"""
ON = {"HACS_PAGES": "all", "HACS_REVISIT": 10, "HACS_SIGNALS": 50, "ROBOTSTXT_OBEY": True}
NOW = datetime.now(UTC)


def set_site(site: Site, items: int = 6) -> None:
    """A shop of one list, whose first page announces a feed."""
    links = "".join(f'<a href="/item/{number}">x</a>' for number in range(items))
    head = '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'
    body = f'<html><head>{head}</head><body><a href="/list">x</a>{links}</body></html>'
    site.pages["/"] = site.pages["/list"] = (200, {}, body.encode())
    for number in range(items):
        site.set(f"/item/{number}", "/")
    site.set("/item/99", "/", "/news")


def set_feed(site: Site, *urls: str) -> None:
    """A feed of entries, the newest first."""
    entries = "".join(
        f"<item><link>{url if '://' in url else site.url + url}</link>"
        f"<pubDate>{format_datetime(NOW - timedelta(minutes=place))}</pubDate></item>"
        for place, url in enumerate(urls)
    )
    body = f'<rss version="2.0"><channel>{entries}</channel></rss>'.encode()
    site.pages["/feed.xml"] = (200, {"Content-Type": "application/rss+xml"}, body)


def second_run(any_spider: AnySpider, site: Site, code: str, **settings: object) -> Crawl:
    """Crawl once, and again the next day; what was asked for then is what `site.visited()` returns."""
    any_spider.days = 0
    first = any_spider.run(code, **{**ON, **settings})
    assert first.exit_status == 0, first.log
    assert first.stat("hacs/signals/discovered") == 0
    site.visited()
    any_spider.days = 1
    second = any_spider.run(code, **{**ON, **settings})
    assert second.exit_status == 0, second.log
    assert "Traceback" not in second.log
    return second


def test_a_page_that_only_a_feed_names_is_asked_for_as_the_rule_would(
    any_spider: AnySpider, site: Site
) -> None:
    set_site(site)
    set_feed(site, "/item/99", "/item/1")
    crawl = second_run(any_spider, site, SHOP)
    (item,) = [one for one in crawl.items if one["url"].endswith("/item/99")]
    assert item["links"] == ["/", "/news"]
    assert (item["meta"], item["said"]) == (1, "by the rule")
    assert crawl.stat("hacs/signals/discovered") == 1
    assert crawl.stat("hacs/first_visits") == 1
    assert site.visited().count("/item/99") == 1
    third = any_spider.run(SHOP, **ON)
    assert third.stat("hacs/signals/discovered") == 0


def test_a_page_of_a_sitemap_without_times_is_asked_for_too(
    any_spider: AnySpider, site: Site
) -> None:
    set_site(site)
    body = f"<urlset><url><loc>{site.url}/item/99</loc></url></urlset>".encode()
    site.pages["/sitemap.xml"] = (200, {"Content-Type": "application/xml"}, body)
    second_run(any_spider, site, SHOP)
    assert "/item/99" in site.visited()


def test_what_a_lying_feed_names_costs_nothing(any_spider: AnySpider, site: Site) -> None:
    set_site(site)
    outside = [f"http://127.0.0.9:1/item/{number}" for number in range(100)]
    outside += ["http://other.example/item/1", "/item/not/1", "/other/1", "/list/9", "/item/1.pdf"]
    outside += [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://[/item",
        "/item/" + "x" * 9_000,
    ]
    outside += [
        "/item/login",
        "/item/3?action=logout",
        "/item/logout.php",
        "/item/login;jsessionid=3",
    ]
    set_feed(site, *outside, *(f"/other/{number}" for number in range(12_000)))
    crawl = second_run(any_spider, site, SHOP)
    asked = site.visited()
    assert {path for path in asked if path[:5] == "/item"} <= {f"/item/{n}" for n in range(6)}
    assert set(asked) <= {
        "/",
        "/list",
        "/feed.xml",
        "/sitemap.xml",
        *(f"/item/{n}" for n in range(6)),
    }
    assert "127.0.0.9" not in crawl.log
    assert crawl.stat("hacs/signals/discovered") == 0


def test_a_feed_of_a_hundred_thousand_entries_is_not_read(
    any_spider: AnySpider, site: Site
) -> None:
    set_site(site)
    set_feed(site, *(f"/item/{number}" for number in range(100, 100_000)))
    crawl = second_run(any_spider, site, SHOP)
    assert crawl.stat("hacs/signals/discovered") == 0
    assert "/item/100" not in site.visited()


def test_no_more_is_asked_for_than_the_share_of_pages_never_seen(
    any_spider: AnySpider, site: Site
) -> None:
    set_site(site)
    set_feed(site, *(f"/item/{number}" for number in range(100, 3_000)))
    crawl = second_run(any_spider, site, SHOP, HACS_BUDGET=10, HACS_DISCOVER=0.3)
    asked = site.visited()
    assert crawl.stat("hacs/signals/discovered") == 3
    new = [path for path in asked if path.startswith("/item/1") and len(path) > len("/item/1")]
    assert sorted(new) == ["/item/100", "/item/101", "/item/102"]
    # none of them was there, and they are not asked for again the next day
    any_spider.days = 2
    any_spider.run(SHOP, **ON, HACS_BUDGET=10, HACS_DISCOVER=0.3)
    assert not set(new) & set(site.visited())


@pytest.mark.parametrize(
    "settings",
    [
        {"HACS_REVISIT": 0},
        {"HACS_SIGNALS": 0},
        {"HACS_DISCOVER": 0},
        {"HACS_PAGES": "/list,/item/.$"},
        {"HACS_PAGES": "start"},
    ],
)
def test_nothing_is_asked_for_that_the_settings_leave_out(
    any_spider: AnySpider, site: Site, settings: dict[str, object]
) -> None:
    set_site(site)
    set_feed(site, "/item/99")
    second_run(any_spider, site, SHOP, **settings)
    assert "/item/99" not in site.visited()


def test_robots_txt_and_the_domains_of_the_spider_are_kept_to(
    any_spider: AnySpider, site: Site
) -> None:
    set_site(site)
    set_feed(site, "/item/99")
    site.pages["/robots.txt"] = (200, {}, b"User-agent: *\nDisallow: /item/99\n")
    assert second_run(any_spider, site, SHOP).stat("hacs/signals/discovered") == 1
    assert "/item/99" not in site.visited()


@pytest.mark.parametrize("copied", ["{}", "response.meta"])
def test_a_page_that_a_feed_names_leads_to_no_other_host(
    any_spider: AnySpider, site: Site, copied: str
) -> None:
    set_site(site)
    port = site.url.rpartition(":")[2]
    site.pages["/item/98"] = (302, {"Location": f"http://127.0.0.9:{port}/item/0"}, b"")
    site.pages["/item/97"] = (302, {"Location": "/item/99"}, b"")
    set_feed(site, "/item/98", "/item/97")
    # what the spider itself goes on to from there is not the feed's
    more = f"""
            if "/item/99" in response.url:
                meta = {{**{copied}, "rule": 1}}
                url = "http://127.0.0.9:{port}/own"
                yield response.follow(url, self.parse_item, meta=meta, errback=lambda _: None)
"""
    crawl = second_run(any_spider, site, SHOP + more, ROBOTSTXT_OBEY=False)
    assert crawl.stat("hacs/signals/discovered") == 2
    assert crawl.stat("hacs/not_observed/refused") == 1
    asked = [line for line in crawl.log.splitlines() if "127.0.0.9" in line]
    assert asked
    assert [line for line in asked if "/own" not in line] == []


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ("None", 0),
        ("request.replace(url='http://127.0.0.9:1/item/99')", 0),
        ("request.replace(method='POST')", 0),
        ("request.replace(meta={**request.meta, 'hacs': False})", 0),
        ("request.replace(url=request.url.replace('/99', '/1'))", 0),
        ("request if response.css('a') and not response.meta else None", 1),
        ("request.replace(url=request.url + '?b=1')", 1),
        ("'no request'", 0),
    ],
)
def test_what_the_rule_makes_of_a_link_counts(
    any_spider: AnySpider, site: Site, made: str, asked: int
) -> None:
    set_site(site)
    site.pages["/item/99?b=1"] = site.pages["/item/99"]
    set_feed(site, "/item/99")
    code = RULES.format(
        more='process_request="made"', made=f"{made} if '/99' in request.url else request"
    )
    assert second_run(any_spider, site, code).stat("hacs/signals/discovered") == asked
    assert sum("99" in path for path in site.visited()) == asked


def test_a_rule_that_fails_for_a_link_is_said_once(any_spider: AnySpider, site: Site) -> None:
    set_site(site)
    set_feed(site, "/item/99", "/item/98", "/item/97")
    made = "request if '/item/9' not in request.url else response.meta['colour']"
    crawl = second_run(any_spider, site, RULES.format(more='process_request="made"', made=made))
    assert (
        crawl.log.count("a rule of the spider shop failed for a link to it: KeyError('colour')")
        == 1
    )


def test_a_rule_that_looks_at_one_place_of_a_page_takes_what_is_like_its_pages(
    any_spider: AnySpider, site: Site
) -> None:
    set_site(site)
    set_feed(site, "/other/1", "/item/99", "/item/not/9", *(f"/item/{n}" for n in range(6)))
    code = SHOP.replace('deny="/item/not"', 'deny="/item/not", restrict_css="body"').replace(
        'LinkExtractor(allow="/list")', 'LinkExtractor(restrict_css=".next")'
    )
    code = code.replace('restrict_css="body"', 'restrict_css="html > head ~ body"')
    second_run(any_spider, site, code)
    assert [path for path in site.visited() if "9" in path or "other" in path] == ["/item/99"]


def test_any_other_spider_asks_as_for_all_like_pages(any_spider: AnySpider, site: Site) -> None:
    set_site(site)
    trap = [f"/item/3?session={number}" for number in range(50)]
    pages = [f"/item/{number}" for number in range(6)]
    set_feed(site, "/other/1", "/item/deep/1", "/item/9.php", *trap, "/item/99", *pages)
    crawl = second_run(any_spider, site, PLAIN.format(kwargs={"said": "as before"}))
    (item,) = [one for one in crawl.items if one["url"].endswith("/item/99")]
    assert (item["a"], item["said"]) == (1, "as before")
    assert crawl.stat("hacs/signals/discovered") == 1


@pytest.mark.parametrize(
    ("kwargs", "listed"),
    [
        ("{'said': link}", range(6)),  # each in a way of its own
        ("{}", range(2)),  # too few
        ("{}", [*range(6), *range(100, 110)]),  # the spider passes most of them over
    ],
)
def test_what_is_not_clear_is_left_to_the_spider(
    any_spider: AnySpider, site: Site, kwargs: str, listed: list[int]
) -> None:
    set_site(site)
    set_feed(site, "/item/99", *(f"/item/{number}" for number in listed))
    second_run(any_spider, site, PLAIN.format(kwargs=kwargs))
    assert "/item/99" not in site.visited()
