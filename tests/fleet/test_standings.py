"""What a leader notes of its plan: who is whose sibling, and which scores stand where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hacs_crawler.fleet.standings import (
    MOST_OF_FAMILY,
    Member,
    Published,
    StandingsError,
    packed_families,
    packed_scale,
    read_family,
    read_scale,
    site_note,
)

SCORES = st.lists(st.floats(0.0, 1.0), max_size=50).map(lambda scores: sorted(scores)[::-1])


def positions(plan: list[float], *scores: float) -> list[float]:
    scale = read_scale(packed_scale(np.arange(len(plan)), np.array(plan)))
    return scale.positions_of(np.array(scores)).tolist()  # type: ignore[no-any-return]


def families(
    sites: list[int], page_ids: list[int], *published: list[int]
) -> dict[str, list[Member]]:
    entries = Published(*(np.array(column, np.int64) for column in published))
    packed = packed_families(np.array(sites), np.array(page_ids), entries)
    return {name: read_family(note) for name, note in packed}


def test_a_score_stands_between_those_of_its_neighbours() -> None:
    assert positions([0.9, 0.5, 0.1], 0.9, 0.7, 0.5, 0.2) == pytest.approx([0.0, 0.5, 1.0, 1.75])


def test_a_score_above_or_below_all_stands_before_or_behind_them() -> None:
    above, higher, below = positions([0.9, 0.5], 0.95, 0.99, 0.1)
    assert -1.0 < higher < above < 0.0
    assert 1.0 < below < 2.0


@given(SCORES, st.lists(st.floats(0.0, 1.0), min_size=1))
def test_the_order_of_places_is_that_of_scores(plan: list[float], scores: list[float]) -> None:
    found = positions(plan, *sorted(scores, reverse=True))
    assert found == sorted(found)
    assert found[0] > -1.0


@given(SCORES, st.floats(0.0, 1.0))
def test_what_is_clearly_worse_is_behind(plan: list[float], score: float) -> None:
    (place,) = positions(plan, score)
    for rank, other in enumerate(plan):
        if other > score:
            assert rank <= place
        if other < score:
            assert place <= rank


def test_of_a_long_plan_some_scores_are_enough() -> None:
    plan = np.linspace(1.0, 0.0, 100_001)
    note = packed_scale(np.arange(len(plan)), plan)
    assert len(note) <= 16_000
    assert read_scale(note).positions_of(np.array([0.3])) == pytest.approx([70_000], abs=1)


def test_ranks_need_not_follow_one_another() -> None:
    scale = read_scale(packed_scale(np.array([0, 10]), np.array([1.0, 0.0])))
    assert scale.positions_of(np.array([0.5])) == pytest.approx([5.0])


def test_the_pages_of_a_site_are_noted_with_their_entries() -> None:
    found = families([7, 8, 7, 8, 9], [1, -2, 3, 4, 5], [4, 1], [6, 2], [255, 0])
    assert found == {
        site_note(7): [Member(1, 2, 0), Member(3, None, 0)],
        site_note(8): [Member(-2, None, 0), Member(4, 6, 255)],
    }


def test_of_a_site_with_very_many_pages_nothing_is_noted() -> None:
    for number, names in ((MOST_OF_FAMILY, [site_note(7)]), (MOST_OF_FAMILY + 1, [])):
        found = families([7] * number, [*range(number)], [0], [0], [0])
        assert [*found] == names


def test_where_nothing_was_published_nothing_is_noted() -> None:
    assert families([7, 7], [1, 2], [], [], []) == {}
    assert families([], [], [1], [0], [0]) == {}


@pytest.mark.parametrize("read", [read_scale, read_family])
def test_a_note_that_is_none_is_named(read: type) -> None:
    with pytest.raises(StandingsError, match="a note of the fleet's plan is damaged"):
        read(b"rubbish")


def test_a_scale_of_numbers_that_are_none_is_named() -> None:
    with pytest.raises(StandingsError, match="numbers that are none"):
        read_scale(np.array([0.0, np.nan]).tobytes())
