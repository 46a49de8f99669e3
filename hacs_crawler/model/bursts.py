"""Pages whose updates come in bursts: two-state Markov-modulated Poisson processes beside `bayes`.

A page is quiet or busy, and goes from one to the other at random; its updates are a Poisson process of
rate a while it is quiet and b while it is busy. With D0 = [[-(a + q), q], [r, -(b + r)]], where 1/q and
1/r are the mean days of either, and D = D0 + diag(a, b), a visit t days after the one before it takes
alpha, the probabilities of the two states, to

    alpha (e^(D t) - (1 - c) e^(D0 t))  where it found an update,
    alpha (1 - c) e^(D0 t)              where it did not.

The sum of that is the likelihood of what it found; divided by it, it is the next alpha: the filter of
Fischer and Meier-Hellstern, "The Markov-modulated Poisson process (MMPP) cookbook", Performance
Evaluation 18, 1993, doi:10.1016/0166-5316(93)90035-S, where one sees only whether there was an event. c
is the page's churn.

Which of sixteen such types a page is of follows from its likelihoods, each of which counts `_FADE` times
as much after every further visit, and from the shares of the types among the state's pages. Beside them
stands the Poisson process of `bayes` (log-normal prior, fading by time), here on a grid of rates. The
types weigh 1 / (1 + e^-(g + `_GAIN_VISITS` m)) against it: g is by how much they told better what the
page's visits found, in log score that fades as the likelihoods do, m the same of a visit in the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Final

import numpy as np

from hacs_crawler.model.churn import Rates
from hacs_crawler.model.gaps import Gaps
from hacs_crawler.model.prior import (
    MAX_PAGES_TO_FIT,
    MIN_PAGES_TO_FIT,
    MIN_UPDATES_TO_FIT,
    LogNormalPrior,
)
from hacs_crawler.model.two_rates import TIMES, fitted_two_rates, packed_share
from hacs_crawler.utils.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    offsets_of,
    page_of_value,
    sum_by_page,
)

_BUSY, _QUIET, _BUSY_DAYS, _QUIET_DAYS = np.array(
    [
        (busy, quiet, *days)
        for busy, quiet, days in product(
            (0.03, 0.1, 1.0), (0.0003, 0.003), ((120.0, 1000.0), (30.0, 300.0), (8.0, 80.0))
        )
        if busy * days[0] > 0.7  # a busy time without an update is none
    ]
).T[:, :, None]
_TYPES: Final = len(_BUSY)
_TO_BUSY, _TO_QUIET = 1.0 / _QUIET_DAYS, 1.0 / _BUSY_DAYS
_MIXING, _MIXING_OF = np.unique(_TO_BUSY + _TO_QUIET, return_inverse=True)  # few, in any order
_STATIONARY_BUSY: Final = _TO_BUSY / (_TO_BUSY + _TO_QUIET)
_LEAVING_QUIET, _LEAVING_BUSY = _QUIET + _TO_BUSY, _BUSY + _TO_QUIET
_HALF: Final = (_LEAVING_BUSY - _LEAVING_QUIET) / 2
_ROOT: Final = np.sqrt(_HALF**2 + _TO_BUSY * _TO_QUIET)
_MIDDLE: Final = -(_LEAVING_QUIET + _LEAVING_BUSY) / 2
_LATE, _EARLY = _MIDDLE + _ROOT, _MIDDLE - _ROOT  # the eigenvalues of D0
_RATES: Final = np.geomspace(1 / 30_000, 12.0, 24)[:, None]
_FADE: Final = 0.98
_GAIN_VISITS: Final = 100.0
_MOST_LOG_ODDS: Final = 6.0
_PRIOR_VISITS: Final = 100.0
_PRIOR_PAGES: Final = 5.0
_EM_STEPS: Final = 40
_TINY: Final = 1e-300
_LEAST: Final = 1e-12
_BLOCK: Final = 1024  # gaps at once: times the types, the matrices stay in a core's cache


@dataclass(frozen=True, slots=True)
class Bursts:
    """What is learned of a state's pages: the shares of the types, and `gain`, the m of the above."""

    shares: tuple[float, ...]
    gain: float

    def __post_init__(self) -> None:
        if len(self.shares) != _TYPES or not all(0.0 < share <= 1.0 for share in self.shares):
            raise ValueError(f"shares must be {_TYPES}, above 0 and 1 at most")
        if not np.isfinite(self.gain):
            raise ValueError(f"gain must be finite, not {self.gain}")

    def is_like(self, other: Bursts) -> bool:
        """Whether both lead to nearly the same."""
        moved = np.abs(np.subtract(self.shares, other.shares)).sum() / 2
        odds = np.multiply([self.gain, other.gain], _GAIN_VISITS)
        odds = np.clip(odds, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
        return bool(moved <= 0.05 and abs(odds[0] - odds[1]) <= 0.5)


DEFAULT_BURSTS: Final = Bursts((1 / _TYPES,) * _TYPES, -0.02)
"""Before anything is known of a state: all types alike, and bursts seven times less likely than none."""


@dataclass(frozen=True, slots=True)
class _Filtered:
    """What visits tell of each page, up to the last one, and of each gap.

    `busy` is how likely each page is busy by each type, (types, pages). `logs` are the log likelihoods
    of the types, and beside them those of the rates, faded; `before` what they were before each gap,
    and `seen` the likelihoods of what it ended with: column i of these is gap order[i].
    """

    gaps: Gaps
    order: IndexArray
    busy: FloatArray
    logs: FloatArray
    seen: FloatArray
    before: FloatArray


def with_bursts(
    rates: Rates, gaps: Gaps, fade_days: float, prior: LogNormalPrior, bursts: Bursts
) -> Rates:
    """Return the rates of `bayes` with the two rates by which the pages go on, see `two_rates`.

    Of a page that may churn, the mean of what is so with its churn and of what is so without.
    """
    found = np.empty((3, len(gaps)))
    for pages, _, some in gaps.in_blocks(_BLOCK):
        churning = rates.churning[pages]
        survival = _survival(_filtered(some, np.zeros(len(some)), fade_days), prior, bursts)
        places = np.flatnonzero(churning > 0)
        if len(places):
            churn = rates.churn[pages][places] / churning[places]
            theirs = _survival(_filtered(some.of(churning > 0), churn, fade_days), prior, bursts)
            survival[places] += churning[places, None] * (theirs - survival[places])
        found[:, pages] = fitted_two_rates(survival)
    share, fast, slow = found
    return replace(rates, log_sd=packed_share(share), fast_per_day=fast, slow_per_day=slow)


def unvisited(prior: LogNormalPrior, bursts: Bursts) -> FloatArray:
    """Return w, a and b of a page of which no gap is known."""
    none = Gaps(np.zeros(0), np.zeros(0, np.bool_), np.zeros(0), np.zeros(2, np.int64))
    filtered = _filtered(none, np.zeros(1), 1.0)
    return fitted_two_rates(_survival(filtered, prior, bursts))[:, 0]


def busy_probability(
    gaps: Gaps, churn: FloatArray, fade_days: float, prior: LogNormalPrior, bursts: Bursts
) -> FloatArray:
    """Return how likely it is that each page is in a burst at its last visit."""
    found = np.empty(len(gaps))
    for pages, _, some in gaps.in_blocks(_BLOCK):
        filtered = _filtered(some, churn[pages], fade_days)
        shares = _shares(filtered.logs, prior, bursts)[:_TYPES]
        found[pages] = (shares * filtered.busy).sum(axis=0) * _trust(filtered, prior, bursts)
    return found


def fit_bursts(
    gaps: Gaps, last_visit_days: FloatArray, fade_days: float, prior: LogNormalPrior
) -> Bursts:
    """Fit what is learned of a state to a sample of its pages, none of which churns.

    The shares by expectation and maximisation, with `_PRIOR_PAGES` pages of all types alike. The gain is
    the mean over all gaps, each of which weighs e^(-age/fade_days), the age counted from the latest
    visit of all: pages that are visited often tell what visits will find. `DEFAULT_BURSTS` where
    `fit_prior` would return its default.
    """
    has_gaps = np.flatnonzero(gaps.counts)
    if len(has_gaps) < MIN_PAGES_TO_FIT or int(gaps.updated.sum()) < MIN_UPDATES_TO_FIT:
        return DEFAULT_BURSTS
    number = min(len(has_gaps), MAX_PAGES_TO_FIT)
    is_chosen = np.zeros(len(gaps), np.bool_)
    is_chosen[has_gaps[np.linspace(0, len(has_gaps) - 1, number).astype(np.int64)]] = True
    gaps, last_visit_days = gaps.of(is_chosen), last_visit_days[is_chosen]

    def filtered() -> Iterator[_Filtered]:
        return (
            _filtered(some, np.zeros(len(some)), fade_days) for _, _, some in gaps.in_blocks(_BLOCK)
        )

    logs = np.concatenate([part.logs[:_TYPES] for part in filtered()], axis=1)
    shares = np.array(DEFAULT_BURSTS.shares)
    for _ in range(_EM_STEPS):
        expected = _normalised(logs + np.log(shares)[:, None]).sum(axis=1)
        shares = (expected + _PRIOR_PAGES / len(shares)) / (logs.shape[1] + _PRIOR_PAGES)
    found = Bursts(tuple(shares.tolist()), DEFAULT_BURSTS.gain)
    gains = [_gains(part, prior, found) for part in filtered()]
    latest = last_visit_days.max()
    weight = gaps.weight * np.repeat(np.exp((last_visit_days - latest) / fade_days), gaps.counts)
    gained = weight @ np.concatenate(gains) + _PRIOR_VISITS * found.gain
    return replace(found, gain=float(gained / (weight.sum() + _PRIOR_VISITS)))


def _filtered(gaps: Gaps, churn: FloatArray, fade_days: float) -> _Filtered:
    """Run the filter over all pages at once: their first gaps, their second ones, and so on."""
    page = page_of_value(gaps.offsets)
    step = np.arange(len(page)) - gaps.offsets[page]
    place = np.argsort(np.argsort(-gaps.counts, kind="stable"))
    order = np.lexsort((place[page], step))
    cuts = list(pairwise(offsets_of(np.bincount(step)).tolist()))
    days, updated = gaps.days[order], gaps.updated[order]
    steady = 1.0 - churn[page[order]]

    seen = np.empty((_TYPES + len(_RATES), len(order)))
    total, more_total, to_busy, more_to_busy = _steps(days, updated, steady)
    busy = np.repeat(_STATIONARY_BUSY, len(gaps), axis=1)
    for first, last in cuts:
        mine, chance = busy[:, : last - first], seen[:_TYPES, first:last]
        np.multiply(more_total[:, first:last], mine, out=chance)
        chance += total[:, first:last]
        np.maximum(chance, _TINY, out=chance)
        mine *= more_to_busy[:, first:last]
        mine += to_busy[:, first:last]
        mine /= chance
        np.maximum(mine, 0.0, out=mine)
        np.minimum(mine, 1.0, out=mine)

    of_rates = seen[_TYPES:]
    np.exp(_RATES * -days, out=of_rates)
    of_rates *= steady
    np.subtract(1.0, of_rates, out=of_rates, where=updated)
    told = np.log(np.maximum(seen, _TINY, out=seen))
    fade_of_rates = np.exp(-days / fade_days)
    logs, before = np.zeros((len(seen), len(gaps))), np.empty_like(seen)
    for first, last in cuts:
        mine = logs[:, : last - first]
        before[:, first:last] = mine
        mine[:_TYPES] *= _FADE
        mine[_TYPES:] *= fade_of_rates[first:last]
        mine += told[:, first:last]
    return _Filtered(gaps, order, busy[:, place], logs[:, place], seen, before)


def _steps(days: FloatArray, updated: BoolArray, steady: FloatArray) -> FloatArray:
    """Return what each gap makes of the probability b that a page is busy; (4, types, gaps).

    What the gap ended with has the probability t0 + t1 b, and then the next b is
    (u0 + u1 b) / (t0 + t1 b): t0, t1, u0 and u1.
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
    unmixed = np.exp(-_MIXING[:, None] * days)[_MIXING_OF.ravel()]
    np.subtract(1.0, t0, out=t0, where=updated)
    np.negative(t1, out=t1, where=updated)
    np.subtract((1.0 - unmixed) * _STATIONARY_BUSY, u0, out=u0, where=updated)
    np.subtract(unmixed, u1, out=u1, where=updated)
    return steps


def _survival(found: _Filtered, prior: LogNormalPrior, bursts: Bursts) -> FloatArray:
    """Return the probability of no update up to each of `TIMES` after the last visit; (pages, times)."""
    shares = _shares(found.logs, prior, bursts)
    types = shares[:_TYPES].T
    survival: FloatArray = types @ _SURVIVAL_IF_QUIET + (types * found.busy.T) @ _MORE_IF_BUSY
    trust = _trust(found, prior, bursts)[:, None]
    survival *= trust
    survival += (1.0 - trust) * (shares[_TYPES:].T @ _SURVIVAL_OF_RATES)
    return survival


def _trust(found: _Filtered, prior: LogNormalPrior, bursts: Bursts) -> FloatArray:
    """Return what the types weigh on each page, against a single rate."""
    counts, offsets = found.gaps.counts, found.gaps.offsets
    left = np.repeat(offsets[1:], counts) - np.arange(offsets[-1]) - 1.0
    gain = sum_by_page(_FADE**left * _gains(found, prior, bursts), offsets)
    odds = np.clip(gain + _GAIN_VISITS * bursts.gain, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
    trust: FloatArray = 1.0 / (1.0 + np.exp(-odds))
    return trust


def _gains(found: _Filtered, prior: LogNormalPrior, bursts: Bursts) -> FloatArray:
    """Return by how much the types told better what each gap ended with, in log score."""
    weights = found.before + _log_prior(prior, bursts)
    told = []
    for mine in (slice(_TYPES), slice(_TYPES, None)):
        weight = weights[mine]
        weight -= weight.max(axis=0)
        np.exp(weight, out=weight)
        total = weight.sum(axis=0)
        weight *= found.seen[mine]
        told.append(np.log(np.maximum(weight.sum(axis=0) / total, _LEAST)))
    gains = np.empty(weights.shape[1])
    gains[found.order] = told[0] - told[1]
    return gains


def _shares(logs: FloatArray, prior: LogNormalPrior, bursts: Bursts) -> FloatArray:
    """Return the shares of the types, which add up to 1, and those of the rates, which do as well."""
    logs = logs + _log_prior(prior, bursts)
    return np.concatenate([_normalised(logs[:_TYPES]), _normalised(logs[_TYPES:])])


def _log_prior(prior: LogNormalPrior, bursts: Bursts) -> FloatArray:
    """Return the logarithms of what types and rates weigh before any visit, rates but for a constant."""
    z = (np.log(_RATES) - prior.log_median) / prior.log_sd
    return np.concatenate([np.log(bursts.shares)[:, None], -0.5 * z * z])


def _normalised(logs: FloatArray) -> FloatArray:
    weights: FloatArray = np.exp(logs - logs.max(axis=0))
    weights /= weights.sum(axis=0)
    return weights


_SURVIVAL_IF_QUIET, _MORE_IF_BUSY, _, _ = _steps(
    TIMES, np.zeros(len(TIMES), np.bool_), np.ones(len(TIMES))
)
_SURVIVAL_OF_RATES: Final = np.exp(-_RATES * TIMES)
