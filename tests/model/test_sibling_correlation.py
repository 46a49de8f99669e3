"""How often pages of a site are updated together, learned from visits."""

import itertools

import numpy as np
import pytest
import scipy
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from hacs_crawler.model import USUAL_SIBLING_CORRELATION, Visits, fit_sibling_correlation
from hacs_crawler.model.estimators import mle
from hacs_crawler.model.siblings import CELLS, CONCENTRATIONS, MEANS, PRIOR_SITES

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


def pairs_of(visits: Visits, some: list[int]) -> tuple[list[float], int]:
    """By the definition, x of all pairs of a site's pages, and the number of updates in pairs."""
    rates, found, updates = mle(visits.gaps()), [], set()
    ends = {page: range(visits.offsets[page] + 1, visits.offsets[page + 1]) for page in some}
    for page, sibling in itertools.permutations(some, 2):
        for end in ends[page]:
            a, b = visits.visit_days[end - 1 : end + 1]
            x, has_overlap = 0.0, False
            for other in ends[sibling]:
                since, until = visits.visit_days[other - 1 : other + 1]
                overlap = max(0.0, min(b, until) - max(a, since)) / (b - a)
                chance = -np.expm1(-rates[sibling] * (until - since))
                x += overlap * (visits.updated[other] / chance - 1.0 if chance else 0.0)
                has_overlap |= overlap > 0
            if has_overlap and visits.updated[end] and rates[sibling] > 0:
                found.append(min(1.0, rates[sibling] / rates[page]) * x)
                updates.add(end)
    return found, len(updates)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_posterior_mean_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sites, updates = sites_of(rng, 0.7, (0.01, 0.004, 0.01), 2)
    visits = Visits(*visited(rng, updates, 80.0))
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    r = (edges[1:] + edges[:-1]) / 2
    means, concentrations = (axis.ravel() for axis in np.meshgrid(MEANS, CONCENTRATIONS))
    beta = scipy.stats.beta(concentrations * means, concentrations * (1.0 - means))
    cells = np.diff(beta.cdf(edges[:, None]), axis=0)
    usual = PRIOR_SITES * USUAL_SIBLING_CORRELATION
    weight = scipy.stats.beta(usual, PRIOR_SITES - usual).pdf(means)
    for site in (1, 2):
        found, number = pairs_of(visits, np.flatnonzero(sites == site).tolist())
        weight *= np.prod([1.0 + r * x for x in found], axis=0) ** (number / len(found) / 2) @ cells
    expected = r @ cells @ weight / weight.sum()
    assert fit_sibling_correlation(sites, visits) == pytest.approx(expected, abs=1e-6)


def test_the_numbers_of_sites_and_the_unit_of_time_do_not_matter() -> None:
    rng = np.random.default_rng(9)
    sites, updates = sites_of(rng, 0.5, (0.02, 0.01, 0.01), 10)
    visits = visited(rng, updates, 20.0)
    numbers = rng.choice(2**32, 11, replace=False).astype(np.int64)
    found = fit_sibling_correlation(sites, Visits(*visits))
    scaled = Visits(visits[0] / 3000.0, *visits[1:])
    assert fit_sibling_correlation(numbers[sites], scaled) == pytest.approx(found)


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
    assert 0.0 <= fit_sibling_correlation(sites, Visits(days, updated, offsets)) <= 1.0


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
