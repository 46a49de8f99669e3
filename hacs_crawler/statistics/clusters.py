"""Rates of arms to which whole clusters (sites) were assigned: their errors come from between clusters.

Visits to one site are not independent: its pages are updated together, and sites differ in how often
they are. What is independent is the sites. So an arm's rate is a ratio of sums over its sites, and its
error is that between the sites.

Arrays have one element a cluster along their last axis; the axes before it, if any, are samples of their
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.utils.arrays import FloatArray

# 16 MB of weights at a time.
_CELLS_A_CHUNK: Final = 2_000_000
# What is left of a sum of squares by rounding, once its only term is taken away.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Rate:
    """Updates a visit, its standard error and the degrees of freedom of that; one element a sample.

    Without any visit the value is nan, with fewer than two visited clusters the others are.
    """

    value: FloatArray
    error: FloatArray
    freedom: FloatArray


def rate_of(updates: FloatArray, visits: FloatArray, excess: FloatArray | None = None) -> Rate:
    """Return sum(updates) / sum(visits) over the clusters, its error by the jackknife over clusters.

    Leaving out cluster i changes R = U / V by -(u_i - R v_i) / (V - v_i); the variance is (n - 1) / n
    times the sum of the squares of that. Of the cluster-robust variances this one, CV3, is the most
    reliable where clusters are few or of unequal size: MacKinnon, Nielsen and Webb, "Fast and reliable
    jackknife and bootstrap methods for cluster-robust inference", Journal of Applied Econometrics
    38(5), 2023. `freedom` is 1 less than Kish's effective number of clusters, V^2 / sum(v_i^2).

    `excess` is a number known of each cluster before the arms were assigned, whose sum over all arms'
    clusters is 0 (see `excess_of`). What a line through it explains of u_i - R v_i is taken out of the
    rate and of its error: regression adjustment, in each arm by itself, is consistent whatever the
    truth looks like (Lin, "Agnostic notes on regression adjustments to experimental data", Annals of
    Applied Statistics 7(1), 2013). The jackknife fits the line again without each cluster, so that one
    cluster which turns the line shows in the error.
    """
    all_updates, all_visits = _total(updates), _total(visits)
    value = _ratio(all_updates, all_visits)
    without = _ratio(all_updates - updates, all_visits - visits)
    if excess is not None:
        adjusted = _LineSums.through(updates, visits, excess)
        value = value - adjusted.shift(value, all_visits)
        without = without - adjusted.without_each(updates, visits, excess).shift(
            without, all_visits - visits
        )
    changes = without - value
    clusters = np.count_nonzero(visits, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.einsum("...i,...i->...", changes, changes)
        error = np.sqrt((clusters - 1) / clusters * squares)
    is_enough = clusters > 1
    return Rate(
        value[..., 0],
        np.where(is_enough, error, np.nan),
        np.where(is_enough, effective_clusters(visits) - 1.0, np.nan),
    )


def effective_clusters(sizes: FloatArray) -> FloatArray:
    """Return how many clusters of equal size say as much: Kish's (sum of sizes)^2 / sum of squares.

    0 where all sizes are.
    """
    squares = np.einsum("...i,...i->...", sizes, sizes)
    return _share(sizes.sum(-1) ** 2, squares)


def excess_of(pages: FloatArray, expected: FloatArray) -> FloatArray:
    """Return by how much each cluster was expected to have more updates than others of its size.

    `pages` counts the pages of each cluster, `expected` the updates that one visit to each of them was
    expected to find; both as known before the arms were assigned, 0 for clusters not known then. The
    sum of the result is 0.
    """
    known = pages.sum(-1)
    mean = np.divide(expected.sum(-1), known, out=np.zeros_like(known), where=known > 0)
    excess: FloatArray = expected - mean[..., None] * pages
    return excess


@dataclass(frozen=True, slots=True)
class Difference:
    """Arm minus control in updates a visit; `scale` is the rate of both together."""

    value: FloatArray
    error: FloatArray
    freedom: FloatArray
    scale: FloatArray

    @property
    def relative_error(self) -> FloatArray:
        """The error as a share of the rate: about that of the logarithm of the ratio."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.error / self.scale


def difference_of(arm: Rate, control: Rate, scale: FloatArray) -> Difference:
    """Return the difference of two arms, degrees of freedom by Welch and Satterthwaite."""
    first, second = arm.error**2, control.error**2
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (first + second) ** 2 / (first**2 / arm.freedom + second**2 / control.freedom)
    return Difference(arm.value - control.value, np.sqrt(first + second), freedom, scale)


