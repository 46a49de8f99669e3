"""Answers of status 200 that are not the page: no update, neither then nor when the page is back."""

import pytest
from hypothesis import given, strategies as st
from scrapy.http import HtmlResponse

from hacs_crawler.crawl.observation import observe
from hacs_crawler.links import LinkRules
from hacs_crawler.state import FEWEST_LINKS, FEWEST_MARKS, Page, Recorded, merged
from hacs_crawler.state.judging import judged, may_mislead
from hacs_crawler.state.merging import merge
from hacs_crawler.state.spells import spells_of
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch import MarkRules
from hacs_crawler.watch.items import item_rules
from hacs_crawler.watch.settings import mark_rules

URL = "http://shop.example/list"
START = 1_700_000_000
NAVIGATION = "".join(f"<a href='/menu/{n}'>Menu {n}</a>" for n in range(8))
ENTRIES = [
    f"<li><a href='/item/{n}'>Item {n}</a> costs {n + 7} euros today</li>" for n in range(12)
]
BAD = {
    "block page": "<h1>Checking your browser</h1><p>One moment.</p><a href='//guard.example'>Help</a>",
    "login": "<h1>Please log in</h1><form><input name=user></form><a href='/forgotten'>Forgotten?</a>",
    "soft 404": "<h1>Nothing here</h1><p>That page is gone.</p><a href='/home'>Home</a>",
    "maintenance": "<h1>We will be back at noon</h1><p>Our shop is being mended.</p>",
    "database error": "<h1>Error establishing a database connection</h1>",
    "list not loaded": "<h1>Offers</h1><ul></ul>",
}


def page_of(body: str, *, is_framed: bool = True) -> str:
    navigation = f"<nav>{NAVIGATION}</nav>" if is_framed else ""
    return f"<html><body>{navigation}<main>{body}</main></body></html>"


GOOD = page_of(f"<h1>Offers</h1><ul>{''.join(ENTRIES)}</ul>")
ANSWERS = {
    **{f"{name}, bare": page_of(body, is_framed=False) for name, body in BAD.items()},
    **{f"{name}, framed": page_of(body) for name, body in BAD.items()},
    "truncated": GOOD[: GOOD.index("Item 4")],
}


def record(page: Page, day: int, body: str, watch: str) -> Recorded | None:
    """Record what a visit shows as a crawl does, None if it shows nothing."""
    response = HtmlResponse(URL, body=body.encode(), headers={"Content-Type": "text/html"})
    rules = item_rules() if watch == "items" else mark_rules(watch) or LinkRules()
    visit, reason = observe(response, URL, START + day * DAY, rules, page=page)
    if visit is None or reason:
        return None
    if isinstance(rules, MarkRules) and rules.takes_items:
        items = [{"text": text} for text in response.css("main li::text, main li a::text").getall()]
        if not items:
            return None
        marks = frozenset().union(*(rules.marks_of(item) for item in items))
        visit = type(visit)(URL, visit.at, marks=marks, rules=rules.fingerprint)
    recorded = merged(page, visit)
    merge(page, visit)
    return recorded


@pytest.mark.parametrize(
    ("watch", "name", "visits"),
    [
        (watch, name, visits)
        for watch in ("links", "text", "css:main", "items")
        for name in ANSWERS
        for visits in ((1,) if watch == "text" else (1, 2, 4))
    ],
)
def test_what_is_not_the_page_is_no_update_nor_is_the_page_when_it_is_back(
    watch: str, name: str, visits: int
) -> None:
    """Several visits that show the same are believed until then."""
    page, away = Page(URL), range(2, 2 + visits)
    found = [record(page, day, ANSWERS[name] if day in away else GOOD, watch) for day in range(8)]
    judged = found if visits == 1 else found[2 + visits :]
    assert not any(one is not None and one.updated for one in judged)
    assert list(page.sound.update_times) == []
    assert visits > 1 or START + 2 * DAY not in page.sound.visits or watch == "links"


