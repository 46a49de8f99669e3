"""What the visits of a site's other pages tell of a page."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.model import (
    SHARED_UPDATES,
    USUAL_SIBLING_CORRELATION,
    SiblingVisits,
    sibling_evidence,
)
from hacs_crawler.model.siblings import LEAST_LEFT, MOST_QUIET, MOST_UPDATES, QUIET_SHARE

NEVER = np.nan


def evidence(
    *pages: tuple[int, float, float, float, float],
    sibling_correlation: float = USUAL_SIBLING_CORRELATION,
    first_visit: float = 0.0,
) -> list[tuple[float, float]]:
    """Of pages of (site, rate, last visit, last update, visit before it): quiet days and probability."""
    columns = np.array(pages, np.float64).reshape(-1, 5).T
    quiet_since = np.where(np.isnan(columns[3]), first_visit, columns[3])
    quiet, shared = sibling_evidence(
        SiblingVisits(columns[0].astype(np.int64), *columns[1:], quiet_since), sibling_correlation
    )
    return list(zip(quiet.tolist(), shared.tolist(), strict=True))


@pytest.mark.parametrize("days", [0, 5])
def test_a_sibling_is_known_to_be_quiet_only_from_its_first_visit_on(days: int) -> None:
    visits = (1, 0.1, 10, NEVER, NEVER), (1, 0.1, 30, NEVER, NEVER)
    page, _ = evidence(*visits, first_visit=30 - days)
    assert page == (pytest.approx(QUIET_SHARE * days), 0.0)


times = st.one_of(st.just(NEVER), st.floats(0, 49_710, width=32))
pages = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 10), times, times, times), max_size=30)


@given(pages)
def test_whatever_the_times_are_quiet_days_are_finite_and_probabilities_below_one(
    found: list[tuple[int, float, float, float, float]],
) -> None:
    for quiet, shared in evidence(*found):
        assert 0 <= quiet < np.inf
        assert 0 <= shared < 1


Page = tuple[int, float, float, float, float]
days = st.one_of(st.just(NEVER), st.integers(0, 12).map(float))
whole_days = st.lists(
    st.tuples(st.integers(0, 3), st.floats(0, 10), days, days, st.integers(0, 9)).map(
        lambda page: (*page[:4], page[3] - page[4])
    ),
    max_size=30,
)


def plainly(found: list[Page], sibling_correlation: float) -> list[tuple[float, float]]:
    """What is said of each page by the definitions, page by page and day by day."""
    evidence_of_each = []
    for page in found:
        strength = min(1.0, sibling_correlation / USUAL_SIBLING_CORRELATION)
        quiet = quiet_days_of(page, found, QUIET_SHARE * strength**4)
        evidence_of_each.append((quiet, strength**2 * shared_of(page, found)))
    return evidence_of_each


def seen_on_its_site(page: Page, found: list[Page]) -> list[Page]:
    return [other for other in found if other[0] == page[0] > 0 and other[2] >= 0]


def quiet_days_of(page: Page, found: list[Page], quiet_share: float) -> float:
    site = seen_on_its_site(page, found)
    since = [0.0 if np.isnan(other[3]) else other[3] for other in site]
    numbers = (
        sum(first <= day < other[2] for other, first in zip(site, since, strict=True))
        for day in range(13)
        if day >= page[2]
    )
    return sum(1 - max(LEAST_LEFT, (1 - quiet_share) ** min(one, MOST_QUIET)) for one in numbers)


def shared_of(page: Page, found: list[Page]) -> float:
    site = seen_on_its_site(page, found)
    updated = sorted((other for other in site if other[3] >= 0), key=lambda other: -other[3])
    most = 0.0
    for _, rate, _, last, before in (
        updated[:MOST_UPDATES] if len(site) > 1 and page[2] >= 0 else ()
    ):
        if last > before and last > page[2]:
            ratio = min(1.0, max(page[1], 1e-12) / max(rate, 1e-12))
            most = max(most, ratio * (last - max(before, page[2])) / (last - before))
    return SHARED_UPDATES * min(most, 1.0)


@given(whole_days, st.floats(0, 1))
def test_every_page_gets_what_the_definitions_say(
    found: list[Page], sibling_correlation: float
) -> None:
    evidence_of_each = np.array(evidence(*found, sibling_correlation=sibling_correlation)).tolist()
    assert evidence_of_each == [
        pytest.approx(one, rel=1e-5, abs=1e-8) for one in plainly(found, sibling_correlation)
    ]


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_what_some_pages_are_told_is_what_they_are_told_among_all(seed: int, sites: int) -> None:
    rng = np.random.default_rng(seed)
    visits = np.where(rng.random(30) < 0.1, np.nan, rng.integers(20, 40, 30))
    updates = np.where(rng.random(30) < 0.4, np.nan, visits - rng.integers(0, 9, 30))
    pages = SiblingVisits(
        rng.integers(0, sites + 1, 30),
        rng.random(30),
        visits,
        updates,
        updates - rng.integers(1, 9, 30),
        np.where(np.isnan(updates), visits - 10.0, updates),
    )
    wanted = rng.permutation(30)[: rng.integers(0, 31)]
    some, every = (sibling_evidence(pages, 0.5, which) for which in (wanted, None))
    for ours, theirs in zip(some, every, strict=True):
        assert ours.tolist() == theirs[wanted].tolist()
