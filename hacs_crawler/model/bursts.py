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
).T
_TYPES: Final = len(_BUSY)
_TO_BUSY, _TO_QUIET = 1.0 / _QUIET_DAYS, 1.0 / _BUSY_DAYS
_MIXING: Final = _TO_BUSY + _TO_QUIET
_STATIONARY: Final = np.stack([_TO_QUIET, _TO_BUSY]) / _MIXING
_LEAVING: Final = np.stack([_QUIET + _TO_BUSY, _BUSY + _TO_QUIET])
_MIDDLE: Final = -_LEAVING.mean(axis=0)
_HALF: Final = (_LEAVING[1] - _LEAVING[0]) / 2
_ROOT: Final = np.sqrt(_HALF**2 + _TO_BUSY * _TO_QUIET)
_RATES: Final = np.geomspace(1 / 30_000, 12.0, 24)
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

    `state` is alpha, (2, pages, types): quiet and busy. `logs` are the log likelihoods of the types, and
    beside them those of the rates, faded; `before` what they were before each gap, and `seen` the
    likelihoods of what it ended with.
    """

    gaps: Gaps
    state: FloatArray
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
        shares = _shares(filtered.logs, prior, bursts)[:, :_TYPES]
        found[pages] = (shares * filtered.state[1]).sum(axis=1) * _trust(filtered, prior, bursts)
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

    logs = np.concatenate([part.logs[:, :_TYPES] for part in filtered()])
    shares = np.array(DEFAULT_BURSTS.shares)
    for _ in range(_EM_STEPS):
        expected = _normalised(logs + np.log(shares)).sum(axis=0)
        shares = (expected + _PRIOR_PAGES / len(shares)) / (len(logs) + _PRIOR_PAGES)
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
    days, updated = gaps.days[order, None], gaps.updated[order, None]
    steady = 1.0 - churn[page[order], None]

    matrices = _matrices(days, updated, steady)
    state = np.repeat(_STATIONARY[:, None], len(gaps), axis=1)
    chances = np.empty((len(order), _TYPES))
    for first, last in cuts:
        mine = state[:, : last - first]
        moved = (matrices[:, :, first:last] * mine[:, None]).sum(axis=0)
        chances[first:last] = np.maximum(moved.sum(axis=0), _TINY)
        np.divide(moved, chances[first:last], out=mine)

    quiet = steady * np.exp(-days * _RATES)
    of_rates = np.where(updated, 1.0 - quiet, quiet)
    seen = np.concatenate([chances, np.maximum(of_rates, _TINY)], axis=1)
    told = np.log(seen)
    fade = np.empty_like(seen)
    fade[:, :_TYPES], fade[:, _TYPES:] = _FADE, np.exp(-days / fade_days)
    logs, before = np.zeros((len(gaps), seen.shape[1])), np.empty_like(seen)
    for first, last in cuts:
        mine = logs[: last - first]
        before[first:last] = mine
        mine *= fade[first:last]
        mine += told[first:last]
    back = np.argsort(order)
    return _Filtered(gaps, state[:, place], logs[place], seen[back], before[back])


def _matrices(days: FloatArray, updated: BoolArray, steady: FloatArray) -> FloatArray:
    """Return by what each gap multiplies alpha; (2, 2, gaps, types), from and to quiet and busy."""
    late, early = np.exp((_MIDDLE + _ROOT) * days), np.exp((_MIDDLE - _ROOT) * days)
    even, odd = steady * (late + early) / 2, steady * (late - early) / (2 * _ROOT)
    found = np.empty((2, 2, *even.shape))
    found[0, 0], found[1, 1] = even + odd * _HALF, even - odd * _HALF
    found[0, 1], found[1, 0] = odd * _TO_BUSY, odd * _TO_QUIET
    mixed = -np.expm1(-_MIXING * days)
    for origin, target in product(range(2), repeat=2):
        passed = mixed * _STATIONARY[target]
        any_ = passed if origin != target else 1.0 - mixed + passed
        np.copyto(found[origin, target], any_ - found[origin, target], where=updated)
    return np.maximum(found, 0.0, out=found)


def _survival(found: _Filtered, prior: LogNormalPrior, bursts: Bursts) -> FloatArray:
    """Return the probability of no update up to each of `TIMES` after the last visit; (pages, times)."""
    shares = _shares(found.logs, prior, bursts)
    by_state = (found.state * shares[:, :_TYPES]).transpose(1, 0, 2).reshape(len(shares), -1)
    trust = _trust(found, prior, bursts)[:, None]
    survival: FloatArray = trust * (by_state @ _SURVIVAL)
    survival += (1.0 - trust) * (shares[:, _TYPES:] @ _SURVIVAL_OF_RATES)
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
    told = _shares(found.before, prior, bursts) * found.seen
    scores = np.log(
        np.maximum([told[:, :_TYPES].sum(axis=1), told[:, _TYPES:].sum(axis=1)], _LEAST)
    )
    gains: FloatArray = scores[0] - scores[1]
    return gains


def _shares(logs: FloatArray, prior: LogNormalPrior, bursts: Bursts) -> FloatArray:
    """Return the shares of the types, which add up to 1, and those of the rates, which do as well."""
    z = (np.log(_RATES) - prior.log_median) / prior.log_sd
    types, rates = np.log(bursts.shares), -0.5 * z * z
    return np.concatenate(
        [_normalised(logs[:, :_TYPES] + types), _normalised(logs[:, _TYPES:] + rates)], axis=1
    )


def _normalised(logs: FloatArray) -> FloatArray:
    weights: FloatArray = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


_SURVIVAL: Final = (
    _matrices(TIMES[:, None], np.zeros((len(TIMES), 1), np.bool_), np.ones((len(TIMES), 1)))
    .sum(axis=1)
    .transpose(0, 2, 1)
    .reshape(2 * _TYPES, len(TIMES))
)
_SURVIVAL_OF_RATES: Final = np.exp(-np.multiply.outer(_RATES, TIMES))
