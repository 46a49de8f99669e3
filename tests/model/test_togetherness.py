"""How often pages of a site are updated together, learned from visits: of all sites, and of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from hacs_crawler.model import fit_togetherness, togetherness
from hacs_crawler.model.siblings import USUAL_TOGETHERNESS

YEARS = 4 * 365.0
Flat = tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]


def visited(rng: np.random.Generator, updates: list[NDArray[np.float64]], gap_days: float) -> Flat:
    """Visits at random times, and whether each found an update; flat, with offsets."""
    days, updated = [], []
    for times in updates:
        visits = np.unique(rng.uniform(0, YEARS, int(YEARS / gap_days)))
        found = np.diff(np.searchsorted(np.sort(times), visits)) > 0
        days.append(visits)
        updated.append(np.concatenate([[False], found]))
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in days])])
    return np.concatenate(days), np.concatenate(updated), offsets


def sites_of(
    rng: np.random.Generator, shared: float, rates: tuple[float, ...], number: int = 60
) -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
    """Sites of a page of each rate; of two, the slower takes part in that share of what it can share.

    A common process of the slowest rate is joined with the probability that makes an update of one page
    one of another of its rate with the probability `shared`.
    """
    updates = []
    for _ in range(number):
        common = rng.uniform(0, YEARS, rng.poisson(min(rates) * YEARS))
        for rate in rates:
            taken = common[rng.random(len(common)) < np.sqrt(shared)]
            alone = rate - min(rates) * np.sqrt(shared)
            updates.append(
                np.concatenate([taken, rng.uniform(0, YEARS, rng.poisson(alone * YEARS))])
            )
    return np.repeat(np.arange(number) + 1, len(rates)), updates


@pytest.mark.parametrize("shared", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("gap_days", [5.0, 30.0])
def test_the_share_of_updates_that_pages_of_one_rate_have_in_common_is_found(
    shared: float, gap_days: float
) -> None:
    rng = np.random.default_rng(int(100 * shared + gap_days))
    # updates taken from a common process with probability sqrt(s) each are shared with probability
    # s of the rate
    sites, updates = sites_of(rng, shared, (0.01,) * 4)
    found = fit_togetherness(sites, *visited(rng, updates, gap_days)).overall
    assert found == pytest.approx(shared, abs=0.08)


@pytest.mark.parametrize("gap_days", [5.0, 15.0, 30.0])
def test_pages_that_have_nothing_to_do_with_each_other_are_not_together(gap_days: float) -> None:
    rng = np.random.default_rng(int(gap_days))
    rates = np.exp(rng.normal(np.log(1 / 60), 1.0, 400))
    updates = [rng.uniform(0, YEARS, rng.poisson(rate * YEARS)) for rate in rates]
    sites = np.repeat(np.arange(80) + 1, 5)
    found = fit_togetherness(sites, *visited(rng, updates, gap_days))
    assert found.overall < 0.1
    assert found.values.max() < 0.1


def test_many_sites_under_one_key_are_less_together_than_each_by_itself() -> None:
    rng = np.random.default_rng(3)
    sites, updates = sites_of(rng, 0.6, (0.01,) * 4)
    visits = visited(rng, updates, 10.0)
    order = rng.permutation(len(np.unique(sites)))
    merged = [order[sites - 1] // k + 1 for k in (1, 2, 60)]
    found = [fit_togetherness(keys, *visits).of(keys).mean() for keys in merged]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.5
    assert 0.25 < found[1] < 0.45
    assert found[2] < 0.15


def test_a_slower_page_shares_in_proportion_to_the_rates() -> None:
    rng = np.random.default_rng(4)
    sites, updates = sites_of(rng, 0.81, (0.01, 0.04))
    # the slow one shares 0.81 of its updates, which are 0.2 of the fast one's: 0.81 * 0.01 / 0.04
    found = fit_togetherness(sites, *visited(rng, updates, 5.0)).overall
    assert found == pytest.approx(0.81, abs=0.1)


def test_without_siblings_or_updates_the_usual_is_assumed() -> None:
    rng = np.random.default_rng(5)
    sites, updates = sites_of(rng, 0.5, (0.01,), 10)
    visits = visited(rng, updates, 30.0)
    quiet = (visits[0], np.zeros_like(visits[1]), visits[2])
    none = (np.zeros(0), np.zeros(0, np.bool_), np.zeros(1, np.int64))
    for found in (
        fit_togetherness(sites, *visits),
        fit_togetherness(np.zeros_like(sites), *visits),
        fit_togetherness(np.ones_like(sites), *quiet),
        fit_togetherness(np.zeros(0, np.int64), *none),
    ):
        assert found.overall == pytest.approx(USUAL_TOGETHERNESS, abs=1e-6)
        assert len(found.sites) == len(found.values) == 0


def test_few_pairs_move_it_little() -> None:
    days = np.array([0.0, 50.0, 60.0, 0.0, 55.0, 61.0])
    updated = np.array([False, True, False, False, True, False])
    found = fit_togetherness(np.array([1, 1]), days, updated, np.array([0, 3, 6]))
    assert abs(found.overall - USUAL_TOGETHERNESS) < 0.05
    assert abs(found.values[0] - USUAL_TOGETHERNESS) < 0.15


@pytest.mark.parametrize("gap_days", [5.0, 30.0])
def test_where_half_of_the_keys_are_wrong_each_site_is_told_from_the_others(
    gap_days: float,
) -> None:
    rng = np.random.default_rng(6)
    sites, updates = sites_of(rng, 0.8, (0.01,) * 4)
    right = sites <= 30
    # random pages, of which no two have much to do with each other, in sites of the same size
    sites[~right] = rng.permutation(sites[~right])
    found = fit_togetherness(sites, *visited(rng, updates, gap_days))
    of_right, of_wrong = (np.unique(sites[some]) for some in (right, ~right))
    assert 0.3 < found.overall < 0.5
    assert found.of(of_right).mean() == pytest.approx(0.8, abs=0.12)
    assert found.of(of_wrong).mean() < 0.2
    assert found.of(of_right).min() > found.of(of_wrong).max()


def test_where_all_sites_are_alike_each_takes_what_all_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(7)
    sites, updates = sites_of(rng, 0.5, (0.01,) * 4)
    visits = visited(rng, updates, 10.0)
    found = fit_togetherness(sites, *visits)
    monkeypatch.setattr(togetherness, "CONCENTRATIONS", (1.0,))
    unlike = fit_togetherness(sites, *visits)
    assert found.values.std() < unlike.values.std() / 2
    assert found.values.mean() == pytest.approx(found.overall, abs=0.03)


def test_a_giant_counts_as_one_site_for_those_of_which_nothing_is_known() -> None:
    rng = np.random.default_rng(10)
    sites, updates = sites_of(rng, 0.8, (0.01,) * 4, 60)
    sites[sites > 20] = 21
    updates[80:] = [rng.uniform(0, YEARS, len(times)) for times in updates[80:]]
    found = fit_togetherness(sites, *visited(rng, updates, 10.0))
    assert found.of(np.array([21]))[0] < 0.1
    assert found.overall > 0.6


def test_a_site_of_few_updates_is_closer_to_all_sites_than_one_of_many() -> None:
    rng = np.random.default_rng(8)
    sites, updates = sites_of(rng, 0.8, (0.01,) * 4, 30)
    alone = [rng.uniform(0, YEARS, rng.poisson(0.01 * YEARS)) for _ in range(40)]
    few = [times[times < 200] for times in alone[20:]]
    others = np.concatenate([np.repeat([101, 102, 103, 104, 105], 4), np.repeat([201], 20)])
    visits = visited(rng, updates + alone[:20] + few, 10.0)
    found = fit_togetherness(np.concatenate([sites, others]), *visits)
    many_apart = found.of(np.arange(101, 106))
    assert many_apart.max() < 0.4
    assert many_apart.mean() < found.of(np.array([201]))[0] < found.overall
    assert found.of(np.array([999]))[0] == found.overall


def test_the_numbers_of_sites_do_not_matter() -> None:
    rng = np.random.default_rng(9)
    sites, updates = sites_of(rng, 0.5, (0.02, 0.01, 0.01), 10)
    visits = visited(rng, updates, 20.0)
    numbers = rng.choice(2**32, 11, replace=False).astype(np.int64)
    found = fit_togetherness(sites, *visits)
    renamed = fit_togetherness(numbers[sites], *visits)
    assert (np.diff(renamed.sites) > 0).all()
    assert renamed.overall == pytest.approx(found.overall)
    assert renamed.of(numbers[found.sites]) == pytest.approx(found.values)


histories = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.lists(
            st.tuples(st.integers(1, 4_000_000_000), st.booleans()),
            max_size=6,
            unique_by=lambda v: v[0],
        ),
    ),
    max_size=8,
)


@given(histories)
def test_whatever_was_seen_all_are_probabilities_and_only_of_sites_that_there_are(
    found: list[tuple[int, list[tuple[int, bool]]]],
) -> None:
    visits = [sorted(visits) for _, visits in found]
    offsets = np.cumsum([0, *map(len, visits)])
    flat = [visit for page in visits for visit in page]
    days = np.array([second / 86_400 for second, _ in flat], np.float64)
    updated = np.array([is_updated for _, is_updated in flat], np.bool_)
    sites = np.array([site for site, _ in found], np.int64)
    together = fit_togetherness(sites, days, updated, offsets)
    assert 0.0 <= together.overall <= 1.0
    assert ((together.values >= 0.0) & (together.values <= 1.0)).all()
    assert set(together.sites.tolist()) <= set(sites[sites > 0].tolist())
    assert together.sites.tolist() == sorted(set(together.sites.tolist()))


def test_baselines_say_nothing_of_what_pages_have_in_common() -> None:
    rng = np.random.default_rng(3)
    sites, updates = sites_of(rng, 0.6, (0.01,) * 2)
    days, updated, offsets = visited(rng, updates, 15.0)
    found = fit_togetherness(sites, days, updated, offsets)
    more_days = np.insert(days, offsets[1:], days[offsets[1:] - 1] + 500.0)
    more_offsets = offsets + np.arange(len(offsets))
    baselines = np.zeros(len(more_days), np.bool_)
    baselines[more_offsets[1:] - 1] = True
    with_baselines = fit_togetherness(
        sites, more_days, np.insert(updated, offsets[1:], False), more_offsets, baselines
    )
    assert with_baselines.overall == pytest.approx(found.overall, abs=1e-6)
