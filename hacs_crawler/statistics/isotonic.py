"""Correcting probabilities that are off, without changing their order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

BINS: Final = 20
"""At most so many bins: more knots than that follow noise, and each is kept in the state."""
BIN_INFORMATION: Final = 10.0
"""Every bin has at least this sum of p (1 - p): the variance of the number of updates in it, which for
small p is the number of updates expected. The share found is then known to about 30 %."""
PSEUDO_INFORMATION: Final = 4.0
"""What the identity counts for, over all bins together. 1/4 is the variance of a shift in log-odds with
standard deviation 0.5: before any data, one in three models is taken to be off by more than a factor
1.6 in odds."""
PSEUDO_INFORMATION_A_BIN: Final = 0.5
"""What the identity counts for in each bin at least, as in Jeffreys' prior: half an update."""
TILT: Final = 1e-3
"""The share of the identity in every correction, which makes flat parts rise."""
_P_FLOOR: Final = 1e-3
"""Where p is closer to 0 or 1, its information is taken to be that of this p: it would be none."""
_DIGITS: Final = 9
"""p is rounded to so many decimals, so that bins, and knots, are apart."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A strictly increasing map of [0, 1] into itself: linear between `raw` and `corrected` knots.

    `raw` runs from 0 to 1. Raises ValueError where the knots do not make such a map.
    """

    raw: tuple[float, ...]
    corrected: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.raw) != len(self.corrected) or len(self.raw) < 2:
            raise ValueError("a correction needs as many corrected values as raw ones, two or more")
        if self.raw[0] != 0.0 or self.raw[-1] != 1.0:
            raise ValueError("the raw values of a correction must run from 0 to 1")
        if not (self.corrected[0] >= 0.0 and self.corrected[-1] <= 1.0):
            raise ValueError("the corrected values must be in [0, 1]")
        for knots in (self.raw, self.corrected):
            if not all(low < high for low, high in pairwise(knots)):
                raise ValueError("the knots of a correction must increase")

    def __call__(self, p: ArrayLike) -> FloatArray:
        """Return the corrected probabilities; larger ones stay larger, equal ones equal."""
        inside = np.asarray(p, np.float64)
        return np.asarray(np.interp(inside, self.raw, self.corrected), np.float64)


IDENTITY: Final = Correction((0.0, 1.0), (0.0, 1.0))


def fit_isotonic(p: ArrayLike, found: ArrayLike) -> Correction:
    """Fit the correction that makes `p` the share in which an update was `found` (0 or 1).

    The visits, in order of p, are put into bins of equal information p (1 - p), equal p into one bin,
    and 0 and 1 into bins of their own.
    Each bin's share of updates is drawn towards its mean p by pseudo-visits that found exactly as
    predicted: so few visits leave p nearly as it is, and no value is exactly 0 or 1. Of the bins
    isotonic regression (pool adjacent violators: Barlow et al. 1972; for probabilities Zadrozny and
    Elkan 2002) makes shares that do not decrease, and `TILT` makes them increase. Between the bins'
    means the correction is linear, which plain isotonic regression is not: its steps would be ties.
    It keeps 0 and 1 in place, unless there were visits of just that p.

    Bins differ from isotonic regression of single visits in that the ends are no outliers: the lowest
    visits up to the first update would all become 0. Raises ValueError where p is not in [0, 1], or the
    lengths differ.
    """
    p, found = _checked(p, found)
    order = np.argsort(p, kind="stable")
    p, found = p[order], found[order]
    if not p.size:
        return IDENTITY
    starts = _bins(p)
    visits = np.diff(starts, append=p.size)
    mean_p = np.add.reduceat(p, starts) / visits
    mean_p[mean_p < 10.0**-_DIGITS] = 0.0
    mean_p[mean_p > 1.0 - 10.0**-_DIGITS] = 1.0
    share = np.add.reduceat(found, starts) / visits
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to load

    pseudo = _pseudo_visits(mean_p)
    all_visits = visits + pseudo
    drawn = (visits * share + pseudo * mean_p) / all_visits
    fitted = np.clip(isotonic_regression(drawn, weights=all_visits).x, 0.0, 1.0)
    return _through(mean_p, (1.0 - TILT) * fitted + TILT * mean_p)


def _checked(p: ArrayLike, found: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the arrays as numbers."""
    p, found = np.asarray(p, np.float64), np.asarray(found, np.float64)
    if p.ndim != 1 or p.shape != found.shape:
        raise ValueError("p and found must be flat and of one length")
    for name, values in (("p", p), ("found", found)):
        if not ((values >= 0.0) & (values <= 1.0)).all():
            raise ValueError(f"{name} must be from 0 to 1")
    return np.round(p, _DIGITS), found


def _bins(p: FloatArray) -> IndexArray:
    """Return where bins of about equal information start in p, which is sorted; ties stay together.

    0 and 1 have bins of their own: they say "never" and "always", and are apart from any other p.
    """
    information = np.cumsum(_variance(p))
    number = int(np.clip(information[-1] // BIN_INFORMATION, 1, BINS))
    edges = information[-1] * np.arange(1, number) / number
    places = np.searchsorted(information, edges)
    firsts = np.searchsorted(p, p[places], side="left")  # the first visit with the same p
    inner = np.searchsorted(p, [np.nextafter(0.0, 1.0), 1.0], side="left")
    return np.unique(np.concatenate([[0], firsts, inner[inner < p.size]])).astype(np.int64)


def _pseudo_visits(mean_p: FloatArray) -> FloatArray:
    information = max(PSEUDO_INFORMATION / mean_p.size, PSEUDO_INFORMATION_A_BIN)
    return information / _variance(mean_p)


def _variance(p: FloatArray) -> FloatArray:
    inside = np.clip(p, _P_FLOOR, 1.0 - _P_FLOOR)
    return inside * (1.0 - inside)


def _through(mean_p: FloatArray, corrected: FloatArray) -> Correction:
    """Return the correction through the bins, and through the corners where no bin lies there."""
    raw = np.concatenate([[0.0], mean_p, [1.0]])
    values = np.concatenate([[0.0], corrected, [1.0]])
    is_knot: BoolArray = np.ones(raw.size, np.bool_)
    is_knot[0], is_knot[-1] = raw[1] > 0.0, raw[-2] < 1.0
    return Correction(tuple(raw[is_knot].tolist()), tuple(values[is_knot].tolist()))
