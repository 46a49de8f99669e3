"""How well predicted probabilities agree with outcomes.

`p` are predictions in [0, 1], and `updated` says which visits found an update; both are flat and of one
length. Undefined results are NaN.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

# p is kept this far from 0 and 1 in the log loss, which one update at p = 0 would make infinite.
# Smaller chances cannot be measured with the million records that are kept.
LOG_FLOOR: Final = 1e-6
# For intervals of 95 %.
Z: Final = 1.959964


@dataclass(frozen=True, slots=True)
class Expectation:
    """Predictions and outcomes of visits, and scores, of which lower is better.

    `expected_updates` is the sum of p. `brier` is the mean of (p - updated)^2 (Brier 1950) and
    `log_loss` the mean negative natural logarithm of the probability given to the outcome. The `base_`
    values are the scores of a predictor that knows only the number of updates, and predicts the same p
    for every visit.
    """

    visits: int
    expected_updates: float
    found_updates: int
    brier: float
    base_brier: float
    log_loss: float
    base_log_loss: float

    @property
    def brier_skill(self) -> float:
        """1 - brier / base_brier (Murphy 1973): 1 is perfect, 0 no better than the base rate."""
        return _skill(self.brier, self.base_brier)

    @property
    def log_skill(self) -> float:
        """The same for the log loss."""
        return _skill(self.log_loss, self.base_log_loss)


@dataclass(frozen=True, slots=True)
class Reliability:
    """A reliability diagram: arrays with one element a bin, in order of p.

    A bin holds `visits` visits with p from `low_p` to `high_p`, on average `mean_p`. A share of
    `found_share` found an update; `lower` and `upper` are its 95 % interval.
    """

    low_p: FloatArray
    high_p: FloatArray
    mean_p: FloatArray
    visits: IndexArray
    found_share: FloatArray
    lower: FloatArray
    upper: FloatArray


def summary(p: ArrayLike, updated: ArrayLike) -> Expectation:
    """Return the predictions' sums and scores."""
    p, updated = np.asarray(p, np.float64), np.asarray(updated, np.bool_)
    visits = p.size
    if not visits:
        return Expectation(0, 0.0, 0, math.nan, math.nan, math.nan, math.nan)
    updates = int(np.count_nonzero(updated))
    base = np.full(visits, updates / visits)
    return Expectation(
        visits=visits,
        expected_updates=float(p.sum()),
        found_updates=updates,
        brier=_brier(p, updated),
        base_brier=_brier(base, updated),
        log_loss=_log_loss(p, updated),
        base_log_loss=_log_loss(base, updated),
    )


def reliability(
    p: ArrayLike, updated: ArrayLike, bins: int = 10, site: ArrayLike | None = None
) -> Reliability:
    """Return the reliability diagram in at most `bins` bins with about the same number of visits.

    Visits of equal p share a bin, so that there may be fewer. The intervals are Wilson's. With `site`
    they allow for pages of a site that are updated together: the visits of a bin count as the number
    of independent visits with the same variance, clustered by site, but never as more than they are, and
    as 1 if all are of one site.
    """
    p, updated = np.asarray(p, np.float64), np.asarray(updated, np.bool_)
    order = np.argsort(p, kind="stable")
    p, updated = p[order], updated[order]
    places = p.size * np.arange(min(bins, p.size)) // max(min(bins, p.size), 1)
    starts = np.unique(np.searchsorted(p, p[places], side="left"))
    ends = np.append(starts[1:], p.size)[: starts.size]
    visits = ends - starts
    share = np.add.reduceat(updated, starts, dtype=np.float64) / visits if p.size else np.zeros(0)
    independent = visits.astype(np.float64)
    if site is not None:
        sites = np.asarray(site)[order]
        cuts = zip(starts.tolist(), ends.tolist(), strict=True)
        for number, (start, end) in enumerate(cuts):
            independent[number] = _independent(updated[start:end], sites[start:end])
    lower, upper = wilson_interval(share, independent)
    return Reliability(
        low_p=p[starts],
        high_p=p[ends - 1],
        mean_p=np.add.reduceat(p, starts) / visits if p.size else np.zeros(0),
        visits=visits.astype(np.int64),
        found_share=share,
        lower=lower,
        upper=upper,
    )


def wilson_interval(share: ArrayLike, visits: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the ends of Wilson's interval (1927) for shares of `visits`, which may be fractional."""
    share, visits = np.asarray(share, np.float64), np.asarray(visits, np.float64)
    square = Z * Z / visits
    centre = (share + square / 2.0) / (1.0 + square)
    half = np.sqrt(share * (1.0 - share) * square + square * square / 4.0) / (1.0 + square)
    return np.clip(centre - half, 0.0, share), np.clip(centre + half, share, 1.0)


def clustered_z(p: ArrayLike, updated: ArrayLike, site: ArrayLike) -> float:
    """Return the excess of updates found over predicted ones, in standard errors; 0 without visits.

    The variance of sum(updated - p) is clustered by site (Liang and Zeger 1986), since pages of a site
    are updated together, but at least that of independent visits.
    """
    p, updated = np.asarray(p, np.float64), np.asarray(updated, np.bool_)
    if not p.size:
        return 0.0
    residuals = updated - p
    together = float(np.sum(_sums(residuals, np.asarray(site)) ** 2))
    variance = max(together, float(np.sum(p * (1.0 - p))))
    return float(residuals.sum()) / math.sqrt(variance) if variance > 0.0 else 0.0


def _brier(p: FloatArray, updated: BoolArray) -> float:
    return float(np.mean((p - updated) ** 2))


def _log_loss(p: FloatArray, updated: BoolArray) -> float:
    inside = np.clip(p, LOG_FLOOR, 1.0 - LOG_FLOOR)
    return -float(np.mean(np.where(updated, np.log(inside), np.log1p(-inside))))


def _skill(score: float, base: float) -> float:
    return 1.0 - score / base if base > 0.0 else math.nan


def _independent(updated: BoolArray, sites: NDArray[Any]) -> float:
    """Return the number of independent visits with the same variance of the share; 1 for one site."""
    share = float(updated.mean())
    alone = updated.size * share * (1.0 - share)
    sums = _sums(np.asarray(updated - share, np.float64), sites)
    if sums.size == 1:
        return 1.0
    together = float(np.sum(sums**2)) * sums.size / (sums.size - 1)
    return updated.size * min(1.0, alone / together) if together > 0.0 else float(updated.size)


def _sums(values: FloatArray, sites: NDArray[Any]) -> FloatArray:
    """Return the sum of each site's values."""
    _, numbers = np.unique(sites, return_inverse=True)
    return np.asarray(np.bincount(numbers, weights=values), np.float64)
