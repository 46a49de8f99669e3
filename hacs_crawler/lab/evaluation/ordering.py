"""Evaluation 2: how well an order of pages agrees with the order in which they are updated next.

P@K is the share of an order's first K pages that are among the first K pages of the true order. Pages
may be tied, in either order: those without a further update all come last in the true one. P@K is
then its mean over all ways to break the ties, which is exact and needs no draws.
"""

from __future__ import annotations

import numpy as np

from hacs_crawler.utils.arrays import FloatArray


def weighted_precision(score: FloatArray, next_update: FloatArray) -> float | None:
    """Weighted mean of P@K over K = 1 to n, with the weights 1 / log2(K + 1).

    The highest score comes first, and in truth the earliest `next_update` (infinite: never). None
    where there is no order to find: fewer than two pages, or none that is updated again.
    """
    if score.size < 2 or not np.isfinite(next_update).any():
        return None
    return float(_weights(score.size) @ precision_at_k(-score, next_update))


def random_precision(next_update: FloatArray) -> float | None:
    """Return the same of a random order: P@K = K / n on average."""
    n = next_update.size
    if n < 2 or not np.isfinite(next_update).any():
        return None
    return float(_weights(n) @ (np.arange(1, n + 1) / n))


def _weights(n: int) -> FloatArray:
    weights = 1 / np.log2(np.arange(2, n + 2))
    return np.asarray(weights / weights.sum())


def precision_at_k(predicted: FloatArray, actual: FloatArray) -> FloatArray:
    """P@K for K = 1 to n, of two orders given as keys, ascending; equal keys are ties.

    With s keys before its own and g equal to it, a page is among the first K with probability
    clip((K - s) / g, 0, 1). The expected number among the first K of both orders is the sum over the
    pages of the two probabilities' product: 0 up to the later s, a parabola from there to the earlier
    s + g, a line to the later s + g, then 1. The pieces' coefficients are summed where each begins,
    so the cost is that of sorting.
    """
    n = predicted.size
    s, g = _tied(predicted)
    other_s, other_g = _tied(actual)
    is_sooner = s + g <= other_s + other_g
    s, other_s = np.where(is_sooner, s, other_s), np.where(is_sooner, other_s, s)
    g, other_g = np.where(is_sooner, g, other_g), np.where(is_sooner, other_g, g)
    first = np.maximum(s, other_s)
    second = np.maximum(first, s + g)
    third = other_s + other_g
    pieces = np.zeros((3, n + 2))
    parabola = (s * other_s / (g * other_g), -(s + other_s) / (g * other_g), 1 / (g * other_g))
    line = (-other_s / other_g, 1 / other_g, np.zeros(n))
    order = (np.ones(n), np.zeros(n), np.zeros(n))
    for power in range(3):
        for begin, now, then in (
            (first, np.zeros(n), parabola[power]),
            (second, parabola[power], line[power]),
            (third, line[power], order[power]),
        ):
            places = begin.astype(np.int64) + 1  # a piece holds from the K after its beginning on
            pieces[power] += np.bincount(places, then - now, minlength=n + 2)
    constant, linear, square = pieces.cumsum(axis=1)[:, 1 : n + 1]
    k = np.arange(1, n + 1)
    return np.asarray((constant + linear * k + square * k * k) / k)


def _tied(keys: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how many keys are below each, and how many are equal to it."""
    in_order = np.sort(keys)
    below = np.searchsorted(in_order, keys)
    return (
        below.astype(np.float64),
        (np.searchsorted(in_order, keys, side="right") - below).astype(np.float64),
    )
