"""The measures of both evaluations: selections by a threshold, and orders.

Evaluation 1: at a moment t the pages are those with a capture in the window before it. HACS selects the
pages with p >= theta, Random the same number of pages drawn without replacement, Brute Force all. A
selected page that is updated within the horizon is a true positive.

Evaluation 2: P@K is the share of an order's first K pages that are among the first K pages of the true
order, with ties (pages without a further update all come last) its mean over all ways to break them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

# Thresholds on p: 0 to 1 by 0.05.
THETAS: Final = np.arange(21) / 20
MODELS: Final = ("HACS", "Random", "Brute Force")
# How measures of several moments are averaged, see `curve`.
AVERAGES: Final = {
    "micro": "micro-averaged",
    "macro": "macro-averaged",
    "macro-found": "macro-averaged, F1 where an update was found",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """True positives and selected pages by moment and threshold; updated and all pages by moment.

    `found` is the probability of a true positive, by moment and threshold: 0 or 1 except for Random.
    """

    hits: FloatArray
    selected: FloatArray
    changed: FloatArray
    pages: FloatArray
    found: FloatArray


class Tally:
    """Counts of one window length: a row for each moment, a column for each threshold."""

    def __init__(self) -> None:
        self._pages: list[int] = []
        self._changed: list[int] = []
        self._selected: list[IndexArray] = []
        self._hits: list[IndexArray] = []

    def add(self, p: FloatArray, changed: BoolArray) -> None:
        """Add a moment: each page's p, and whether it was updated. Moments without pages are ignored."""
        if p.size:
            self._pages.append(p.size)
            self._changed.append(int(np.count_nonzero(changed)))
            is_selected = p[:, None] >= THETAS
            self._selected.append(is_selected.sum(axis=0))
            self._hits.append(is_selected[changed].sum(axis=0))

    @property
    def moments(self) -> int:
        """Number of moments with pages."""
        return len(self._pages)

    def counts(self, model: str) -> Counts:
        """Return the counts of a model's selections; for Random the mean of all possible draws.

        That mean is exact: of n pages with m updated ones, a draw of k has k m / n true positives on
        average (hypergeometric), and every measure here is linear in them.
        """
        pages = np.array(self._pages, np.float64).reshape(-1, 1)
        changed = np.array(self._changed, np.float64).reshape(-1, 1)
        selected = np.array(self._selected, np.float64).reshape(-1, THETAS.size)
        if model == "Random":
            expected = _found_at_random(pages, changed, selected)
            return Counts(selected * changed / pages, selected, changed, pages, expected)
        everywhere = np.ones(THETAS.size)
        hits = np.array(self._hits, np.float64).reshape(selected.shape)
        if model == "Brute Force":
            hits, selected = changed * everywhere, pages * everywhere
        return Counts(hits, selected, changed, pages, (hits > 0).astype(np.float64))


def _found_at_random(pages: FloatArray, changed: FloatArray, selected: FloatArray) -> FloatArray:
    """Return the probability that a draw without replacement contains a changed page."""
    from scipy.stats import hypergeom  # noqa: PLC0415 - slow to load, and few commands need it

    return 1.0 - np.asarray(hypergeom.pmf(0, pages, changed, selected), np.float64)


@dataclass(frozen=True, slots=True)
class Curve:
    """A model's measures at each threshold, averaged over the moments; nan if undefined.

    precision = TP / (TP + FP), recall = TP / (TP + FN), f1 = 2 TP / (2 TP + FP + FN).
    """

    true_positives: FloatArray
    false_positives: FloatArray
    false_negatives: FloatArray
    true_negatives: FloatArray
    precision: FloatArray
    recall: FloatArray
    f1: FloatArray

    def best(self) -> int | None:
        """Return the place of theta-hat: the highest threshold with the greatest F1 above 0."""
        f1 = np.where(np.isnan(self.f1), 0.0, self.f1)
        return int(np.flatnonzero(f1 == f1.max())[-1]) if f1.max() > 0 else None


def curve(counts: Counts, average: str) -> Curve:
    """Average over moments: micro sums the counts first, macro takes the mean of each moment's measure.

    The macro mean of a measure is over the moments at which it is defined. "macro-found" is macro, but
    as in the paper's Table I moments (for Random draws) without a true positive are left out of the mean
    of F1, while "macro" counts them as 0. The four counts are sums in all cases.
    """
    columns = (getattr(counts, name) for name in Counts.__slots__)
    total = Counts(*(column.sum(axis=0, keepdims=True) for column in columns))
    of = total if average == "micro" else counts
    hits, selected, changed = total.hits[0], total.selected[0], total.changed[0]
    f1 = _share(2 * of.hits, of.selected + of.changed)
    is_of_finds = average == "macro-found"
    return Curve(
        true_positives=hits,
        false_positives=selected - hits,
        false_negatives=changed - hits,
        true_negatives=total.pages[0] - selected - changed + hits,
        precision=_mean(_share(of.hits, of.selected)),
        recall=_mean(_share(of.hits, of.changed)),
        f1=_share(np.nan_to_num(f1).sum(axis=0), of.found.sum(axis=0))
        if is_of_finds
        else _mean(f1),
    )


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    out = np.full(part.shape, np.nan)
    np.divide(part, whole, out=out, where=np.broadcast_to(whole > 0, part.shape))
    return out


def _mean(values: FloatArray) -> FloatArray:
    """Mean of each column over its defined values, or nan."""
    return _share(np.nansum(values, axis=0), (~np.isnan(values)).sum(axis=0))


def weighted_precision(score: FloatArray, next_update: FloatArray) -> float:
    """Weighted mean of P@K over K = 1 to n, with the weights 1 / log2(K + 1).

    The highest score comes first, and in truth the earliest `next_update` (infinite: never).
    """
    precision = precision_at_k(-score, next_update)
    return float(np.average(precision, weights=1 / np.log2(np.arange(2, score.size + 2))))


def precision_at_k(predicted: FloatArray, actual: FloatArray) -> FloatArray:
    """P@K for K = 1 to n, of two orders given as keys, ascending; equal keys are ties.

    With s keys before its own and g equal to it, a page is among the first K with probability
    clip((K - s) / g, 0, 1). The expected number among the first K of both orders is the sum over the
    pages of the two probabilities' product: 0 up to the later s, a parabola from there to the earlier
    s + g, a line to the later s + g, then 1. The pieces' coefficients are summed at their starts,
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
            # a piece applies from the K after its beginning on
            places = begin.astype(np.int64) + 1
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
