"""How far localized rates are from the updates: Tables 1 to 3 and Figure 1 of Singh, IJCAI 2007."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from hacs_crawler.lab.evaluation.update_points import Points
from hacs_crawler.model import (
    MIN_POINTS,
    Kind,
    PowerLaw,
    Windows,
    cho_law,
    consistent_windows,
    corrected_weibull_law,
    duane_law,
    matloff_law,
    naive_law,
    weibull_law,
)
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

MOST_POINTS: Final = 30
"""Windows of more points are one in Figure 1."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """An estimator of the paper: the law that it fits to a window, and what it takes for the rate.

    Duane's rate is the cumulative one, the others' the intensity.
    """

    law: Callable[[Windows], PowerLaw]
    rate: Callable[[PowerLaw, FloatArray], FloatArray] = PowerLaw.rate


CONTESTANTS: Final[Mapping[str, Contestant]] = MappingProxyType(
    {
        "weibull": Contestant(corrected_weibull_law),
        "weibull-shape": Contestant(lambda windows: corrected_weibull_law(windows, of_rate=False)),
        "weibull-ml": Contestant(weibull_law),
        "duane": Contestant(duane_law, PowerLaw.mean_rate),
        "cho": Contestant(cho_law),
        "matloff": Contestant(matloff_law),
        "naive": Contestant(naive_law),
    }
)
"""`weibull` has both corrections of the paper, `weibull-shape` that of the shape, `weibull-ml` none."""


class LocalizedErrors:
    """Tables 1 to 3 and Figure 1, of pages added bit by bit.

    `updates` are those of each page and count t(0), as the paper's do. `small` counts windows of fewer
    than `MIN_POINTS` points, of pages with no more; they are not estimated. `sums` are squared errors by
    contestant and kind of window, of `numbers` windows, `by_size` the same by points in the window, of
    `sizes`. `beaten[i, j]` counts the windows in which contestant i has a smaller error than j; equal
    errors count half.
    """

    def __init__(self) -> None:
        self.updates: list[IndexArray] = []
        self.windows = np.zeros(len(Kind), np.int64)
        self.points = self.small = 0
        self.sums: FloatArray = np.zeros((len(CONTESTANTS), len(Kind)))
        self.numbers: FloatArray = np.zeros(len(Kind))
        self.by_size: FloatArray = np.zeros((len(CONTESTANTS), MOST_POINTS + 2))
        self.sizes: FloatArray = np.zeros(MOST_POINTS + 2)
        self.beaten: FloatArray = np.zeros((len(CONTESTANTS),) * 2)

    def add(self, points: Points) -> None:
        """Add pages. Those never updated have no window, and are counted in Table 1 alone."""
        windows = consistent_windows(points.days, points.offsets, points.first_days)
        is_whole = windows.counts >= MIN_POINTS
        kind = windows.kind.astype(np.int64) + 1
        self.updates.append(np.diff(points.offsets) + 1)
        self.windows += np.bincount(kind[is_whole], minlength=len(Kind))
        self.points += int(windows.counts[is_whole].sum())
        self.small += int((~is_whole).sum())
        chosen = is_whole & has_next(windows)
        if chosen.any():
            mine = windows.of(chosen)
            self._add(errors_of(mine, next_gaps(windows)[chosen]), kind[chosen], mine.counts)

    def _add(self, errors: FloatArray, kind: IndexArray, counts: IndexArray) -> None:
        """Add windows; shape of the errors (n_contestants, n_windows)."""
        size = np.minimum(counts, MOST_POINTS + 1)
        self.numbers += np.bincount(kind, minlength=len(Kind))
        self.sizes += np.bincount(size, minlength=MOST_POINTS + 2)
        for place, mine in enumerate(errors):
            self.sums[place] += np.bincount(kind, mine, len(Kind))
            self.by_size[place] += np.bincount(size, mine, MOST_POINTS + 2)
            self.beaten[place] += (mine < errors).sum(axis=1) + 0.5 * (mine == errors).sum(axis=1)


def has_next(windows: Windows) -> BoolArray:
    """Whether an update of its page follows each window."""
    return ~windows.is_last


def next_gaps(windows: Windows) -> FloatArray:
    """Return the days from each window's last update to the next one, nan where none follows."""
    gaps = np.full(len(windows), np.nan)
    followed = np.flatnonzero(has_next(windows))
    gaps[followed] = windows.days[windows.offsets[followed + 1]]
    return gaps


def errors_of(windows: Windows, next_gap: FloatArray) -> FloatArray:
    """Return (1/lambda(t_n) - the days to the next update)² of each contestant in each window, in days².

    The shape is (n_contestants, n_windows). The paper leaves open what its squared error is of:
    benchmarks/singh.py tries other readings.
    """
    rates = [entry.rate(entry.law(windows), windows.last_days) for entry in CONTESTANTS.values()]
    errors: FloatArray = (1.0 / np.array(rates) - next_gap) ** 2
    return errors
