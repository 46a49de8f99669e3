"""What a page keeps of its links under a bound: never too much, never a false update, in any order."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hacs_crawler.state.codec import decode_page, encode_page
from hacs_crawler.state.link_sample import (
    COARSEST,
    Sightings,
    bytes_of,
    kept,
    narrowed,
    unseen,
)
from hacs_crawler.state.page import Page, Visit, bound_links, copy_of, merge, merge_pages

URL = "http://example.edu/~a/"
levels = st.integers(0, COARSEST)
# half of them differ only where a level drops bits, so that several are kept as one
fingerprints = st.integers(-(2**63), 2**63 - 1) | st.builds(
    lambda low, high: low - high * 2**16, st.integers(0, 6), st.sampled_from([0, 1, 2**16, 2**40])
)
sightings = st.dictionaries(
    fingerprints,
    st.builds(
        lambda first, later: Sightings(first, first + later if later is not None else 0),
        st.integers(1, 9),
        st.none() | st.integers(0, 9),
    ),
    max_size=30,
)
bounds = st.sampled_from([2, 4, 6, 8, 16, 20, 40])
visits = st.lists(
    st.builds(
        Visit,
        url=st.just(URL),
        at=st.integers(1, 40),
        links=st.none() | st.frozensets(fingerprints, max_size=9),
    ),
    max_size=12,
    unique_by=lambda one: one.at,
)


def page_after(history: Iterable[Visit], most_bytes: int | None) -> Page:
    """The page after visits, bounded after each of them as it is when each is written."""
    page = Page(URL)
    for one in history:
        merge(page, one)
        if most_bytes is not None:
            bound_links(page, most_bytes)
    return page


@given(sightings, levels, levels)
def test_what_a_level_keeps_follows_from_what_the_levels_before_it_keep(
    seen: dict[int, Sightings], one: int, other: int
) -> None:
    first, last = sorted((one, other))
    assert narrowed(narrowed(seen, first), last) == narrowed(seen, last)
    assert kept(kept(seen, first), last) == kept(seen, last) == narrowed(seen, last).keys()


@given(sightings, sightings, levels)
def test_joining_and_narrowing_may_change_places(
    one: dict[int, Sightings], other: dict[int, Sightings], level: int
) -> None:
    def joined(one: dict[int, Sightings], other: dict[int, Sightings]) -> dict[int, Sightings]:
        return {link: one.get(link, found).joined(found) for link, found in other.items()} | {
            link: found for link, found in one.items() if link not in other
        }

    expected = narrowed(joined(one, other), level)
    assert joined(narrowed(one, level), narrowed(other, level)) == expected


@given(visits, bounds)
def test_links_take_no_more_bytes_than_they_may(history: list[Visit], most_bytes: int) -> None:
    page = page_after(history, most_bytes)
    assert bytes_of(len(page.links), page.link_level) <= most_bytes
    assert len(page.runs) // 2 <= len(page.links)


@given(visits, bounds)
def test_a_page_is_at_the_first_level_at_which_its_links_fit(
    history: list[Visit], most_bytes: int
) -> None:
    page, whole = page_after(history, most_bytes), page_after(history, None)
    sizes = (12, 4, *[2] * 17)  # the whole fingerprint and a time, or part of it
    fitting = [
        level
        for level in range(COARSEST + 1)
        if len(kept(whole.links, level)) * sizes[level] <= most_bytes
    ]
    assert page.link_level == fitting[0]
    assert page.sightings() == narrowed(whole.sightings(), fitting[0])


@given(visits, bounds, st.randoms(use_true_random=False))
def test_the_order_of_recording_does_not_matter(
    history: list[Visit], most_bytes: int, random: object
) -> None:
    shuffled = history[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    in_order = page_after(sorted(history, key=lambda one: one.at), most_bytes)
    assert encode_page(page_after(shuffled, most_bytes)) == encode_page(in_order)
    assert encode_page(page_after([*shuffled, *history], most_bytes)) == encode_page(in_order)


@given(visits, st.integers(0, 12), bounds, bounds)
def test_two_pages_merged_are_the_page_after_the_visits_of_both(
    history: list[Visit], cut: int, one_bound: int, other_bound: int
) -> None:
    one, other = page_after(history[:cut], one_bound), page_after(history[cut:], other_bound)
    merged = merge_pages(one, other)
    bound_links(merged, min(one_bound, other_bound))
    if one_bound == other_bound:
        assert encode_page(merged) == encode_page(page_after(history, one_bound))
    assert encode_page(merge_pages(merged, one)) == encode_page(merged)
    assert encode_page(merge_pages(other, one)) == encode_page(merge_pages(one, other))


@given(st.lists(visits, min_size=3, max_size=3), st.tuples(bounds, bounds, bounds))
def test_merging_pages_of_different_levels_depends_on_no_grouping(
    histories: list[list[Visit]], most: tuple[int, int, int]
) -> None:
    a, b, c = (page_after(*pair) for pair in zip(histories, most, strict=True))
    left = merge_pages(merge_pages(a, b), c)
    assert encode_page(left) == encode_page(merge_pages(a, merge_pages(b, c)))


@given(visits, bounds, st.frozensets(fingerprints, max_size=9))
def test_a_link_that_was_shown_is_never_new_again(
    history: list[Visit], most_bytes: int, others: frozenset[int]
) -> None:
    page = page_after(history, most_bytes)
    shown = frozenset[int]().union(*(one.links or () for one in history))
    new = merge(page, Visit(URL, 99, links=shown | others))
    assert new.isdisjoint(shown)
    assert new <= others


@given(visits, bounds)
def test_bounding_the_links_of_a_page_makes_no_visit_an_update(
    history: list[Visit], most_bytes: int
) -> None:
    page = page_after(history, None)
    before = set(page.update_times)
    bound_links(page, most_bytes)
    assert set(page.update_times) <= before
    assert page.links_since == page_after(history, None).links_since


@given(visits, bounds)
def test_a_page_that_keeps_less_comes_back_from_its_bytes(
    history: list[Visit], most_bytes: int
) -> None:
    page = page_after(history, most_bytes)
    again = decode_page(encode_page(page))
    assert again == page
    assert again.links.itemsize == page.links.itemsize


def test_a_bound_that_holds_already_changes_nothing() -> None:
    page = page_after([Visit(URL, 1, links=frozenset({1, 2}))], None)
    before = copy_of(page)
    assert not bound_links(page, 24)
    assert page == before
    assert bound_links(page, 23)


def random_links(number: int, seed: int) -> frozenset[int]:
    integers = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, number)
    return frozenset(integers.tolist())


@pytest.mark.parametrize("level", [2, 3, 5, 8])
@pytest.mark.parametrize("number", [200, 2_000, 20_000])
def test_new_links_are_missed_as_often_as_stated(level: int, number: int) -> None:
    known = kept(random_links(number, seed=1), level)
    shown = random_links(200_000, seed=2)
    found = len(unseen(shown, known, level)) / len(shown)
    expected = (1 - 2.0**-16) ** number / 2 ** (level - 2)
    # those known differ from what is expected of them too: both parts of the error are binomial
    spread = sqrt(expected / len(shown) + expected**2 / max(len(known), 1) * (number / 2**16) ** 2)
    assert abs(found - expected) < 5 * spread


def test_of_32_bits_as_good_as_no_new_link_is_missed() -> None:
    known = kept(random_links(100_000, seed=1), 1)
    shown = random_links(200_000, seed=2)
    missed = len(shown) - len(unseen(shown, known, 1))
    expected = 200_000 * 100_000 / 2**32
    assert 0 <= missed <= expected + 5 * sqrt(expected)


@pytest.mark.parametrize("links_added", [1, 3, 10])
def test_updates_are_found_as_often_as_stated(links_added: int) -> None:
    page = page_after([Visit(URL, 1, links=random_links(500, seed=1))], 256)
    assert page.link_level == 4
    each = (1 - 2.0**-16) ** 500 / 4
    expected = 1 - (1 - each) ** links_added
    tries = 3_000
    links = iter(random_links(tries * links_added, seed=3))
    found = sum(
        bool(merge(copy_of(page), Visit(URL, 2, links=frozenset(some))))
        for some in zip(*[links] * links_added, strict=True)
    )
    assert abs(found / tries - expected) < 5 * sqrt(expected * (1 - expected) / tries)
