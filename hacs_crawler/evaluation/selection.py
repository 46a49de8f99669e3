"""Evaluation 1: which pages a threshold on p selects, and which of them were updated.

At a moment t the pages are those with a capture in the window before it. HACS selects the pages with
p >= theta, Random as many pages drawn without replacement, Brute Force all of them. A selected page
that is updated within the horizon is a true positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hacs_crawler.utils.arrays import BoolArray, FloatArray

THETAS: Final = np.arange(21) / 20
"""Thresholds on p: 0 to 1 by 0.05."""
MODELS: Final = ("HACS", "Random", "Brute Force")
AVERAGES: Final = ("micro", "macro")


class Tally:
    """Counts of one window length: a row for each moment, a column for each threshold."""

    def __init__(self) -> None:
        self._pages: list[int] = []
        self._changed: list[int] = []
        self._selected: list[FloatArray] = []
        self._hits: list[FloatArray] = []

    def add(self, p: FloatArray, changed: BoolArray) -> None:
        """Add a moment: each page's p, and whether it was updated. A moment without pages is none."""
        if p.size:
            self._pages.append(p.size)
            self._changed.append(int(np.count_nonzero(changed)))
            self._selected.append(_at_least(p))
            self._hits.append(_at_least(p[changed]))

    @property
    def moments(self) -> int:
        """Number of moments with pages."""
        return len(self._pages)

    def counts(self, model: str) -> Counts:
        """Return what a model's selections were; of Random the mean of all possible draws.

        That mean is exact: of n pages with m updated ones, a draw of k has k m / n true positives on
        average (hypergeometric), and every measure here is linear in them.
        """
        pages = np.array(self._pages, np.float64).reshape(-1, 1)
        changed = np.array(self._changed, np.float64).reshape(-1, 1)
        selected = np.array(self._selected, np.float64).reshape(-1, THETAS.size)
        if model == "HACS":
            return Counts(np.array(self._hits).reshape(selected.shape), selected, changed, pages)
        if model == "Random":
            return Counts(selected * changed / pages, selected, changed, pages)
        everywhere = np.ones(THETAS.size)
        return Counts(changed * everywhere, pages * everywhere, changed, pages)


def _at_least(p: FloatArray) -> FloatArray:
    """Return how many are at least each threshold."""
    return (p.size - np.searchsorted(np.sort(p), THETAS)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Counts:
    """True positives and selected pages by moment and threshold; updated and all pages by moment."""

    hits: FloatArray
    selected: FloatArray
    changed: FloatArray
    pages: FloatArray

    def summed(self) -> Counts:
        """Return one row: the sums over the moments."""
        return Counts(
            hits=self.hits.sum(axis=0, keepdims=True),
            selected=self.selected.sum(axis=0, keepdims=True),
            changed=self.changed.sum(axis=0, keepdims=True),
            pages=self.pages.sum(axis=0, keepdims=True),
        )

    def precision(self) -> FloatArray:
        """TP / (TP + FP); nan where nothing is selected."""
        return _share(self.hits, self.selected)

    def recall(self) -> FloatArray:
        """TP / (TP + FN); nan where nothing was updated."""
        return _share(self.hits, self.changed)

    def f1(self) -> FloatArray:
        """2 TP / (2 TP + FP + FN); nan where nothing is selected and nothing was updated."""
        return _share(2 * self.hits, self.selected + self.changed)


@dataclass(frozen=True, slots=True)
class Curve:
    """A model's measures at each threshold, averaged over the moments; nan where undefined."""

    true_positives: FloatArray
    false_positives: FloatArray
    false_negatives: FloatArray
    true_negatives: FloatArray
    precision: FloatArray
    recall: FloatArray
    f1: FloatArray

    def best(self) -> int | None:
        """Return the place of theta-hat: the highest threshold of the greatest F1, if any is above 0."""
        f1 = np.where(np.isnan(self.f1), 0.0, self.f1)
        return int(np.flatnonzero(f1 == f1.max())[-1]) if f1.max() > 0 else None


def curve(counts: Counts, average: str) -> Curve:
    """Average over moments: micro sums the counts first, macro takes the mean of each moment's measure.

    The macro mean of a measure is over the moments at which it is defined. The four counts are sums
    in both.
    """
    total = counts.summed()
    of = total if average == "micro" else counts
    hits, selected, changed = total.hits[0], total.selected[0], total.changed[0]
    return Curve(
        true_positives=hits,
        false_positives=selected - hits,
        false_negatives=changed - hits,
        true_negatives=total.pages[0] - selected - changed + hits,
        precision=_mean(of.precision()),
        recall=_mean(of.recall()),
        f1=_mean(of.f1()),
    )


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    out = np.full(part.shape, np.nan)
    np.divide(part, whole, out=out, where=np.broadcast_to(whole > 0, part.shape))
    return out


def _mean(values: FloatArray) -> FloatArray:
    """Mean of each column over what is defined; nan where nothing is."""
    defined = ~np.isnan(values)
    return _share(np.where(defined, values, 0.0).sum(axis=0), defined.sum(axis=0))
