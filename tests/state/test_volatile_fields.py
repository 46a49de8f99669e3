"""Fields that differ at nearly every visit: learned from what visits showed, in whatever order."""

from __future__ import annotations

from random import Random

import pytest

from hacs_crawler.state import Estimation, State, Store, Visit, without_gaps
from hacs_crawler.state.store import Annotation
from hacs_crawler.state.volatile_fields import (
    FREQUENT,
    KIND,
    MOST_FIELDS,
    MOST_ITEMS,
    WINDOW,
    fields_left_out,
    fields_left_out_of,
    note_fields,
    use_rules,
    volatile_fields,
)
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch.items import field_bits, item_key, item_rules

RULES = 7


def visits(number: int) -> int:
    """So many of the latest visits, as bits."""
    return (1 << number) - 1


@pytest.mark.parametrize(
    ("differed", "volatile"),
    [
        ({"points": visits(16), "title": 1}, {"points"}),
        (
            {"points": visits(13), "comments": 0b101010101010 << 4, "price": visits(4)},
            {"points", "comments"},
        ),
        ({"price": visits(FREQUENT - 1)}, set()),
        ({"price": visits(8), "views": visits(16) - visits(4)}, {"views", "price"}),
        ({}, set()),
    ],
)
def test_volatile_are_fields_without_which_little_differs_where_much_did(
    differed: dict[str, int], volatile: set[str]
) -> None:
    assert volatile_fields(differed) == volatile


def show(store: Store, day: int, *pages: int, rules: int = RULES, steady: int = 0) -> None:
    """A visit of each page, whose two items have other views each day, and prices once in eight days."""
    fields = {"views": day + 1, "price": day // 8 + 1, "title": 1}
    if steady:
        fields["views"] = 1
    note_fields(store, rules, {page: {1: fields, 2: fields} for page in pages})


def test_a_field_that_differs_at_each_visit_is_left_out_once_the_page_has_voted(
    store: Store,
) -> None:
    for day in range(WINDOW):
        show(store, day, 1)
    assert fields_left_out(store, RULES) == []
    show(store, WINDOW, 1)
    assert fields_left_out(store, RULES) == fields_left_out_of(store, 1) == ["views"]
    assert fields_left_out(store, RULES + 1) == fields_left_out_of(store, 2) == []


def test_it_waits_for_half_of_the_pages_or_twenty(store: Store) -> None:
    show(store, 0, *range(60))
    for day in range(1, WINDOW + 1):
        show(store, day, *range(19))
    assert fields_left_out(store, RULES) == []
    for day in range(1, WINDOW + 1):
        show(store, day, 19)
    assert fields_left_out(store, RULES) == ["views"]


def test_a_field_that_is_steady_on_some_pages_is_not_left_out(store: Store) -> None:
    for day in range(WINDOW + 1):
        show(store, day, 1, 2, 3, 4, 5, 6, 7, 8)
        show(store, day, 9, steady=1)
    assert fields_left_out(store, RULES) == []


def test_where_fields_are_no_longer_volatile_for_most_votes_they_count_again(store: Store) -> None:
    for day in range(WINDOW + 1):
        show(store, day, 1)
    for day in range(WINDOW):
        show(store, day, 1, steady=1)
    assert fields_left_out(store, RULES) == []


def test_two_crawls_add_up_to_the_same_in_whatever_order(store: Store, other_store: Store) -> None:
    pages = [(page, day) for day in range(WINDOW + 1) for page in range(4)]
    for page, day in pages:
        show(store, day, page)
    for page, day in sorted(pages):
        show(other_store, day, page)
    assert store.read_meta("fields") == other_store.read_meta("fields")


@pytest.fixture
def other_store(new_store: object) -> Store:
    return new_store()  # type: ignore[operator, no-any-return]


def test_where_a_crawl_is_killed_while_it_counts_a_vote_none_is_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(WINDOW):
        show(store, day, 1)
    with monkeypatch.context() as killing:
        killing.setattr(store, "annotate", raising)
        with pytest.raises(KeyboardInterrupt):
            show(store, WINDOW, 1)
    show(store, WINDOW + 1, 1)
    assert fields_left_out(store, RULES) == ["views"]


def raising(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_page_takes_a_few_hundred_bytes(store: Store) -> None:
    fields = dict.fromkeys("abcdefgh", 40_000)
    note_fields(store, RULES, {1: {key << 20: fields for key in range(20)}})
    assert len(store.annotations(KIND, [1])[1]) < 550
    many = {f"field {number}": 40_000 for number in range(100)}
    note_fields(store, RULES, {2: dict.fromkeys(range(1_000), many)})
    assert len(store.annotations(KIND, [2])[2]) < (2 * MOST_FIELDS + 8) * MOST_ITEMS + 1_000


@pytest.mark.parametrize(
    "damaged", [b"x", b"\x95\x07\x10\x00\x80\x80", b"\x95\x07\x01\x00\x80\x81\x01\xc4\x03abc"]
)
def test_what_is_damaged_is_kept_anew(store: Store, damaged: bytes) -> None:
    store.annotate(KIND, [Annotation(1, b"", damaged)])
    for day in range(WINDOW + 1):
        show(store, day, 1)
    assert fields_left_out(store, RULES) == ["views"]


def test_the_rules_that_were_used_are_known(store: Store) -> None:
    assert use_rules(store, RULES, [1, 2]) == {1, 2}
    assert use_rules(store, RULES, [3]) == use_rules(store, RULES, ()) == {1, 2, 3}


def test_a_listing_whose_points_change_at_each_visit_gets_the_rate_of_its_new_items(
    store: Store,
) -> None:
    """Of thirty; one version in ten has another item, and none of it was said by the user."""
    state = State(store, Estimation(fade_days=float("inf"), updates="page"))
    draw = Random(3)
    items, number, gains = list(range(30)), 30, 0
    url, base = "http://news.example/", item_rules(key="id")
    updates = []
    for day in range(300):
        if draw.random() < 0.1:
            items, number, gains = [number, *items[:-1]], number + 1, gains + 1
        shown = [{"id": one, "points": draw.random(), "comments": day} for one in items]
        left_out = fields_left_out(store, base.fingerprint)
        rules = item_rules(ignore=left_out, key="id")
        outdated = use_rules(store, base.fingerprint, [rules.fingerprint]) - {rules.fingerprint}
        marks = frozenset[int]().union(*map(rules.marks_of, shown))
        at = 1_700_000_000 + day * DAY
        visit = Visit(url, at, marks=marks, rules=rules.fingerprint, keeps_spells=True)
        (recorded,) = state.record([visit])
        updates.append(recorded.updated)
        fields = {item_key(one, "id") or 0: field_bits(one, ()) for one in shown}
        note_fields(store, base.fingerprint, {1: fields})
        if (void := without_gaps(recorded.after, outdated)) is not None:
            state.restore([void])
    assert fields_left_out(store, base.fingerprint) == ["comments", "points"]
    assert sum(updates[:17]) == 16
    assert updates[17] is False, "the first visit without these fields is a baseline"
    (page,) = state.load([*store.all_rows().__next__()[0].tolist()]).values()
    assert state.estimation.rate_per_day(page) == pytest.approx(gains / 300, rel=0.3)
