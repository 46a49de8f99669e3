"""What is chosen is what sorting all pages and applying the rules one by one gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, strategies as st

from hacs_crawler.ranking.candidates import nobody
from hacs_crawler.ranking.choice import NO_ARM, Quota, choose, contenders
from hacs_crawler.ranking.controls import control_worth
from hacs_crawler.ranking.policies import Candidates, Floats

PAGES = st.lists(
    st.tuples(
        st.sampled_from([NO_ARM, 0, 0, 1]),
        st.integers(0, 5),
        st.integers(0, 3),
        st.sampled_from([0.0, 0.5]),
    ),
    max_size=60,
)


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    budget = draw(st.none() | st.integers(0, 40))
    controls = draw(st.integers(0, 5))
    if budget is None:
        return Quota(budget, controls)
    return Quota(budget, controls, draw(st.none() | st.integers(0, budget)))


def arrays(pages: Sequence[tuple[int, int, int, float]]) -> tuple[Candidates, np.ndarray, Floats]:
    """Pages as (arm, score, visits, whether they churn)."""
    arms, score, visits, churning = (
        np.array(column) for column in (zip(*pages, strict=True) if pages else [[]] * 4)
    )
    number = len(pages)
    numbers = np.zeros(number)
    candidates = replace(
        nobody(),
        page_ids=np.arange(number),
        rate_per_day=numbers,
        fast_share=numbers,
        fast_per_day=numbers,
        slow_per_day=numbers,
        days_since_visit=numbers,
        days_since_update=numbers,
        p=score / 5.0,
        visits=visits.astype(np.int64),
        updates=visits.astype(np.int64),
        failures=np.zeros(number, np.int64),
        churn=numbers,
        churning=churning.astype(np.float64),
    )
    return candidates, arms.astype(np.int64), score.astype(np.float64)


def by_the_rules(
    candidates: Candidates,
    mine: list[int],
    score: Floats,
    quota: Quota,
    limit: int | None,
    is_last: bool,
) -> tuple[list[int], list[int]]:
    """The pages of an arm in their order, and those of them that are asked twice."""
    ranked = sorted(mine, key=lambda page: (-score[page], page))
    budget = len(ranked) if quota.budget is None else quota.budget
    chosen = ranked[:budget]
    if quota.budget is not None and quota.unseen is not None:
        unseen = [page for page in ranked if candidates.visits[page] == 0]
        seen = [page for page in ranked if candidates.visits[page] > 0]
        chosen = [*seen[: budget - quota.unseen], *unseen[: quota.unseen]]
        if is_last:
            chosen += [page for page in [*seen, *unseen] if page not in chosen]
            chosen = chosen[:budget]
        chosen.sort(key=lambda page: (-score[page], page))
    elif limit is not None:
        chosen = chosen[:limit]
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


@given(PAGES, quotas(), quotas(), st.none() | st.integers(1, 50), st.booleans())
def test_each_arm_has_the_pages_that_sorting_all_of_them_gives(
    pages: list[tuple[int, int, int, float]],
    one: Quota,
    other: Quota,
    limit: int | None,
    is_last: bool,
) -> None:
    candidates, arms, score = arrays(pages)
    found = choose(candidates, arms, score, [one, other], limit, is_last=is_last)
    for arm, quota in enumerate((one, other)):
        mine = np.flatnonzero(arms == arm).tolist()
        visited, twice = by_the_rules(candidates, mine, score, quota, limit, is_last)
        assert found[arm].places.tolist() == visited
        is_twice = found[arm].visit_twice
        assert sorted(found[arm].places[is_twice].tolist()) == sorted(twice)


@given(PAGES, PAGES, quotas(), quotas(), st.booleans())
def test_what_is_no_contender_among_some_pages_is_not_chosen_of_more(
    some: list[tuple[int, int, int, float]],
    more: list[tuple[int, int, int, float]],
    one: Quota,
    other: Quota,
    is_last: bool,
) -> None:
    asked = [one, other]
    candidates, arms, score = arrays(some)
    kept = contenders(arms, score, asked, candidates.visits)
    for number, quota in enumerate(asked):
        if quota.budget is not None:
            assert np.count_nonzero(arms[kept] == number) <= 2 * quota.budget
    few = [*(some[place] for place in kept), *more]
    of_all = choose(*arrays([*some, *more]), asked, is_last=is_last)
    of_few = choose(*arrays(few), asked, is_last=is_last)
    ids = np.concatenate([kept, len(some) + np.arange(len(more))]).astype(np.int64)
    for left, right in zip(of_all, of_few, strict=True):
        assert left.places.tolist() == ids[right.places].tolist()
        assert left.visit_twice.tolist() == right.visit_twice.tolist()


@given(PAGES, quotas(), st.integers(1, 50))
def test_who_looks_at_the_first_pages_only_sees_the_same(
    pages: list[tuple[int, int, int, float]], quota: Quota, limit: int
) -> None:
    asked = [quota._replace(unseen=None), Quota(None)]
    candidates, arms, score = arrays(pages)
    kept = contenders(arms, score, [one.within(limit) for one in asked])
    few = choose(*arrays([pages[place] for place in kept]), asked, limit)
    for found, part in zip(choose(candidates, arms, score, asked, limit), few, strict=True):
        assert found.places.tolist() == kept[part.places].tolist()


def test_what_was_visited_is_missing_in_the_quota() -> None:
    left = Quota(10, controls=3, unseen=2).without(np.array([0, 4, 5]), controls=1)
    assert left == Quota(6, controls=2, unseen=1)
    assert Quota(None, controls=0).without(np.array([1]), 0) == Quota(None)
    assert Quota(3, 0, 2).without(np.array([1, 1]), 0) == Quota(1, 0, 1)
