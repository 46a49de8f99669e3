"""What is chosen is what sorting all pages and applying the rules one by one gives."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.ranking.choice import Quota, choose, contenders, foremost
from hacs_crawler.ranking.controls import control_worth
from hacs_crawler.ranking.policies import Candidates, Floats
from row_states import candidates_of

PAGES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from([0.0, 0.5])), max_size=60
)


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    budget = draw(st.none() | st.integers(0, 40))
    controls = draw(st.integers(0, 5))
    if budget is None:
        return Quota(budget, controls)
    return Quota(budget, controls, draw(st.none() | st.integers(0, budget)))


def arrays(pages: Sequence[tuple[int, int, float]]) -> tuple[Candidates, Floats]:
    """Pages as (score, visits, whether they churn)."""
    score, visits, churning = (
        np.array(column) for column in (zip(*pages, strict=True) if pages else [[]] * 3)
    )
    history = {"visits": visits, "updates": visits, "churning": churning}
    return candidates_of(len(pages), p=score / 5.0, **history), score.astype(np.float64)


def by_the_rules(
    candidates: Candidates, score: Floats, quota: Quota, is_last: bool
) -> tuple[list[int], list[int]]:
    """The pages in their order, and those of them that are asked twice."""
    ranked = sorted(range(len(score)), key=lambda page: (-score[page], page))
    budget = len(ranked) if quota.budget is None else quota.budget
    chosen = ranked[:budget]
    if quota.budget is not None and quota.unseen is not None:
        unseen = [page for page in ranked if candidates.is_unseen[page]]
        seen = [page for page in ranked if not candidates.is_unseen[page]]
        chosen = [*seen[: budget - quota.unseen], *unseen[: quota.unseen]]
        if is_last:
            chosen += [page for page in [*seen, *unseen] if page not in chosen]
            chosen = chosen[:budget]
        chosen.sort(key=lambda page: (-score[page], page))
    if quota.budget is None:
        return chosen, []
    worth = dict(enumerate(_worth(candidates).tolist()))
    for controls in range(quota.controls, 0, -1):
        visited = chosen[: max(budget - controls, 0)]
        best = sorted((page for page in visited if worth[page] > 0.0), key=lambda p: -worth[p])
        if len(best) >= controls:
            return visited, best[:controls]
    return chosen, []


def _worth(candidates: Candidates) -> Floats:
    return control_worth(candidates.p, candidates.churning, candidates.visits, candidates.updates)


@given(PAGES, quotas(), st.booleans())
def test_the_pages_chosen_are_those_that_sorting_all_of_them_gives(
    pages: list[tuple[int, int, float]], quota: Quota, is_last: bool
) -> None:
    candidates, score = arrays(pages)
    found = choose(candidates, score, quota, is_last=is_last)
    visited, twice = by_the_rules(candidates, score, quota, is_last)
    assert found.places.tolist() == visited
    assert sorted(found.places[found.visit_twice].tolist()) == sorted(twice)


@given(PAGES, PAGES, quotas(), st.booleans())
def test_what_is_no_contender_among_some_pages_is_not_chosen_of_more(
    some: list[tuple[int, int, float]],
    more: list[tuple[int, int, float]],
    quota: Quota,
    is_last: bool,
) -> None:
    candidates, score = arrays(some)
    kept = contenders(score, quota, candidates.is_unseen)
    if quota.budget is not None:
        assert len(kept) <= 2 * quota.budget
    few = [*(some[place] for place in kept), *more]
    left = choose(*arrays([*some, *more]), quota, is_last=is_last)
    right = choose(*arrays(few), quota, is_last=is_last)
    ids = np.concatenate([kept, len(some) + np.arange(len(more))]).astype(np.int64)
    assert left.places.tolist() == ids[right.places].tolist()
    assert left.visit_twice.tolist() == right.visit_twice.tolist()


@given(PAGES, quotas(), st.integers(1, 50))
def test_the_first_pages_alone_are_the_beginning_of_all(
    pages: list[tuple[int, int, float]], quota: Quota, limit: int
) -> None:
    asked = replace(quota, unseen=None)
    candidates, score = arrays(pages)
    kept = contenders(score, asked.within(limit))
    part = choose(*arrays([pages[place] for place in kept]), asked).places[:limit]
    whole = choose(candidates, score, Quota()).places
    assert kept[part].tolist() == whole[: len(part)].tolist()


@pytest.mark.parametrize("count", [0, 1, 7, 500])
def test_the_foremost_of_many_are_those_with_the_lowest_keys(count: int) -> None:
    key = np.random.default_rng(1).permutation(1000).astype(np.float64)
    assert {*foremost(key, count)} == {*np.argsort(key)[:count]}


def test_of_two_visits_one_is_for_pages_never_seen_and_a_share_that_is_set_stays() -> None:
    assert [Quota(budget).sharing(0.1).unseen for budget in (1, 2, 3)] == [0, 1, 1]
    assert Quota(3).sharing(0.0).unseen == 0
    assert Quota(10, unseen=2).sharing(0.5).unseen == 2


def test_pages_never_seen_that_have_a_share_contend_among_themselves() -> None:
    score, is_unseen = np.array([3.0, 2.0, 1.0]), np.array([False, False, True])
    assert contenders(score, Quota(2, unseen=1), is_unseen).tolist() == [0, 1, 2]
    assert contenders(score, Quota(2), is_unseen).tolist() == [0, 1]


def test_what_was_visited_is_missing_in_the_quota() -> None:
    left = Quota(10, controls=3, unseen=2).without(np.array([True, False, False]), controls=1)
    assert left == Quota(6, controls=2, unseen=1)
    assert Quota(None, controls=0).without(np.array([False]), 0) == Quota(None)
    assert Quota(3, 0, 2).without(np.zeros(2, np.bool_), 0) == Quota(1, 0, 1)


def test_pages_never_seen_that_failed_often_have_no_part_in_the_share_for_such_pages() -> None:
    candidates, score = arrays([(1, 0, 0), (0, 0, 0), (5, 1, 0), (4, 1, 0), (3, 1, 0)])
    quota = Quota(3, unseen=1)
    assert choose(candidates, score, quota, is_last=False).places.tolist() == [2, 3, 0]
    failing = replace(candidates, failures=np.array([3, 3, 0, 0, 0]))
    assert choose(failing, score, quota).places.tolist() == [2, 3, 4]
