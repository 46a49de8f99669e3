"""Churn told from time: against plain quadrature, both ways, and where nothing is suspicious."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

from hacs_crawler.model import DEFAULT_PRIOR, Gaps, LinkLifetime, Rates
from hacs_crawler.model.churn import CHURNING_PAGES, SUSPICIOUS_RATE, churn_of, fit_churning_pages
from hacs_crawler.model.grid import RATES, posterior
from hacs_crawler.ranking.controls import control_worth
from model_support import bayes, gaps_of

CONTROL = 2 / 86_400
"""A gap of two seconds, in days."""
TIMES = (
    (0.7, 0.93, 0.06, 0.01),
    (0.2, 0.5, 0.46, 0.04),
    (0.04, 0.3, 0.4, 0.3),
    (0.06, 0.02, 0.03, 0.95),
)
REQUESTS = ((0.5, 0.02, 0.03, 0.95), (0.5, 0.3, 0.4, 0.3))
"""The share of pages of a kind, and of their updates that last, pass, and are fleeting."""

Page = list[tuple[float, bool, LinkLifetime]]
"""Gaps: days, whether there was an update, and what became of it."""


def evidence(*pages: Page) -> tuple[Gaps, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    gaps = gaps_of(*([(days, updated) for days, updated, _ in page] for page in pages))
    return gaps, np.array([lifetime for page in pages for _, _, lifetime in page], np.uint8)


def rates_of(*pages: Page) -> Rates:
    return churning_rates(*evidence(*pages))


def churning_rates(gaps: Gaps, lifetimes: np.ndarray) -> Rates:
    """λ and churn alone: how the page goes on is not what these tests are about."""
    found = churn_of(gaps, posterior(gaps, DEFAULT_PRIOR), DEFAULT_PRIOR, lifetimes)
    return Rates(found.rates @ RATES, *np.zeros((3, len(gaps))), found.churn, found.churning)


def changing(
    number: int,
    lifetime: LinkLifetime = LinkLifetime.UNKNOWN,
    days: float = 1.0,
    *,
    failed: int = 0,
    passed: int = 0,
) -> Page:
    """A page that showed something new after each of so many gaps, then control visits."""
    return [
        *[(days, True, lifetime)] * number,
        *[(CONTROL, True, lifetime)] * failed,
        *[(CONTROL, False, LinkLifetime.UNKNOWN)] * passed,
    ]


def by_quadrature(page: Page, weights: list[float] | None = None) -> tuple[float, float, float]:
    """The posterior means of the rate and of c, and P(c > 0), by a plain sum over a fine grid."""
    x = np.linspace(
        DEFAULT_PRIOR.log_median - 7 * DEFAULT_PRIOR.log_sd,
        DEFAULT_PRIOR.log_median + 12 * DEFAULT_PRIOR.log_sd,
        801,
    )
    prior = norm.pdf(x, DEFAULT_PRIOR.log_median, DEFAULT_PRIOR.log_sd) * 0.998
    is_news = (x >= DEFAULT_PRIOR.log_median) & (x <= np.log(24))
    prior[is_news] += 0.002 / (np.log(24) - DEFAULT_PRIOR.log_median)
    rate = np.exp(x)[:, None]
    slab = (np.arange(100) + 0.5) / 100
    c = np.concatenate([[0.0, 0.99], slab])
    of_slab = np.concatenate([[0.6], np.full(100, 0.4 / 100)])
    of_c = np.concatenate([[1 - CHURNING_PAGES], CHURNING_PAGES * of_slab])
    likelihood = np.zeros((len(x), len(c)))
    for (share, *of_time), (other_share, *of_request) in product(TIMES, REQUESTS):
        log = np.zeros_like(likelihood)
        for (days, updated, lifetime), weight in zip(
            page, weights or [1.0] * len(page), strict=True
        ):
            quiet = np.exp(-rate * days)
            time, request = (
                (1.0, 1.0) if not lifetime else (of_time[lifetime - 1], of_request[lifetime - 1])
            )
            chance = (1 - quiet) * time + quiet * c * request if updated else quiet * (1 - c)
            with np.errstate(divide="ignore"):
                log += weight * np.log(chance)
        likelihood += share * other_share * np.exp(log)
    mass = likelihood * prior[:, None] * of_c
    mass /= mass.sum()
    return (float((mass * rate).sum()), float((mass * c).sum()), float(mass[:, 1:].sum()))


# Visits of one kind of page at gaps of a day: what becomes of its links, and the controls that it
# passed or failed -> E[c] and P(churns).
TABLE = [
    # A trap of session links: none of them is ever seen again.
    (changing(3, LinkLifetime.FLEETING), 0.96, 0.99),
    (changing(3, LinkLifetime.FLEETING, failed=1), 0.97, 1.00),
    (changing(10, LinkLifetime.FLEETING), 0.98, 1.00),
    (changing(10, LinkLifetime.FLEETING, failed=1), 0.99, 1.00),
    # A news page: its links are gone by the next day, too, but not within seconds.
    (changing(3, LinkLifetime.FLEETING, passed=1), 0.63, 0.85),
    (changing(3, LinkLifetime.FLEETING, passed=2), 0.35, 0.60),
    (changing(10, LinkLifetime.FLEETING, passed=1), 0.77, 0.82),
    (changing(10, LinkLifetime.FLEETING, passed=2), 0.18, 0.23),
    (changing(40, LinkLifetime.FLEETING, passed=1), 0.71, 0.72),
    (changing(40, LinkLifetime.FLEETING, passed=2), 0.03, 0.04),
    # A page of which it is not known what became of its links.
    (changing(3), 0.91, 0.95),
    (changing(3, failed=1), 0.97, 1.00),
    (changing(3, passed=1), 0.32, 0.44),
    (changing(10), 0.96, 0.98),
    (changing(10, failed=1), 0.99, 1.00),
    (changing(10, passed=1), 0.38, 0.41),
]


@pytest.mark.parametrize(("page", "churn", "churning"), TABLE)
def test_traps_and_news_pages_are_told_apart_by_control_visits(
    page: Page, churn: float, churning: float
) -> None:
    found = rates_of(page)
    rate, *by_sum = by_quadrature(page)
    for expected in ((churn, churning), by_sum):
        assert (found.churn[0], found.churning[0]) == pytest.approx(expected, abs=0.01)
    assert found.rate_per_day[0] == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("share", [CHURNING_PAGES, 0.3])
def test_only_a_control_visit_that_differs_ends_the_doubt(share: float) -> None:
    pages = [changing(30, LinkLifetime.FLEETING, failed=failed) for failed in (0, 1)]
    gaps, lifetimes = evidence(*pages)
    found = churn_of(gaps, posterior(gaps, DEFAULT_PRIOR), DEFAULT_PRIOR, lifetimes, share)
    worth = control_worth(np.ones(2), found.churning, gaps.counts, gaps.counts)
    assert worth[0] > 0 == worth[1]


lifetimes = st.sampled_from(LinkLifetime)
page_gaps = st.lists(
    st.tuples(
        st.sampled_from([CONTROL, 0.01, 0.3, 1.0, 1.0, 1.0, 7.0, 30.0]), st.booleans(), lifetimes
    ).map(lambda gap: (gap[0], gap[1], gap[2] if gap[1] else LinkLifetime.UNKNOWN)),
    min_size=2,
    max_size=15,
)


@settings(max_examples=30, deadline=None)
@given(page_gaps)
def test_suspicious_pages_have_the_posterior_of_plain_quadrature(page: Page) -> None:
    found = rates_of(page)
    if not found.churning[0]:
        return
    rate, churn, churning = by_quadrature(page)
    assert found.churn[0] == pytest.approx(churn, abs=0.01)
    assert found.churning[0] == pytest.approx(churning, abs=0.01)
    assert found.rate_per_day[0] == pytest.approx(rate, rel=0.08)


@settings(max_examples=30, deadline=None)
@given(page_gaps, st.integers(0, 2**32 - 1))
def test_gaps_count_by_their_weight(page: Page, seed: int) -> None:
    gaps, lifetimes = evidence(page)
    weight = np.random.default_rng(seed).random(len(page))
    found = churning_rates(Gaps(gaps.days, gaps.updated, weight, gaps.offsets), lifetimes)
    if found.churning[0]:
        rate, churn, _ = by_quadrature(page, weight.tolist())
        assert found.churn[0] == pytest.approx(churn, abs=0.01)
        assert found.rate_per_day[0] == pytest.approx(rate, rel=0.05)


def test_gaps_of_no_weight_tell_nothing() -> None:
    gaps, lifetimes = evidence(changing(10, LinkLifetime.FLEETING, failed=2))
    faded = Gaps(gaps.days, gaps.updated, np.zeros(len(gaps.days)), gaps.offsets)
    found = churning_rates(faded, lifetimes)
    assert found.rate_per_day[0] == pytest.approx(DEFAULT_PRIOR.mean_rate)
    assert (found.churn[0], found.churning[0]) == (0.0, 0.0)


@pytest.mark.parametrize(
    "page", [[], [(1.0, False, LinkLifetime.UNKNOWN)] * 5, [(1.0, True, LinkLifetime.UNKNOWN)]]
)
def test_a_page_without_two_updates_has_the_rate_that_it_had_before(page: Page) -> None:
    found = rates_of(page, changing(10, LinkLifetime.FLEETING), page)
    rate = bayes(evidence(page)[0], DEFAULT_PRIOR)
    for place in (0, 2):
        assert found.rate_per_day[place] == pytest.approx(rate[0], rel=1e-9)
        assert (found.churn[place], found.churning[place]) == (0.0, 0.0)


@settings(max_examples=25, deadline=None)
@given(st.lists(page_gaps | st.just([]), max_size=8))
def test_many_pages_at_once_are_what_each_is_alone(pages: list[Page]) -> None:
    together = rates_of(*pages)
    for place, page in enumerate(pages):
        alone = rates_of(page)
        for name in ("rate_per_day", "churn", "churning"):
            found = getattr(together, name)[place]
            assert found == pytest.approx(getattr(alone, name)[0], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("days", [0.5, 1.0, 3.0, 7.0, 30.0])
@pytest.mark.parametrize("rate", [0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
def test_pages_whose_updates_last_are_never_suspicious(rate: float, days: float) -> None:
    random = np.random.default_rng(1)
    pages = [
        [
            (days, updated, LinkLifetime.LASTING if updated else LinkLifetime.UNKNOWN)
            for updated in (random.random(50) < -np.expm1(-rate * days)).tolist()
        ]
        for _ in range(50)
    ]
    found = rates_of(*pages)
    gaps, _ = evidence(*pages)
    expected = bayes(gaps, DEFAULT_PRIOR)
    assert found.churn.max() < 0.01
    assert found.rate_per_day == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("lasting", "passing", "is_suspicious"), [(2, 0, True), (3, 0, False), (3, 3, True)]
)
def test_fast_pages_are_suspicious_unless_enough_of_their_updates_last(
    lasting: int, passing: int, is_suspicious: bool
) -> None:
    page: Page = [(0.5, True, LinkLifetime.LASTING)] * lasting
    page += [(0.5, True, LinkLifetime.PASSING)] * passing
    found = rates_of([*page, (0.5, False, LinkLifetime.UNKNOWN)])
    assert bool(found.churning[0]) is is_suspicious


def test_of_a_page_that_changes_slowly_short_gaps_raise_suspicion_and_links_never_seen_again() -> (
    None
):
    quiet: Page = [(30.0, False, LinkLifetime.UNKNOWN)] * 10
    slow: Page = [*quiet, *[(30.0, True, LinkLifetime.PASSING)] * 2]
    fleeting: Page = [*quiet, *[(30.0, True, LinkLifetime.FLEETING)] * 2]
    churning: Page = [*quiet, *[(CONTROL, True, LinkLifetime.FLEETING)] * 2]
    found = rates_of(slow, fleeting, churning)
    fast = DEFAULT_PRIOR.log_median + SUSPICIOUS_RATE * DEFAULT_PRIOR.log_sd
    assert np.log(found.rate_per_day[0]) < fast
    assert found.churning[0] == 0.0
    assert 0.0 < found.churning[1] < 0.5
    assert found.churning[2] > 0.99


@pytest.mark.parametrize("days", [1 / 86_400, 30 * 365.25])
@pytest.mark.parametrize("updated", [True, False])
@pytest.mark.parametrize("number", [2, 5_000])
def test_extreme_gaps_give_finite_rates(days: float, updated: bool, number: int) -> None:
    page: Page = [
        (days, updated, LinkLifetime.FLEETING if updated else LinkLifetime.UNKNOWN)
    ] * number
    page += [(1.0, True, LinkLifetime.LASTING)] * 2
    found = rates_of(page)
    assert 0.0 < found.rate_per_day[0] < 1_100
    assert 0.0 <= found.churn[0] <= found.churning[0] <= 1.0


def test_thousands_of_gaps_are_estimated_as_few_are() -> None:
    random = np.random.default_rng(3)
    page: Page = [
        (1.0, updated, LinkLifetime.FLEETING if updated else LinkLifetime.UNKNOWN)
        for updated in (random.random(5_000) < 0.6).tolist()
    ]
    found = rates_of([*page, *[(CONTROL, True, LinkLifetime.FLEETING)] * 6])
    assert found.churn[0] == pytest.approx(0.6, abs=0.03)
    assert found.churning[0] == pytest.approx(1.0)


@given(st.lists(st.floats(0, 1), max_size=300))
def test_the_share_of_churning_pages_is_that_of_the_sample_and_never_none_or_all(
    churning: list[float],
) -> None:
    assert 0.0 < fit_churning_pages(np.array(churning)) < 0.5
    assert fit_churning_pages(np.array([])) == pytest.approx(CHURNING_PAGES)