def within_variance(clusters: NDArray[np.int64], updates: FloatArray, visits: FloatArray) -> float:
    """Return the part of a rate's variance that more visits to the same clusters would reduce.

    The arrays have one element a block of visits, `clusters` names its cluster. Blocks of one
    cluster are taken as independent: those of a day, whose pages may have been updated together. Around
    its cluster's own rate r_i a block deviates by u - r_i v; of k blocks the sum of the squares is
    multiplied by k / (k - 1). A cluster of one block is given the variance a visit of the others. Nan
    if no cluster has two blocks.
    """
    _, place, blocks = np.unique(clusters, return_inverse=True, return_counts=True)
    cluster_visits = np.bincount(place, visits)
    rate = np.bincount(place, updates) / np.maximum(cluster_visits, 1.0)
    squares = np.bincount(place, (updates - rate[place] * visits) ** 2)
    is_many = blocks > 1
    if not is_many.any():
        return float("nan")
    spread = float(np.sum(squares[is_many] * blocks[is_many] / (blocks[is_many] - 1.0)))
    spread *= float(visits.sum() / cluster_visits[is_many].sum())
    return spread / float(visits.sum()) ** 2


def bootstrap(
    updates: FloatArray,
    visits: FloatArray,
    excess: FloatArray | None,
    replicates: int,
    random: np.random.Generator,
) -> FloatArray:
    """Return an arm's rate in samples of its clusters, drawn with replacement.

    The arrays have one axis. Nan where a sample has no visit.
    """
    if not len(visits):
        return np.full(replicates, np.nan)
    rates = [
        _resampled(updates, visits, excess, weights)
        for weights in _weights(len(visits), replicates, random)
    ]
    return np.concatenate([np.zeros(0), *rates])


def _weights(clusters: int, replicates: int, random: np.random.Generator) -> Iterator[FloatArray]:
    """Yield how often each cluster is in each sample, a chunk of samples at a time."""
    at_once = max(1, _CELLS_A_CHUNK // clusters)
    shares = np.full(clusters, 1.0 / clusters)
    for start in range(0, replicates, at_once):
        number = min(at_once, replicates - start)
        yield random.multinomial(clusters, shares, number).astype(np.float64)


def _resampled(
    updates: FloatArray, visits: FloatArray, excess: FloatArray | None, weights: FloatArray
) -> FloatArray:
    columns = [updates, visits]
    if excess is not None:
        columns += [excess, updates * excess, visits * excess, excess**2]
    sums = weights @ np.stack(columns, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate: FloatArray = sums[:, 0] / sums[:, 1]
        if excess is None:
            return rate
        slope = _share(sums[:, 3] - rate * sums[:, 4], sums[:, 5])
        return rate - slope * sums[:, 2] / sums[:, 1]


@dataclass(frozen=True, slots=True)
class _LineSums:
    """Sums that make the line of u - R v on the excess, with a last axis to broadcast over."""

    updates: FloatArray
    visits: FloatArray
    squares: FloatArray
    excess: FloatArray
    least: FloatArray

    @classmethod
    def through(cls, updates: FloatArray, visits: FloatArray, excess: FloatArray) -> _LineSums:
        squares = _total(excess**2)
        return cls(
            _total(updates * excess),
            _total(visits * excess),
            squares,
            _total(excess),
            _ROUNDING * squares,
        )

    def without_each(
        self, updates: FloatArray, visits: FloatArray, excess: FloatArray
    ) -> _LineSums:
        return _LineSums(
            self.updates - updates * excess,
            self.visits - visits * excess,
            self.squares - excess**2,
            self.excess - excess,
            self.least,
        )

    def shift(self, rate: FloatArray, visits: FloatArray) -> FloatArray:
        """Return what of a rate the line explains; nothing where no cluster has an excess."""
        slope = np.zeros(np.broadcast_shapes(rate.shape, self.squares.shape))
        np.divide(
            self.updates - rate * self.visits,
            self.squares,
            out=slope,
            where=self.squares > self.least,
        )
        return slope * _ratio(self.excess, visits)


def _total(values: FloatArray) -> FloatArray:
    total: FloatArray = values.sum(-1, keepdims=True)
    return total


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return part / whole


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