@pytest.mark.parametrize("watch", ["links", "css:main", "items"])
def test_a_page_that_was_replaced_is_an_update_once_that_is_confirmed(watch: str) -> None:
    other = GOOD.replace("item/", "other/").replace("Item", "Other").replace("costs", "is for")
    other = other.replace("menu/", "carte/").replace("Offers", "All that we have")
    page = Page(URL)
    found = [record(page, day, GOOD if day < 2 else other, watch) for day in range(5)]
    assert [one is not None and one.updated for one in found] == [False] * 3 + [True, False]
    assert list(page.sound.update_times) == [START + 3 * DAY]


@pytest.mark.parametrize("watch", ["links", "css:main", "css:main *", "items"])
@pytest.mark.parametrize("name", ["block page", "login", "soft 404", "database error"])
def test_a_first_visit_that_showed_little_is_no_baseline(watch: str, name: str) -> None:
    page, block = Page(URL), ANSWERS[f"{name}, bare"]
    found = [record(page, day, GOOD if day else block, watch) for day in range(4)]
    assert not any(one is not None and one.updated for one in found)
    assert list(page.sound.update_times) == []
    record(page, 4, GOOD.replace("Item 3", "Thing 3").replace("item/3", "thing/3"), watch)
    assert list(page.sound.update_times) == [START + 4 * DAY]


@pytest.mark.parametrize("visits", [1, 2])
@pytest.mark.parametrize("entries", [0, 4])
def test_other_links_in_the_frame_of_the_site_are_no_update_once_the_page_is_back(
    visits: int, entries: int
) -> None:
    popular = [f"<a href='/popular/{n}'>Popular {n}</a>" for n in range(9)]
    other = page_of("".join(popular + ENTRIES[:entries]))
    page = Page(URL)
    for day in range(6):
        record(page, day, other if day in range(2, 2 + visits) else GOOD, "links")
    assert list(page.sound.update_times) == []
    for day in range(6, 9):
        record(page, day, other, "links")
    assert list(page.sound.update_times) == [START + 6 * DAY]


def page(first: int, end: int, *others: int) -> frozenset[int]:
    return frozenset([*range(first, end), *others])


A, B, C, FEW, MANY_NEW = page(0, 10), page(10, 20), page(20, 30), page(50, 52), page(3, 14)
LACKS_2, LACKS_3, LINKS, MARKS = page(2, 10), page(3, 10), FEWEST_LINKS, FEWEST_MARKS


