"""Pages whose updates come in bursts."""

from itertools import pairwise

import numpy as np
import pytest

from hacs_crawler.model import (
    DEFAULT_BURSTS,
    DEFAULT_PRIOR,
    Bursts,
    Gaps,
    LinkLifetime,
    Rates,
    Visits,
    estimate,
    fit_bursts,
)
from hacs_crawler.model.bursts import with_bursts
from hacs_crawler.model.churn import churn_of
from hacs_crawler.model.grid import RATES, SURVIVAL, posterior
from hacs_crawler.model.survival import TIMES, fitted
from hacs_crawler.utils.arrays import FloatArray
from model_support import gaps_between

BURSTY = Bursts(DEFAULT_BURSTS.shares, 0.06)
QUIET_DAYS, BUSY_DAYS, BUSY_RATE = 200.0, 10.0, 1.0


def gaps_of(*pages: tuple[list[float], list[bool]], fade_days: float = 365.0) -> Gaps:
    days = np.concatenate([np.cumsum([0.0, *gaps]) for gaps, _ in pages])
    found = np.concatenate([np.array([False, *updated]) for _, updated in pages])
    offsets = np.cumsum([0, *(len(gaps) + 1 for gaps, _ in pages)])
    return gaps_between(days, found, offsets, fade_days)


def rates_of(gaps: Gaps, bursts: Bursts = BURSTY) -> Rates:
    lasting = np.where(gaps.updated, LinkLifetime.LASTING, LinkLifetime.UNKNOWN).astype(np.uint8)
    return estimated(gaps, bursts, lasting)


def estimated(gaps: Gaps, bursts: Bursts, became: np.ndarray | None = None) -> Rates:
    """What the estimator says, of gaps in the place of visits."""
    found = churn_of(gaps, posterior(gaps, DEFAULT_PRIOR), DEFAULT_PRIOR, became)
    churn = found.churn, found.churning
    survival = with_bursts(found.rates @ SURVIVAL, gaps, *churn, DEFAULT_PRIOR, bursts)
    return Rates(found.rates @ RATES, *fitted(survival, np.full(len(gaps), 3.0)), *churn)


