"""What updates brought is kept as text: links with their texts, what is watched, and items."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse

from crawl_support import open_crawl
from hacs_crawler.crawl.observation import observe
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.links import page_id_of
from hacs_crawler.parts.findings import FindingsWriter
from hacs_crawler.state import FIRST, Finding, Findings, Page, State, Visit, read_findings
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch.items import canonical_json

URL = "http://a.example/news"
Items = Callable[[HtmlResponse], list[dict[str, Any]]]


async def kept_after(
    folder: Path, *bodies: str, items: Items | None = None, unread: int = 0, **settings: Any
) -> Findings:
    """What is kept of a page that shows one body a day, each in a crawl of its own.

    Once the crawl of the day `unread` is over, that day's body was not the page.
    """
    for day, body in enumerate(bodies, 1):
        async with open_crawl(folder, **settings) as crawl:
            request = Request(URL, meta={"is_start_request": True})
            html = f"<html>{body}</html>".encode()
            response = HtmlResponse(URL, body=html, encoding="utf-8", request=request)
            await crawl.parts.answered(request, response, URL)
            rules, access = crawl.config.rules, crawl.state
            access.read_ahead.claim(URL)
            await access.read_ahead.ready(URL)
            before = access.write_behind.page(URL) or Page(URL)
            visit = observe(response, URL, day * DAY, rules).visit
            if items is not None:
                shown = items(response)
                marks = frozenset[int]().union(*(rules.marks_of(item) for item in shown))
                visit = Visit(URL, day * DAY, marks=marks, rules=rules.fingerprint)
                for item in shown:
                    mine = rules.marks_of(item)
                    is_news = not mine <= {*before.spells.marks}
                    crawl.parts.tell(Part.shown, response, item, mine, may_be_news=is_news)
            recorded = access.write_behind.record(visit)
            assert not [*crawl.parts.observed(Observed(request, response, recorded, ""))]
            if day == unread:
                await access.write_behind.settle()
                await access.once(State.restore, [Page(URL, unread=[day * DAY])])
    async with open_crawl(folder, **settings) as crawl:
        page_id = page_id_of(URL)
        found = await crawl.state.once(lambda state: read_findings(state.store, [page_id]))
        findings = found.get(page_id, Findings())
        news = tuple(thing for thing in findings.things if thing.kind != FIRST)
        return findings._replace(things=news)


def links(*names: str) -> str:
    return "".join(f"<p><a href=/{name}>The {name}</a></p>" for name in names)


def changes(kept: Findings) -> list[tuple[str, str]]:
    return [(thing.text, thing.was) for thing in kept.things]


DAYS = (links("a"), links("a", "b"), links("b", "a"), links("a", *map(str, range(30))))


@pytest.mark.parametrize(
    ("days", "settings", "texts"),
    [
        (DAYS[:1], {}, []),
        (DAYS[:2], {}, ["The b"]),
        (DAYS[:3], {}, ["The b"]),
        (DAYS, {}, [f"The {number}" for number in range(20)]),
        (DAYS[:2], {"HACS_FINDINGS": 0}, []),
        (DAYS[:2], {"HACS_WATCH": "css:p"}, ["The b"]),
        (DAYS[1::-1], {"HACS_WATCH": "css:p"}, []),
        (DAYS[1::-1], {"HACS_WATCH": "css:p", "HACS_UPDATES": "any-change"}, ["1 text gone"]),
        (
            DAYS,
            {"HACS_WATCH": "css:p", "HACS_FINDINGS": 31},
            [*(f"The {number}" for number in range(30)), "The b"],
        ),
    ],
)
async def test_new_things_are_kept_the_newest_first_as_long_as_there_is_room(
    days: tuple[str, ...], settings: dict[str, Any], texts: list[str], tmp_path: Path, caplog: Any
) -> None:
    caplog.set_level("INFO")
    kept = await kept_after(tmp_path, *days, **settings)
    assert [thing.text for thing in kept.things] == texts
    assert ("`hacs new` leaves out 10 new things of" in caplog.text) is (len(texts) == 20)


async def test_the_only_text_of_a_page_is_kept_with_the_text_it_replaced(tmp_path: Path) -> None:
    prices = ("9.99", "9.99", "8.49", "8.49 7.99", "6.99", "5.99")
    days = ("".join(f"<p>{price}</p>" for price in shown.split()) for shown in prices)
    kept = await kept_after(tmp_path, *days, HACS_WATCH="css:p")
    assert changes(kept) == [("5.99", "6.99"), ("6.99", ""), ("7.99", ""), ("8.49", "9.99")]


def offers(response: HtmlResponse) -> Iterator[str | bytes]:
    """The first bytes of a page, and its prices, the first within its offer, as from JMESPath."""
    yield response.body[6:16]
    for number, price in enumerate(map(float, response.css("p::text").getall())):
        yield canonical_json(price if number else {"price": price, "1.5": "a"})


async def test_numbers_are_kept_as_they_are_in_json_and_other_bytes_as_text(tmp_path: Path) -> None:
    days = ("<p>1</p>", "<p>2.5</p><p>3</p><p>-4.25</p><p>1e-9</p>")
    kept = await kept_after(tmp_path, *days, HACS_WATCH=f"{__name__}.offers")
    texts = {"1.5 a, price 2.5", "3", "-4.25", "1e-09", "<p>2.5</p>"}
    assert {thing.text for thing in kept.things} == texts


def priced(response: HtmlResponse) -> list[dict[str, Any]]:
    return [{"price": price} for price in response.css("p::text").getall()]


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"HACS_WATCH": "css:p"}, ""), ({"HACS_WATCH": "items", "items": priced}, "price ")],
)
async def test_what_was_not_the_page_replaced_nothing(
    settings: dict[str, Any], name: str, tmp_path: Path
) -> None:
    days = [f"<p>{price}</p>" for price in ("9.99", "Blocked", "8.49")]
    newest = (await kept_after(tmp_path, *days, unread=2, **settings)).things[0]
    assert (newest.text, newest.was) == (f"{name}8.49", "9.99")


async def test_a_text_replaced_while_others_are_written_waits_for_its_turn(tmp_path: Path) -> None:
    async with open_crawl(tmp_path, HACS_WATCH="css:p") as crawl:
        part = crawl.parts.of(FindingsWriter)
        part._replaced[1] = 7
        await crawl.state.once(part.write, {2: Findings()})
        assert part._replaced == {1: 7}


async def test_the_title_of_the_page_is_kept_and_no_secret_of_a_link(tmp_path: Path) -> None:
    page = "<title> Ada\n Lovelace</title><body><a href=/a>A</a><p>{}</p></body>"
    paper = "<a href='/x?id=7&api_key=s3cr3t'>Paper</a>"
    kept = await kept_after(tmp_path, page.format(""), page.format(paper))
    url = "http://a.example/x?api_key=…&id=7"
    assert kept == Findings("Ada Lovelace", (Finding(2 * DAY, "link", "Paper", url, ""),))


async def test_a_link_with_a_label_such_as_pdf_is_kept_with_its_publication(tmp_path: Path) -> None:
    citation = "A. Adler, D. Drew. Ranking for the web. In Proceedings of the ACM, 2026, pp. 1-10."
    links = "<a href=/1.pdf>full pdf</a> <a href=/s/>slides</a> <a href=/2.pdf>more in detail</a>"
    row = f"<li>{citation} {links}</li>"
    pdf, *others = (await kept_after(tmp_path, "<li><a href=/a>A</a></li>", row)).things
    title = f"{citation} full pdf slides more in detail"
    assert (pdf.text, pdf.url) == (title, "http://a.example/1.pdf")
    assert [link.text for link in others] == ["slides", "more in detail"]


def named(title: str = "title", more: str = "token") -> Items:
    """What a spider yields for each row, with the fields so named; the last is that of <i>."""
    return lambda response: [
        {
            "price": float(row.css("b::text").get("")),
            title: row.css("a::text").get(),
            "url": response.urljoin(row.css("a::attr(href)").get("")),
            more: row.css("i::text").get("s3cr3t"),
        }
        for row in response.css("p")
    ]


BOOK = "<p><a href=/book>A book</a><b>{}</b></p>"
NUMBERED = "<p><a href=/book>A book</a><b>{}</b><i>7</i></p>"
SEEN = "<p><a href=/book>A book</a><b>{0}</b><i>{0} people look at it</i></p>"
KEY = {"HACS_WATCH_KEY": "id"}


@pytest.mark.parametrize(
    ("row", "items", "settings", "text"),
    [
        (BOOK, named(), {}, "A book: price 9.99"),
        (BOOK, named(title="id"), KEY, "id A book: price 9.99"),
        (NUMBERED, named(more="id"), KEY, "A book: price 9.99"),
        (SEEN, named(more="seen"), {"HACS_WATCH_IGNORE": ["seen"]}, "A book: price 9.99"),
        (SEEN, named(more="seen"), {"HACS_WATCH_FIELDS": ["price"]}, "A book: price 9.99"),
        (SEEN, named("of"), {"HACS_WATCH_FIELDS": ["price"]}, "price 9.99"),
        (NUMBERED, named("of", "id"), {"HACS_WATCH_FIELDS": ["price"], **KEY}, "id 7: price 9.99"),
    ],
)
async def test_an_item_is_kept_with_where_it_is_and_what_it_was(
    row: str, items: Items, settings: dict[str, Any], text: str, tmp_path: Path
) -> None:
    rows = [row.format(price) for price in (10.49, 9.99)]
    kept = await kept_after(tmp_path, *rows, items=items, HACS_WATCH="items", **settings)
    (item,) = kept.things
    assert item[1:] == ("item", text, "http://a.example/book", "10.49")


async def test_a_field_that_an_item_lost_or_gained_is_told(tmp_path: Path) -> None:
    rows = [BOOK.format(price) for price in ("10.0", "0", "9.5", "9.5")]
    rows[1] = rows[1].replace("<b>0</b>", "<i>sold out</i>")

    def items(response: HtmlResponse) -> list[dict[str, Any]]:
        price = response.css("b::text").get()
        more = response.css("i::text").get("")
        title = response.css("a::text").get()
        return [{"title": title, "price": price and float(price), "stock": more, "tags": [title]}]

    kept = await kept_after(tmp_path, *rows, items=items, HACS_WATCH="items")
    assert changes(kept) == [
        ("A book: price 9.5, no stock", "no price, stock sold out"),
        ("A book: no price, stock sold out", "price 10, no stock"),
    ]


@pytest.mark.parametrize("key", ["", "id"])
async def test_an_item_that_comes_beside_another_has_not_replaced_it(
    key: str, tmp_path: Path
) -> None:
    one, two = (f"<p><a href=/{name}>{name}</a><b>9.5</b></p>" for name in ("one", "two"))
    days = {"a": (one, one + two), "b": (one, one.replace(">one<", ">two<"))}
    watched: Any = {"items": named(), "HACS_WATCH": "items", "HACS_WATCH_KEY": key}
    kept = [await kept_after(tmp_path / name, *rows, **watched) for name, rows in days.items()]
    assert [*map(changes, kept)] == [[("two, price 9.5", "")], [("title two", "one")]]
