"""How often pages of a site are updated together, learned from visits."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from hacs_crawler.model import USUAL_SIBLING_CORRELATION, Visits, fit_sibling_correlation

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
    found = fit_sibling_correlation(sites, Visits(*visited(rng, updates, gap_days)))
    assert found == pytest.approx(shared, abs=0.08)


@pytest.mark.parametrize("gap_days", [5.0, 15.0, 30.0])
def test_pages_that_have_nothing_to_do_with_each_other_are_not_together(gap_days: float) -> None:
    rng = np.random.default_rng(int(gap_days))
    rates = np.exp(rng.normal(np.log(1 / 60), 1.0, 400))
    updates = [rng.uniform(0, YEARS, rng.poisson(rate * YEARS)) for rate in rates]
    sites = np.repeat(np.arange(80) + 1, 5)
    found = fit_sibling_correlation(sites, Visits(*visited(rng, updates, gap_days)))
    assert found < 0.1


def test_many_sites_under_one_key_are_less_together_than_each_by_itself() -> None:
    rng = np.random.default_rng(3)
    sites, updates = sites_of(rng, 0.6, (0.01,) * 4)
    visits = visited(rng, updates, 10.0)
    order = rng.permutation(len(np.unique(sites)))
    merged = [order[sites - 1] // k + 1 for k in (1, 2)]
    found = [fit_sibling_correlation(keys, Visits(*visits)) for keys in merged]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.5
    assert 0.2 < found[1] < 0.45


def test_a_slower_page_shares_in_proportion_to_the_rates() -> None:
    rng = np.random.default_rng(4)
    sites, updates = sites_of(rng, 0.81, (0.01, 0.04))
    # the slow one shares 0.81 of its updates, which are 0.2 of the fast one's: 0.81 * 0.01 / 0.04
    found = fit_sibling_correlation(sites, Visits(*visited(rng, updates, 5.0)))
    assert found == pytest.approx(0.81, abs=0.1)


def test_without_siblings_or_updates_the_usual_is_assumed() -> None:
    rng = np.random.default_rng(5)
    sites, updates = sites_of(rng, 0.5, (0.01,), 10)
    visits = visited(rng, updates, 30.0)
    quiet = (visits[0], np.zeros_like(visits[1]), visits[2])
    none = (np.zeros(0), np.zeros(0, np.bool_), np.zeros(1, np.int64))
    for found in (
        fit_sibling_correlation(sites, Visits(*visits)),
        fit_sibling_correlation(np.zeros_like(sites), Visits(*visits)),
        fit_sibling_correlation(np.ones_like(sites), Visits(*quiet)),
        fit_sibling_correlation(np.zeros(0, np.int64), Visits(*none)),
    ):
        assert found == pytest.approx(USUAL_SIBLING_CORRELATION, abs=1e-6)


def test_few_pairs_move_it_little() -> None:
    days = np.array([0.0, 50.0, 60.0, 0.0, 55.0, 61.0])
    updated = np.array([False, True, False, False, True, False])
    found = fit_sibling_correlation(np.array([1, 1]), Visits(days, updated, np.array([0, 3, 6])))
    assert abs(found - USUAL_SIBLING_CORRELATION) < 0.05


def test_a_giant_counts_as_one_site() -> None:
    rng = np.random.default_rng(10)
    sites, updates = sites_of(rng, 0.8, (0.01,) * 4, 60)
    sites[sites > 20] = 21
    updates[80:] = [rng.uniform(0, YEARS, len(times)) for times in updates[80:]]
    found = fit_sibling_correlation(sites, Visits(*visited(rng, updates, 10.0)))
    assert found > 0.6


def test_the_numbers_of_sites_do_not_matter() -> None:
    rng = np.random.default_rng(9)
    sites, updates = sites_of(rng, 0.5, (0.02, 0.01, 0.01), 10)
    visits = visited(rng, updates, 20.0)
    numbers = rng.choice(2**32, 11, replace=False).astype(np.int64)
    found = fit_sibling_correlation(sites, Visits(*visits))
    renamed = fit_sibling_correlation(numbers[sites], Visits(*visits))
    assert renamed == pytest.approx(found)


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
def test_whatever_was_seen_it_is_a_probability(
    found: list[tuple[int, list[tuple[int, bool]]]],
) -> None:
    visits = [sorted(visits) for _, visits in found]
    offsets = np.cumsum([0, *map(len, visits)])
    flat = [visit for page in visits for visit in page]
    days = np.array([second / 86_400 for second, _ in flat], np.float64)
    updated = np.array([is_updated for _, is_updated in flat], np.bool_)
    sites = np.array([site for site, _ in found], np.int64)
    together = fit_sibling_correlation(sites, Visits(days, updated, offsets))
    assert 0.0 <= together <= 1.0


def test_baselines_say_nothing_of_what_pages_have_in_common() -> None:
    rng = np.random.default_rng(3)
    sites, updates = sites_of(rng, 0.6, (0.01,) * 2)
    days, updated, offsets = visited(rng, updates, 15.0)
    found = fit_sibling_correlation(sites, Visits(days, updated, offsets))
    more_days = np.insert(days, offsets[1:], days[offsets[1:] - 1] + 500.0)
    more_offsets = offsets + np.arange(len(offsets))
    baselines = np.zeros(len(more_days), np.bool_)
    baselines[more_offsets[1:] - 1] = True
    more = np.insert(updated, offsets[1:], False)
    visits = Visits(more_days, more, more_offsets, baselines=baselines)
    assert fit_sibling_correlation(sites, visits) == pytest.approx(found, abs=1e-6)
