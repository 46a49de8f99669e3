"""What updates brought is kept as text, in whole crawls: links with their texts, and what is watched."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state import Finding, Findings, read_findings
from hacs_crawler.state.address import open_store
from integration_support import AnySpider
from servers import Site

SPIDER = """
    import scrapy


    class News(scrapy.Spider):
        name = "news"

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.start_urls = [url + "/news"]
"""


def show(site: Site, *things: str) -> None:
    body = "".join(f"<p><a href=/{thing}>The {thing}</a></p>" for thing in things)
    site.pages["/news"] = (200, {}, f"<html><body>{body}</body></html>".encode())


def found(
    any_spider: AnySpider, site: Site, days: int = 4, **settings: object
) -> list[tuple[Finding, ...]]:
    """What is kept after each of four days: the first, an update, none, and one of 30 links."""
    kept = []
    shown = (["a"], ["a", "b"], ["b", "a"], ["a", *(f"c{number}" for number in range(30))])
    for day, things in enumerate(shown[:days]):
        show(site, *things)
        any_spider.days = day
        crawl = any_spider.run(SPIDER, **settings)
        assert crawl.exit_status == 0, crawl.log
        kept.append(findings_of(any_spider, f"{site.url}/news").things)
    return kept


def findings_of(any_spider: AnySpider, url: str) -> Findings:
    with closing(open_store(f"sqlite:///{any_spider.folder}/state.db", "hacs", Path())) as store:
        return read_findings(store, [page_id_of(url)]).get(page_id_of(url), Findings())


def texts(found: tuple[Finding, ...]) -> list[str]:
    return [one.text for one in found]


def test_new_links_are_kept_with_their_texts_the_newest_first(
    any_spider: AnySpider, site: Site
) -> None:
    first, second, third, fourth = found(any_spider, site)
    assert first == ()
    assert [one[1:] for one in second] == [("link", "The b", f"{site.url}/b", "")]
    assert third == second
    assert texts(fourth) == [f"The c{number}" for number in range(20)]


def test_of_what_else_is_watched_the_texts_are_kept_as_long_as_there_is_room(
    any_spider: AnySpider, site: Site
) -> None:
    kept = found(any_spider, site, HACS_WATCH="css:p", HACS_FINDINGS=31)
    assert [texts(one) for one in kept] == [
        [],
        ["The b"],
        ["The b"],
        [*(f"The c{number}" for number in range(30)), "The b"],
    ]


def test_the_only_text_of_a_page_is_kept_with_the_text_that_it_replaced(
    any_spider: AnySpider, site: Site
) -> None:
    shown = ("9.99", "9.99", "8.49", "8.49 7.99", "6.99", "5.99")
    for day, prices in enumerate(shown):
        body = "".join(f"<p>{price}</p>" for price in prices.split())
        site.pages["/news"] = (200, {}, f"<html><body>{body}</body></html>".encode())
        any_spider.days = day
        any_spider.run(SPIDER, HACS_WATCH="css:p")
    kept = findings_of(any_spider, f"{site.url}/news").things
    told = [(one.text, one.was) for one in kept]
    assert told == [("5.99", "6.99"), ("6.99", ""), ("7.99", ""), ("8.49", "9.99")]


def test_nothing_is_kept_if_nothing_is_to_be(any_spider: AnySpider, site: Site) -> None:
    assert found(any_spider, site, 2, HACS_FINDINGS=0) == [()] * 2


def test_the_title_of_the_page_is_kept_and_no_secret_of_a_link(
    any_spider: AnySpider, site: Site
) -> None:
    for day, more in enumerate(("", "<a href='/x?id=7&api_key=s3cr3t'>Paper</a>")):
        page = (
            f"<html><title> Ada\n Lovelace</title><body><a href=/a>A</a><p>{more}</p></body></html>"
        )
        site.pages["/news"] = (200, {}, page.encode())
        any_spider.days = day
        any_spider.run(SPIDER)
    kept = findings_of(any_spider, f"{site.url}/news")
    assert kept.title == "Ada Lovelace"
    assert [one[1:] for one in kept.things] == [
        ("link", "Paper", f"{site.url}/x?api_key=…&id=7", "")
    ]


def test_a_link_with_a_label_such_as_pdf_is_kept_with_its_publication(
    any_spider: AnySpider, site: Site
) -> None:
    citation = "A. Adler, D. Drew. Ranking for the web. In Proceedings of the ACM, 2026, pp. 1-10."
    row = f"<li>{citation} [<a href=/1.pdf>pdf</a>] [<a href=/slides/>slides</a>]</li>"
    for day, rows in enumerate(("<li><a href=/a>A</a></li>", row)):
        site.pages["/news"] = (200, {}, f"<html><body><ul>{rows}</ul></body></html>".encode())
        any_spider.days = day
        any_spider.run(SPIDER)
    pdf, slides = findings_of(any_spider, f"{site.url}/news").things
    assert (pdf.text, pdf.url) == (f"{citation} [ pdf ] [ slides ]", f"{site.url}/1.pdf")
    assert slides.text == "slides"


ITEMS = (
    SPIDER
    + """
        def parse(self, response):
            for row in response.css("p"):
                yield {
                    "price": float(row.css("b::text").get()),
                    "title": row.css("a::text").get(),
                    "url": response.urljoin(row.css("a::attr(href)").get()),
                    "token": "s3cr3t",
                }