@pytest.mark.parametrize(
    ("fewest", "shown", "kept"),
    [
        # all is new: left out until a visit confirms it, or shows the page again
        (MARKS, [A, B], [A, None]),
        (LINKS, [A, B, A], [A, None, A]),
        (MARKS, [A, B, A | B], [A, None, A | B]),
        (MARKS, [A, *[B] * 5, A], [A, *[None] * 5, A]),
        (MARKS, [A, *[B] * 6, A], [A, None, *[B] * 5, None]),
        (MARKS, [A, B, page(0, 6, *C)], [A, None, page(0, 6, *C)]),
        (MARKS, [A, B, page(0, 5, *C)], [A, None, page(0, 5, *C)]),
        (MARKS, [A, B, B, C], [A, None, B, None]),
        (MARKS, [A, B, C, FEW], [A, None, C, FEW]),
        (LINKS, [A, B, C, C, page(30, 40)], [A, None, C, C, page(30, 40)]),
        (LINKS, [page(0, 2), page(2, 4)], [page(0, 2), None]),
        (LINKS, [page(0, 1), page(2, 4)], [page(0, 1), page(2, 4)]),
        (MARKS, [page(0, 5), page(5, 10)], [page(0, 5), None]),
        (MARKS, [page(0, 4), page(5, 9)], [page(0, 4), page(5, 9)]),
        # nearly all
        (MARKS, [page(0, 8), page(7, 15)], [page(0, 8), None]),
        (LINKS, [page(0, 8), page(7, 15)], [page(0, 8), page(7, 15)]),
        (MARKS, [page(0, 8), page(6, 15)], [page(0, 8), page(6, 15)]),
        # many are missing, few are new: confirmed by two visits, or by the same again
        (MARKS, [A, LACKS_3, page(4, 10)], [A, None, None]),
        (MARKS, [A, LACKS_3, *[page(4, 10)] * 2], [A, None, None, page(4, 10)]),
        (MARKS, [A, LACKS_3, LACKS_3], [A, None, LACKS_3]),
        (MARKS, [A, LACKS_2], [A, LACKS_2]),
        (MARKS, [page(0, 12), page(3, 12)], [page(0, 12), None]),
        (MARKS, [page(0, 13), page(3, 13)], [page(0, 13), page(3, 13)]),
        (MARKS, [A, page(4, 12)], [A, None]),
        (MARKS, [A, page(4, 13)], [A, page(4, 13)]),
        # a quarter of the links is replaced
        (LINKS, [A, MANY_NEW, A], [A, None, A]),
        (MARKS, [A, MANY_NEW, A], [A, MANY_NEW, A]),
        (LINKS, [A, MANY_NEW], [A, MANY_NEW]),
        (LINKS, [A, MANY_NEW, A | MANY_NEW], [A, MANY_NEW, A | MANY_NEW]),
        (LINKS, [A, page(2, 13), A], [A, page(2, 13), A]),
        (LINKS, [page(0, 13), page(3, 17), page(0, 13)], [page(0, 13), page(3, 17), page(0, 13)]),
        # little at first
        (MARKS, [FEW, A, A], [None, A, A]),
        (MARKS, [FEW, FEW, A], [None, None, A]),
        (MARKS, [FEW, FEW, FEW, A], [FEW, FEW, FEW, A]),
        (MARKS, [FEW, A, FEW], [FEW, A, None]),
        (MARKS, [FEW, FEW, A, FEW, A], [None, None, A, None, A]),
        (MARKS, [FEW, A, FEW, FEW, FEW], [FEW, A, None, FEW, FEW]),
        (MARKS, [A, page(20, 60), A], [A, None, A]),
        (MARKS, [A, *[page(20, 60)] * 2, A], [A, None, None, A]),
        (MARKS, [FEW, page(0, 6)], [None, page(0, 6)]),
        (MARKS, [FEW, page(0, 5)], [FEW, page(0, 5)]),
        (MARKS, [page(50, 54), page(0, 8)], [None, page(0, 8)]),
        (MARKS, [page(50, 54), page(0, 7)], [page(50, 54), page(0, 7)]),
        (MARKS, [page(9, 10, 50, 51), A], [None, A]),
        (MARKS, [page(9, 10, 50), A], [page(9, 10, 50), A]),
        (MARKS, [A, *[page(20, 60)] * 2], [None, page(20, 60), page(20, 60)]),
        (MARKS, [page(0, 11), *[page(20, 60)] * 2], [page(0, 11), None, page(20, 60)]),
    ],
)
def test_visits_that_did_not_show_the_page_are_left_out(
    fewest: int, shown: list[frozenset[int]], kept: list[frozenset[int] | None]
) -> None:
    marks = dict(enumerate(shown, START))
    expected = {at: now for at, now in enumerate(kept, START) if now is not None}
    assert judged(marks, (), fewest) == expected
    assert expected == marks or may_mislead(spells_of(marks), sorted(marks), fewest)


@pytest.mark.parametrize(
    ("shown", "baseline", "kept"),
    [([A, B], 1, [A, B]), ([FEW, A], 1, [FEW, A]), ([A, B, B], 2, [A, None, B])],
)
def test_a_baseline_is_neither_doubted_nor_does_it_confirm(
    shown: list[frozenset[int]], baseline: int, kept: list[frozenset[int] | None]
) -> None:
    found = judged(dict(enumerate(shown)), {baseline}, MARKS)
    assert [found.get(at) for at in range(len(shown))] == kept


@given(
    st.lists(st.frozensets(st.integers(0, 12)), min_size=1, max_size=9),
    st.sampled_from([FEWEST_LINKS, FEWEST_MARKS]),
)
def test_visits_that_cannot_mislead_are_not_judged(
    shown: list[frozenset[int]], fewest: int
) -> None:
    marks = {START + day * DAY: each for day, each in enumerate(shown)}
    if not may_mislead(spells_of(marks), sorted(marks), fewest):
        assert judged(marks, (), fewest) == marks
