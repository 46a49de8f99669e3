"""Pages whose updates come in bursts: two-state Markov-modulated Poisson processes, mixed with `bayes`.

A page is quiet or busy, and switches between the two at random; its updates are a Poisson process of
rate a while it is quiet and b while it is busy. With D0 = [[-(a + q), q], [r, -(b + r)]], where quiet
times last 1/q days on average and busy ones 1/r, and D = D0 + diag(a, b), a visit t days after the visit
before it takes alpha, the probabilities of the two states, to

    alpha (e^(D t) - (1 - c) e^(D0 t))  if it found an update,
    alpha (1 - c) e^(D0 t)              if it did not,

where c is the page's churn. The sum of this vector is the likelihood of the outcome; the vector divided
by its sum is the next alpha (Fischer and Meier-Hellstern, "The Markov-modulated Poisson process (MMPP)
cookbook", Performance Evaluation 18, 1993, doi:10.1016/0166-5316(93)90035-S).

Sixteen such types are mixed by their probabilities, computed from their shares among the state's pages
and their likelihoods, in which each visit counts `_FADE` times as much as the visit after it. Together
they have the weight 1 / (1 + e^-(g + `_GAIN_VISITS` m)), and the Poisson process of `bayes` has the
rest: g is the log Bayes factor of the types, with the same fading, and m its mean per visit in the
state.
"""

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final, NamedTuple

import numpy as np

from hacs_crawler.model.gaps import Gaps
from hacs_crawler.model.grid import (
    MIN_PAGES_TO_FIT,
    MIN_UPDATES_TO_FIT,
    LogNormalPrior,
    fit_shares,
    log_likelihood,
    log_prior,
    normalised,
)
from hacs_crawler.model.survival import TIMES
from hacs_crawler.utils.arrays import BoolArray, FloatArray, offsets_of, page_of_value, sum_by_page

_BUSY, _QUIET, _BUSY_DAYS, _QUIET_DAYS = np.array(
    [
        (busy, quiet, *days)
        for busy, quiet, days in product(
            (0.03, 0.1, 1.0), (0.0003, 0.003), ((120.0, 1000.0), (30.0, 300.0), (8.0, 80.0))
        )
        if busy * days[0] > 0.7  # otherwise most busy times would be without an update
    ]
).T[:, :, None]
_TYPES: Final = len(_BUSY)
_TO_BUSY, _TO_QUIET = 1.0 / _QUIET_DAYS, 1.0 / _BUSY_DAYS
# few distinct values: exponentials are computed once for each
_MIXING, _MIXING_OF = np.unique(_TO_BUSY + _TO_QUIET, return_inverse=True)
_STATIONARY_BUSY: Final = _TO_BUSY / (_TO_BUSY + _TO_QUIET)
_HALF: Final = (_BUSY + _TO_QUIET - (_QUIET + _TO_BUSY)) / 2
_ROOT: Final = np.sqrt(_HALF**2 + _TO_BUSY * _TO_QUIET)
_MIDDLE: Final = -(_QUIET + _TO_BUSY + (_BUSY + _TO_QUIET)) / 2
_LATE, _EARLY = _MIDDLE + _ROOT, _MIDDLE - _ROOT  # the eigenvalues of D0
_FADE: Final = 0.98
# With 200 in place of 100, simulated crawls of terms of service find 2 % more updates, and those of
# scholarly pages, transit feeds and package indexes as many.
_GAIN_VISITS: Final = 200.0
_MOST_LOG_ODDS: Final = 6.0
_PRIOR_VISITS: Final = 100.0
_PRIOR_PAGES: Final = 5.0
_TINY: Final = 1e-300
# gaps per block, so that the matrices, of a row for each type, fit a core's cache
_BLOCK: Final = 1024


