"""What a source names that was never seen, and how like pages of it were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hacs_crawler.crawl.alike import MOST_A_SOURCE, TRIED_DAYS, named_by, note_tried, pattern_of
from hacs_crawler.crawl.asked import Asked, kind_of
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Annotation, Estimation, MemoryStore, State, Visit, source_id
from hacs_crawler.utils.times import DAY

HOST = "http://a.example"
NOW = 20_000 * DAY
WAY = Asked("", "parse_item", cb_kwargs={"part": "a"}, headers={}, meta={}, depth=1)


def item(number: int, folder: str = "item") -> str:
    return f"{HOST}/{folder}/{number}"


def state_of(ways: Mapping[str, Asked | None]) -> State:
    """A state of pages that were seen, and how the spider "s" asked for them; None: it did not."""
    state = State(MemoryStore(), Estimation())
    state.record([Visit(url, NOW - DAY, links=frozenset()) for url in ways])
    for url, way in ways.items():
        if way is not None:
            value = replace(way, url=url).encoded()
            state.store.annotate(kind_of("s"), [Annotation(page_id_of(url), b"", value)])
    return state


def ways(state: State, *urls: str) -> dict[str, Asked]:
    return named_by(state, "s", HOST, dict.fromkeys([*urls, item(99)], 5), NOW).ways


@pytest.mark.parametrize(
    ("one", "other", "is_alike"),
    [
        ("/item/1", "/item/2", True),
        ("/item/1", "/item/new", True),
        ("/item/1", "/items/1", False),
        ("/item/1", "/item/1/more", False),
        ("/item/1", "/item/1/", False),
        ("/one/", "/another/", True),
        ("/2026/11/22/rain", "/2026/9/1/sun", True),
        ("/show?id=1", "/show?id=2", True),
        ("/show?id=1", "/show?session=1", False),
        ("/show?a=1&b=2", "/show?b=1&a=", True),
        ("/one.html", "/another.html", True),
        ("/one.html", "/one.php", False),
        ("/", "/one", False),
    ],
)
def test_urls_are_alike_by_host_folder_ending_and_names_in_the_query(
    one: str, other: str, is_alike: bool
) -> None:
    assert (pattern_of(HOST + one) == pattern_of(HOST + other)) == is_alike
    assert pattern_of(HOST + one) != pattern_of("http://b.example" + other)


def test_what_was_never_seen_is_named_the_newest_first() -> None:
    state = state_of({item(1): WAY})
    pages = {item(1): 9, item(2): 0, item(3): 5, item(4): 7}
    assert named_by(state, "s", HOST, pages, NOW).urls == [item(4), item(3), item(2)]
    many = {item(number): number for number in range(MOST_A_SOURCE + 9)}
    assert len(named_by(state, "s", HOST, many, NOW).urls) == MOST_A_SOURCE


def test_what_was_asked_for_in_vain_is_not_named_again_soon() -> None:
    state = state_of({})
    pages = {item(1): 1, item(2): 2}
    note_tried(state, "s", HOST, [page_id_of(item(2))], NOW)
    note_tried(state, "s", HOST, [page_id_of(item(3))], NOW + DAY)
    assert named_by(state, "s", HOST, pages, NOW + DAY).urls == [item(1)]
    assert named_by(state, "other", HOST, pages, NOW + DAY).urls == [item(2), item(1)]
    later = NOW + (TRIED_DAYS + 1) * DAY
    assert named_by(state, "s", HOST, pages, later).urls == [item(2), item(1)]


def test_what_is_kept_of_what_was_tried_is_bounded_and_may_be_damaged() -> None:
    state = state_of({})
    key, kind = source_id(HOST), "tried/s"
    for day in range(4):
        note_tried(state, "s", HOST, range(1_000 * day, 1_000 * day + 600), NOW + day)
    (body,) = state.store.annotations(kind, [key]).values()
    assert len(body) == 1 + 12 * 1_000
    state.store.annotate(kind, [Annotation(key, body, b"\x01abc")])
    assert named_by(state, "s", HOST, {item(1): 1}, NOW).urls == [item(1)]


def test_the_way_of_like_pages_is_what_is_common_to_them() -> None:
    own: list[dict[str, Any]] = [
        {"headers": {"Referer": [f"{HOST}/{n}"]}, "meta": {"link_text": str(n)}, "depth": n}
        for n in range(3)
    ]
    pages = {item(n): replace(WAY, **one) for n, one in enumerate(own)}
    assert list(ways(state_of(pages), *pages).values()) == [WAY]


@pytest.mark.parametrize(
    "pages",
    [
        {item(1): WAY, item(2): WAY},
        {item(1): WAY, item(2): WAY, item(3): replace(WAY, cb_kwargs={"part": "b"})},
        {item(1): WAY, item(2): WAY, item(3): replace(WAY, callback="parse")},
        {item(1): WAY, item(2): WAY, item(3): replace(WAY, meta={"a": 1})},
        {item(1): WAY, item(2): WAY, item(3, "other"): WAY},
        {item(n): replace(WAY, after_form=True) for n in range(3)},
        {item(n): WAY if n < 3 else None for n in range(9)},
    ],
    ids=["few", "arguments", "callback", "meta", "folder", "form", "of others"],
)
def test_there_is_no_one_way_where_anything_differs(pages: dict[str, Asked | None]) -> None:
    assert ways(state_of(pages), *pages) == {}


def test_there_is_no_way_where_the_spider_passes_most_over() -> None:
    pages = {item(n): WAY for n in range(5)}
    state = state_of(pages)
    assert ways(state, *pages, *map(item, range(100, 104)))
    assert not ways(state, *pages, *map(item, range(100, 105)))