def drawn(
    pages: int, *, is_bursty: bool, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Visits every three days for two years; of equal numbers of updates, in bursts or not."""
    rng = np.random.default_rng(seed)
    days, found = np.arange(0.0, 730.0, 3.0), []
    mean = BUSY_RATE * BUSY_DAYS / (BUSY_DAYS + QUIET_DAYS)
    for _ in range(pages):
        if is_bursty:
            ends = np.cumsum(rng.exponential(np.tile([QUIET_DAYS, BUSY_DAYS], 40)))
            busy = [(begin, end) for begin, end in zip(ends[::2], ends[1::2], strict=True)]
            number = [rng.poisson(BUSY_RATE * (end - begin)) for begin, end in busy]
            times = [rng.uniform(*span, n) for span, n in zip(busy, number, strict=True)]
            at = np.concatenate(times)
        else:
            at = rng.uniform(0.0, 730.0, rng.poisson(mean * 730.0))
        found.append([False, *(((at > a) & (at <= b)).any() for a, b in pairwise(days))])
    offsets = np.arange(pages + 1) * len(days)
    return np.tile(days, pages), np.concatenate(found), offsets


def expm(matrix: FloatArray) -> FloatArray:
    """By eigenvalues: SciPy 1.12 overflows for 2 x 2 matrices of large elements."""
    values, vectors = np.linalg.eig(matrix)
    return (vectors * np.exp(values)) @ np.linalg.inv(vectors)


@pytest.mark.parametrize("churn", [0.0, 0.3])
def test_the_survival_is_that_of_the_filter(churn: float) -> None:
    """By the matrix exponentials of the module's text, of a page's one type."""
    quiet, busy, to_busy, to_quiet = 0.003, 1.0, 1 / 80, 1 / 8  # the last type
    d0 = np.array([[-(quiet + to_busy), to_busy], [to_quiet, -(busy + to_quiet)]])
    d = d0 + np.diag([quiet, busy])
    alpha = np.array([to_quiet, to_busy]) / (to_quiet + to_busy)
    gaps = gaps_of(([5.0, 30.0, 0.5, 2.0], [True, False, True, True]))
    for days, updated in zip(gaps.days.tolist(), gaps.updated.tolist(), strict=True):
        none = (1 - churn) * expm(d0 * days)
        alpha = alpha @ (expm(d * days) - none if updated else none)
        alpha /= alpha.sum()
    only = Bursts((*(1e-300,) * 15, 1.0), 1.0)
    of_rates = np.ones((1, len(TIMES)))
    churns = np.array([churn]), np.ones(1)
    found = with_bursts(of_rates, gaps, *churns, DEFAULT_PRIOR, only)
    trust = 1 / (1 + np.exp(-6.0))
    expected = [trust * (alpha @ expm(d0 * days)).sum() + 1 - trust for days in TIMES]
    assert found[0] == pytest.approx(np.array(expected), abs=1e-6)


def test_after_updates_in_a_row_the_next_is_near_and_later_it_is_not() -> None:
    waited = ([*(30.0,) * 12, 1.0, 1.0, 1.0], [*(False,) * 12, True, True, True])
    over = ([*waited[0], *(2.0,) * 15], [*waited[1], *(False,) * 15])
    soon = rates_of(gaps_of(waited, over)).probability(1.0)
    assert soon[0] > 0.4
    assert soon[1] < 0.05


def test_pages_are_estimated_alike_together_and_alone() -> None:
    rng = np.random.default_rng(3)
    pages = [
        (rng.uniform(0.01, 60.0, number).tolist(), (rng.random(number) < 0.3).tolist())
        for number in (0, 7, 1, 300, 0, 40, 7)
    ]
    together = rates_of(gaps_of(*pages))
    for place, page in enumerate(pages):
        alone = rates_of(gaps_of(page))
        for name in Rates.__slots__:
            assert getattr(alone, name)[0] == pytest.approx(getattr(together, name)[place])


def test_lambda_is_that_of_bayes() -> None:
    visits = Visits(*drawn(5, is_bursty=True), fade_days=365.0)
    ours, theirs = (estimate(name, visits) for name in ("bursts", "bayes"))
    assert ours.rate_per_day.tolist() == theirs.rate_per_day.tolist()
    assert ours.churn.tolist() == theirs.churn.tolist()


def test_what_requests_bring_is_no_burst() -> None:
    rates = estimated(gaps_of(([*(10.0,) * 8, *(1e-5,) * 4], [True] * 12)), BURSTY)
    assert rates.churn[0] > 0.9
    assert rates.probability(1.0)[0] < 0.1


@pytest.mark.parametrize("is_bursty", [True, False])
def test_a_state_is_known_by_what_told_its_visits_better(*, is_bursty: bool) -> None:
    days, found, offsets = drawn(60, is_bursty=is_bursty)
    gaps = gaps_between(days, found, offsets, 365.0)
    fitted = fit_bursts(gaps, days[offsets[1:] - 1], 365.0, DEFAULT_PRIOR)
    assert sum(fitted.shares) == pytest.approx(1.0)
    assert (fitted.gain > 0) == is_bursty


def test_few_pages_teach_nothing_of_a_state() -> None:
    days, found, offsets = drawn(49, is_bursty=True)
    gaps = gaps_between(days, found, offsets, 365.0)
    assert fit_bursts(gaps, days[offsets[1:] - 1], 365.0, DEFAULT_PRIOR) == DEFAULT_BURSTS


def test_what_leads_to_nearly_the_same_is_alike() -> None:
    assert DEFAULT_BURSTS.is_like(Bursts(DEFAULT_BURSTS.shares, -0.018))
    assert not DEFAULT_BURSTS.is_like(Bursts(DEFAULT_BURSTS.shares, 0.0))
    assert not Bursts((0.985, *(0.001,) * 15), -0.02).is_like(DEFAULT_BURSTS)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.0, *(1 / 15,) * 15), (*(1 / 15,) * 15, 2.0)])
def test_shares_are_of_sixteen_types(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="shares must be 16"):
        Bursts(shares, 0.0)