@dataclass(frozen=True, slots=True)
class Bursts:
    """What a state's pages have in common: the shares of the types, and `gain` (m above)."""

    shares: tuple[float, ...]
    gain: float

    def __post_init__(self) -> None:
        if len(self.shares) != _TYPES or not all(0.0 < share <= 1.0 for share in self.shares):
            raise ValueError(f"shares must be {_TYPES}, above 0 and 1 at most")
        if not np.isfinite(self.gain):
            raise ValueError(f"gain must be finite, not {self.gain}")

    def is_like(self, other: "Bursts") -> bool:
        """Whether both give nearly the same estimates."""
        moved = np.abs(np.subtract(self.shares, other.shares)).sum() / 2
        odds = np.multiply([self.gain, other.gain], _GAIN_VISITS)
        odds = np.clip(odds, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
        return bool(moved <= 0.05 and abs(odds[0] - odds[1]) <= 0.5)


# For an unknown state: equal shares, and odds of e^-2, 1 to 7, for bursts.
DEFAULT_BURSTS: Final = Bursts((1 / _TYPES,) * _TYPES, -0.02)


class _Types(NamedTuple):
    """The evidence of visits on the types of pages.

    `busy` is the probability that a page is busy, given the type, and `logs` the faded log-likelihood
    of the type, both (pages, types); `log_rates` is the faded log-likelihood of `bayes`, `counts` the
    faded number of visits.
    """

    busy: FloatArray
    logs: FloatArray
    log_rates: FloatArray
    counts: FloatArray


def with_bursts(
    survival: FloatArray,
    gaps: Gaps,
    churn: FloatArray,
    churning: FloatArray,
    prior: LogNormalPrior,
    bursts: Bursts,
) -> FloatArray:
    """Return the survival of pages at `TIMES`, by types and `bayes` mixed; `survival` is by `bayes`.

    For pages that may churn (see `Churn`), the result is the mean of survival with and without churn.
    """
    shortened = survival.copy()
    for pages, _, some in gaps.in_blocks(_BLOCK):
        mine = _with_types(survival[pages], some, np.zeros(len(some)), prior, bursts)
        is_churning = churning[pages] > 0
        if is_churning.any():
            of_them, share = survival[pages][is_churning], churning[pages][is_churning]
            given = churn[pages][is_churning] / share
            theirs = _with_types(of_them, some.of(is_churning), given, prior, bursts)
            mine[is_churning] += share[:, None] * (theirs - mine[is_churning])
        shortened[pages] = mine
    return shortened


def _with_types(
    survival: FloatArray, gaps: Gaps, churn: FloatArray, prior: LogNormalPrior, bursts: Bursts
) -> FloatArray:
    types = _types_of(gaps, churn, prior)
    shares, logs = normalised(types.logs + np.log(bursts.shares))
    odds = logs - types.log_rates + _GAIN_VISITS * bursts.gain
    trust = 1.0 / (1.0 + np.exp(-np.clip(odds, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)))
    of_types = shares @ _SURVIVAL_IF_QUIET + (shares * types.busy) @ _MORE_IF_BUSY
    return np.asarray(survival + trust[:, None] * (of_types - survival))


def fit_bursts(
    gaps: Gaps, last_visit_days: FloatArray, fade_days: float, prior: LogNormalPrior
) -> Bursts:
    """Fit the bursts of a state to a sample of its pages, none of which churns.

    In the mean gain each page has the weight e^(-age/fade_days), with the age of its last visit compared
    with the latest of all. Returns `DEFAULT_BURSTS` if `fit_prior` would return its default.
    """
    has_gaps = gaps.counts > 0
    if np.count_nonzero(has_gaps) < MIN_PAGES_TO_FIT or gaps.updated.sum() < MIN_UPDATES_TO_FIT:
        return DEFAULT_BURSTS
    gaps, last_visit_days = gaps.of(has_gaps), last_visit_days[has_gaps]
    parts = [_types_of(some, np.zeros(len(some)), prior) for _, _, some in gaps.in_blocks(_BLOCK)]
    types = _Types(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    shares = fit_shares(types.logs, np.array(DEFAULT_BURSTS.shares), _PRIOR_PAGES)
    weight = np.exp((last_visit_days - last_visit_days.max()) / fade_days)
    gains = normalised(types.logs + np.log(shares))[1] - types.log_rates
    gain = weight @ gains + _PRIOR_VISITS * DEFAULT_BURSTS.gain
    return Bursts(tuple(shares.tolist()), float(gain / (weight @ types.counts + _PRIOR_VISITS)))


def _types_of(gaps: Gaps, churn: FloatArray, prior: LogNormalPrior) -> _Types:
    """Run the filter over all pages in step: all first gaps, then all second gaps, and so on."""
    left = np.repeat(gaps.offsets[1:], gaps.counts) - np.arange(gaps.offsets[-1]) - 1.0
    weight: FloatArray = np.power(_FADE, left)
    of_rates = log_likelihood(gaps, weight, churn if churn.any() else None)
    log_rates = normalised(of_rates + log_prior(prior))[1]

    page = page_of_value(gaps.offsets)
    step = np.arange(len(page)) - gaps.offsets[page]
    rank = np.argsort(np.argsort(-gaps.counts, kind="stable"))
    order = np.lexsort((rank[page], step))
    days, updated = gaps.days[order], gaps.updated[order]
    steady = 1.0 - churn[page[order]]

    total, more_total, to_busy, more_to_busy = _steps(days, updated, steady)
    busy = np.repeat(_STATIONARY_BUSY, len(gaps), axis=1)
    for first, last in pairwise(offsets_of(np.bincount(step)).tolist()):
        mine, chance = busy[:, : last - first], more_total[:, first:last]
        chance *= mine
        chance += total[:, first:last]
        np.maximum(chance, _TINY, out=chance)
        mine *= more_to_busy[:, first:last]
        mine += to_busy[:, first:last]
        mine /= chance
        np.maximum(mine, 0.0, out=mine)
        np.minimum(mine, 1.0, out=mine)
    logs = np.empty((len(order), _TYPES))
    logs[order] = np.log(more_total, out=more_total).T
    logs *= weight[:, None]
    counts = sum_by_page(weight, gaps.offsets)
    return _Types(busy[:, rank].T, sum_by_page(logs, gaps.offsets), log_rates, counts)


def _steps(days: FloatArray, updated: BoolArray, steady: FloatArray) -> FloatArray:
    """Return how each gap changes b, the probability that a page is busy: t0, t1, u0 and u1.

    The outcome of the gap has the probability t0 + t1 b, and the next b is
    (u0 + u1 b) / (t0 + t1 b). Shape (4, types, gaps).
    """
    late, early = np.exp(_LATE * days), np.exp(_EARLY * days)
    even, odd = late + early, late - early
    even *= steady / 2
    odd *= steady
    odd /= 2 * _ROOT
    t0, t1, u0, u1 = steps = np.empty((4, *even.shape))
    np.multiply(odd, _HALF + _TO_BUSY, out=u1)
    np.add(even, u1, out=t0)
    np.subtract(even, u1, out=u1)
    np.multiply(odd, _TO_QUIET - _TO_BUSY - 2 * _HALF, out=t1)
    np.multiply(odd, _TO_BUSY, out=u0)
    if updated.any():
        unmixed = np.exp(-_MIXING[:, None] * days)[_MIXING_OF.ravel()]
        np.subtract(1.0, t0, out=t0, where=updated)
        np.negative(t1, out=t1, where=updated)
        np.subtract((1.0 - unmixed) * _STATIONARY_BUSY, u0, out=u0, where=updated)
        np.subtract(unmixed, u1, out=u1, where=updated)
    return steps


_SURVIVAL_IF_QUIET, _MORE_IF_BUSY, _, _ = _steps(
    TIMES, np.zeros(len(TIMES), np.bool_), np.ones(len(TIMES))
)