"""
)


def test_an_item_is_kept_by_its_title_first_with_where_it_is_and_what_it_was(
    any_spider: AnySpider, site: Site
) -> None:
    for day, price in enumerate((10.49, 9.99)):
        page = f"<html><body><p><a href=/book>A book</a><b>{price}</b></p></body></html>"
        site.pages["/news"] = (200, {}, page.encode())
        any_spider.days = day
        any_spider.run(ITEMS, HACS_WATCH="items")
    (item,) = findings_of(any_spider, f"{site.url}/news").things
    assert item[1:] == ("item", "A book 9.99", f"{site.url}/book", "price 10.49")


def test_the_fields_of_an_item_without_a_title_are_named(any_spider: AnySpider, site: Site) -> None:
    for day, price in enumerate((10.49, 9.99)):
        page = f"<html><body><p><a href=/book>7</a><b>{price}</b></p></body></html>"
        site.pages["/news"] = (200, {}, page.encode())
        any_spider.days = day
        any_spider.run(ITEMS.replace('"title"', '"id"'), HACS_WATCH="items", HACS_WATCH_KEY="id")
    (item,) = findings_of(any_spider, f"{site.url}/news").things
    assert item[1:] == ("item", "price 9.99, id 7", f"{site.url}/book", "price 10.49")


def test_beside_its_title_the_key_of_an_item_is_left_out(any_spider: AnySpider, site: Site) -> None:
    code = ITEMS.replace('"token": "s3cr3t"', '"id": row.css("i::text").get()')
    for day, price in enumerate((10.49, 9.99)):
        row = f"<p><a href=/book>A book</a><b>{price}</b><i>7</i></p>"
        site.pages["/news"] = (200, {}, f"<html><body>{row}</body></html>".encode())
        any_spider.days = day
        any_spider.run(code, HACS_WATCH="items", HACS_WATCH_KEY="id")
    (item,) = findings_of(any_spider, f"{site.url}/news").things
    assert item[1:] == ("item", "A book 9.99", f"{site.url}/book", "price 10.49")


def test_a_field_that_is_left_out_is_no_news(any_spider: AnySpider, site: Site) -> None:
    code = ITEMS.replace('"token": "s3cr3t"', '"seen": row.css("i::text").get()')
    for day, (price, seen) in enumerate(((10.49, 7), (9.99, 8))):
        row = f"<p><a href=/book>A book</a><b>{price}</b><i>{seen} people look at it</i></p>"
        site.pages["/news"] = (200, {}, f"<html><body>{row}</body></html>".encode())
        any_spider.days = day
        any_spider.run(code, HACS_WATCH="items", HACS_WATCH_IGNORE='["seen"]')
    (item,) = findings_of(any_spider, f"{site.url}/news").things
    assert item[1:] == ("item", "A book 9.99", f"{site.url}/book", "price 10.49")


def test_an_item_that_comes_beside_another_has_not_replaced_it(
    any_spider: AnySpider, site: Site
) -> None:
    rows = [f"<p><a href=/{name}>{name}</a><b>9.5</b></p>" for name in ("one", "two")]
    for day, shown in enumerate((rows[:1], rows)):
        site.pages["/news"] = (200, {}, f"<html><body>{''.join(shown)}</body></html>".encode())
        any_spider.days = day
        any_spider.run(ITEMS, HACS_WATCH="items")
    (item,) = findings_of(any_spider, f"{site.url}/news").things
    assert item[1:] == ("item", "two 9.5", f"{site.url}/two", "")
