"""What responses show of what is watched, as marks."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from scrapy.http import HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse

from hacs_crawler.crawl.observation import ShownMarks, observe, shown_marks, tree_of
from hacs_crawler.state import Page, Visit, merged
from hacs_crawler.utils.settings import NotAllowedError
from hacs_crawler.watch import MarkRules
from hacs_crawler.watch.settings import mark_rules

URL = "http://shop.example/kettle"


def rules(watch: str) -> MarkRules:
    found = mark_rules(watch)
    assert found is not None
    return found


def marks(watch: str, response: Response) -> frozenset[int]:
    found, reason, _ = shown_marks(response, rules(watch))
    assert found is not None, reason
    return found


def html(body: str) -> HtmlResponse:
    return HtmlResponse(URL, body=body.encode(), encoding="utf-8")


def json(body: str) -> JsonResponse:
    return JsonResponse(URL, body=body.encode())


KETTLE = html("<h1>Kettle</h1><p class=price id=a>\n  19.90 <b>EUR</b></p><p class=note>new</p>")


@pytest.mark.parametrize("watch", ["css:.price", "xpath://p[@class='price']"])
def test_of_an_element_its_text_counts_and_neither_attributes_nor_white_space(watch: str) -> None:
    again = html("<div><p class='price' id=b>19.90 <b>EUR</b></p></div>")
    cheaper = html("<p class=price>18 EUR")
    assert marks(watch, KETTLE) == marks(watch, again) != marks(watch, cheaper)


def test_of_an_expression_for_texts_they_count() -> None:
    assert marks("css:b::text", KETTLE) == rules("css:b").marks_of("EUR")
    assert marks("xpath:count(//p)", KETTLE) == rules("css:b").marks_of("2.0")


@pytest.mark.parametrize(
    "watch",
    [
        *("css:main", "css:main *::text", "xpath://main//text()", "xpath:string(//main)", "text"),
        *("css:main p", "css:main *", "xpath://main//*"),
    ],
)
@pytest.mark.parametrize(
    "hidden",
    [
        *("<script>token = '{}'</script>", "<style>.c{} {{}}</style>", "<!-- {} -->"),
        *("<noscript>{}</noscript>", "<template>{}</template>"),
        *("<iframe>{}</iframe>", "<object>{}</object>"),
        *("<svg><title>{}</title></svg>", "<svg><g><desc>{}</desc></g></svg>"),
        *("<svg><path><title>{}</title></path></svg>", "<svg><use><title>{}</title></use></svg>"),
        *("<noscript><p>{}</p></noscript>", "<template><p>{}</p></template>"),
    ],
)
def test_text_and_elements_that_nobody_sees_do_not_count(watch: str, hidden: str) -> None:
    one, other = (
        marks(watch, html(f"<main><p>10 euros</p><div>text {hidden.format(number)}</div></main>"))
        for number in (1, 2)
    )
    assert one == other


@pytest.mark.parametrize(
    ("watch", "counts"),
    [
        *[(f"css:{named}", True) for named in ("#data", "script::text", "template p")],
        *[(f"xpath://{named}", True) for named in ("template//p", "*[@id='data']//text()")],
        ("css:[id=data]::text", True),
        *(("css:svg title", True), ("xpath://svg/title/text()", True), ("css:svg", False)),
        ("css:.description *::text", False),
        ("xpath://*[@class='description']//text()", False),
    ],
)
def test_what_nobody_sees_counts_if_the_selector_names_it(watch: str, counts: bool) -> None:
    one, other = (
        html(
            "<div class=description>10 euros"
            f"<template><p>{n}</p></template><script id=data>{n}</script>"
            f"<svg><title>{n}</title><text>a</text></svg></div>"
        )
        for n in (1, 2)
    )
    assert (marks(watch, one) != marks(watch, other)) is counts


@pytest.mark.parametrize(
    "shown_by_a_click",
    ["hidden", "style='display: none'", "style='visibility:hidden'", "aria-hidden=true"],
)
@pytest.mark.parametrize("watch", ["css:main", "css:main p", "xpath://main//text()"])
def test_text_that_a_click_may_show_counts(watch: str, shown_by_a_click: str) -> None:
    one, other = (
        html(f"<main><p>Delivery</p><div {shown_by_a_click}><p>in {days} days</p></div></main>")
        for days in (1, 2)
    )
    assert marks(watch, one) != marks(watch, other)


def test_xml_is_a_page_where_an_expression_is_watched() -> None:
    feed = XmlResponse(URL, body=b"<items><item><title>one</title></item><item>two</item></items>")
    assert len(marks("xpath://item", feed)) == 2


def test_each_element_of_a_list_in_json_is_a_mark_whatever_the_order_of_its_keys() -> None:
    first = json('{"offers": [{"id": 1, "price": 5}, {"id": 2, "price": 7}], "at": "now"}')
    other = json('{"at": "later", "offers": [{"price": 7, "id": 2}, {"price": 6, "id": 1}]}')
    found, again = (marks("jmespath:offers", response) for response in (first, other))
    assert len(found) == 2
    assert len(found & again) == 1
    assert marks("jmespath:offers", json('{"offers": [{"id": 1.0, "price": 5.00}]}')) <= found


@pytest.mark.parametrize(
    ("response", "watch", "reason"),
    [
        (json("<html>"), "jmespath:offers", "unreadable"),
        (json("{}"), "css:p", "other_type"),
        (Response(URL, body=b"PNG"), "css:p", "other_type"),
    ],
)
def test_what_is_of_another_type_shows_nothing_of_its_page(
    response: Response, watch: str, reason: str
) -> None:
    assert shown_marks(response, rules(watch)).reason == reason


def prices(response: Response) -> list[str | bytes]:
    if response.body == b"broken":
        raise KeyError("price")
    return [response.body[:2], "20", ""]


def test_a_function_of_ones_own_returns_texts_or_bytes() -> None:
    assert len(marks(f"{__name__}.prices", Response(URL, body=b"19 EUR"))) == 2


def test_what_a_function_raises_costs_the_observation(caplog: pytest.LogCaptureFixture) -> None:
    own = rules(f"{__name__}.prices")
    assert shown_marks(Response(URL, body=b"broken"), own).reason == "unreadable"
    assert f"{URL} is not read: {__name__}.prices: KeyError: 'price'" in caplog.text


def test_main_text_is_watched_by_its_blocks_without_menus() -> None:
    pytest.importorskip("trafilatura")
    clauses = [f"<p>{n}. You may not use the service in the way number {n}.</p>" for n in range(9)]

    def terms(menu: str, *clauses: str) -> HtmlResponse:
        return html(f"<nav><a href=/>{menu}</a></nav><main><h1>Terms</h1>{''.join(clauses)}</main>")

    before = marks("text", terms("Home", *clauses))
    assert before == marks("text", terms("Start", *clauses))
    rewritten = terms("Home", *clauses[:5], "<p>5. You may, on Sundays.</p>", *clauses[6:])
    after = marks("text", rewritten)
    assert (len(after - before), len(before - after)) == (1, 1)


def test_rules_are_told_apart_by_what_is_watched_and_by_rendering() -> None:
    found = [rules("css:.price"), rules("css:.note"), MarkRules("css:.price", list, rendered=True)]
    assert len({one.fingerprint for one in found}) == 3


def test_a_visit_is_of_marks_with_their_rules() -> None:
    visit, reason = observe(KETTLE, URL, 1_700_000_000, rules("css:.price"))
    assert (reason, visit.marks) == ("", marks("css:.price", KETTLE))
    assert visit.rules == rules("css:.price").fingerprint


CLAUSE = "<main><p>You may use the service, as long as you do not resell it.</p></main>"


@pytest.mark.parametrize(
    ("watch", "response"),
    [
        ("css:.price", KETTLE),
        ("xpath://item", XmlResponse(URL, body=b"<items><item>one</item></items>")),
        ("jmespath:offers", json('{"offers": [5]}')),
        ("text", html(CLAUSE)),
    ],
)
def test_a_body_that_was_seen_at_the_last_visit_has_its_marks_without_being_read(
    watch: str, response: TextResponse
) -> None:
    if watch == "text":
        pytest.importorskip("trafilatura")
    before = shown_marks(response, rules(watch))
    visit = Visit(URL, 1_700_000_000, marks=before.marks, hrefs=before.hrefs)
    page = merged(Page(URL), visit).after

    def again(options: str = "", **other: Any) -> ShownMarks:
        found = replace(rules(watch), read=Mock(return_value=["read"]), options=options)
        return shown_marks(response.replace(**other), found, page)

    assert again() == before
    read_anew = again(body=response.body + b" ").marks
    assert read_anew == rules("css:b").marks_of("read")
    # the texts are other ones
    encoded = {"Content-Type": "text/html; charset=koi8-r"}
    assert again(headers=encoded, encoding=None).marks == read_anew
    assert again("other").marks == read_anew


def test_a_text_is_extracted_once_of_a_response_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    extract = Mock(return_value="One.\nTwo.")
    monkeypatch.setattr(pytest.importorskip("trafilatura"), "extract", extract)
    text, response = rules("text"), html(CLAUSE)
    assert [*text.read(response, tree_of(response))] == ["One.", "Two."]
    assert len(text.marks(response, tree_of(response))) == 2
    extract.assert_called_once()


@pytest.mark.parametrize("watch", ["items", f"{__name__}.prices"])
def test_what_no_body_tells_is_looked_for_in_each_answer(watch: str) -> None:
    response = Response(URL, body=b"19 EUR")
    before = shown_marks(response, rules(watch))
    visit = Visit(URL, 1_700_000_000, marks=frozenset([3]), hrefs=before.hrefs)
    assert shown_marks(response, rules(watch), merged(Page(URL), visit).after) == before
    assert not before.hrefs


@pytest.mark.parametrize("given", ["", "css", "items:x", None, 3, "no.such.function"])
def test_what_cannot_be_watched_is_refused(given: object) -> None:
    with pytest.raises(NotAllowedError, match="links, publications, items, text, css:"):
        mark_rules(given)
