"""What updates brought is kept as text, in whole crawls: links with their texts, and what is watched."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state import Finding, Findings, read_findings
from hacs_crawler.state.address import open_store
from integration_support import AnySpider
from servers import Site

SPIDER = """
    from tests.seeded import Seeded


    class News(Seeded):
        paths = ["/news"]
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


def after_a_change(
    any_spider: AnySpider, site: Site, code: str, *bodies: str, **settings: object
) -> Findings:
    """What is kept of a page that shows one body on the first day, and the other on the second."""
    for day, body in enumerate(bodies):
        site.pages["/news"] = (200, {}, f"<html>{body}</html>".encode())
        any_spider.days = day
        any_spider.run(code, **settings)
    return findings_of(any_spider, f"{site.url}/news")


def test_the_title_of_the_page_is_kept_and_no_secret_of_a_link(
    any_spider: AnySpider, site: Site
) -> None:
    page = "<title> Ada\n Lovelace</title><body><a href=/a>A</a><p>{}</p></body>"
    paper = "<a href='/x?id=7&api_key=s3cr3t'>Paper</a>"
    kept = after_a_change(any_spider, site, SPIDER, page.format(""), page.format(paper))
    assert kept.title == "Ada Lovelace"
    assert [one[1:] for one in kept.things] == [
        ("link", "Paper", f"{site.url}/x?api_key=…&id=7", "")
    ]


def test_a_link_with_a_label_such_as_pdf_is_kept_with_its_publication(
    any_spider: AnySpider, site: Site
) -> None:
    citation = "A. Adler, D. Drew. Ranking for the web. In Proceedings of the ACM, 2026, pp. 1-10."
    row = f"<li>{citation} [<a href=/1.pdf>pdf</a>] [<a href=/slides/>slides</a>]</li>"
    pdf, slides = after_a_change(any_spider, site, SPIDER, "<li><a href=/a>A</a></li>", row).things
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
BOOK = "<p><a href=/book>A book</a><b>{}</b></p>"
NUMBERED = "<p><a href=/book>A book</a><b>{}</b><i>7</i></p>"
SEEN = "<p><a href=/book>A book</a><b>{0}</b><i>{0} people look at it</i></p>"
KEY = {"HACS_WATCH_KEY": "id"}


@pytest.mark.parametrize(
    ("row", "fields", "settings", "text"),
    [
        (BOOK, ITEMS, {}, "A book 9.99"),
        (BOOK, ITEMS.replace('"title"', '"id"'), KEY, "price 9.99, id A book"),
        (NUMBERED, ITEMS.replace('"s3cr3t"', 'row.css("i::text").get()').replace("token", "id"), KEY,
         "A book 9.99"),
        (SEEN, ITEMS.replace('"s3cr3t"', 'row.css("i::text").get()').replace("token", "seen"),
         {"HACS_WATCH_IGNORE": '["seen"]'}, "A book 9.99"),
    ],
    ids=["by its title", "by its fields", "without its key", "without what is left out"],
)  # fmt: skip
def test_an_item_is_kept_with_where_it_is_and_what_it_was(
    any_spider: AnySpider, site: Site, row: str, fields: str, settings: dict[str, object], text: str
) -> None:
    rows = [row.format(price) for price in (10.49, 9.99)]
    kept = after_a_change(any_spider, site, fields, *rows, HACS_WATCH="items", **settings)
    (item,) = kept.things
    assert item[1:] == ("item", text, f"{site.url}/book", "price 10.49")


def test_an_item_that_comes_beside_another_has_not_replaced_it(
    any_spider: AnySpider, site: Site
) -> None:
    one, two = (f"<p><a href=/{name}>{name}</a><b>9.5</b></p>" for name in ("one", "two"))
    kept = after_a_change(any_spider, site, ITEMS, one, one + two, HACS_WATCH="items")
    assert [item[1:] for item in kept.things] == [("item", "two 9.5", f"{site.url}/two", "")]
