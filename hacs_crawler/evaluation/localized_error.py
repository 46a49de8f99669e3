"""How far localized rates are from the updates: Tables 1 to 3 and Figure 1 of Singh, IJCAI 2007."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from hacs_crawler.evaluation.update_points import Points
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
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray, page_of_value, sum_by_page

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


@dataclass(frozen=True, slots=True)
class Fitted:
    """A contestant's laws of windows, and those at each update point of the windows."""

    windows: Windows
    window: IndexArray
    contestant: Contestant
    law: PowerLaw
    at_point: PowerLaw
    next_gap: FloatArray

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the means over the points of each window."""
        means: FloatArray = sum_by_page(values, self.windows.offsets) / self.windows.counts
        return means

    def gaps(self) -> FloatArray:
        """Return the days before each point since the point before, or the window's origin."""
        gaps: FloatArray = np.diff(self.windows.days, prepend=0.0)
        gaps[self.windows.offsets[:-1]] = self.windows.days[self.windows.offsets[:-1]]
        return gaps

    def number(self) -> FloatArray:
        """Return the number of each point within its window, from 1."""
        first = self.windows.offsets[self.window]
        return (1 + np.arange(len(self.window)) - first).astype(np.float64)


def _next(fitted: Fitted) -> FloatArray:
    rate = fitted.contestant.rate(fitted.law, fitted.windows.last_days)
    return (1.0 / rate - fitted.next_gap) ** 2


def _inside(fitted: Fitted) -> FloatArray:
    rate = fitted.contestant.rate(fitted.at_point, fitted.windows.days)
    return fitted.mean((1.0 / rate - fitted.gaps()) ** 2)


def _points(fitted: Fitted) -> FloatArray:
    return fitted.mean((fitted.at_point.time_of(fitted.number()) - fitted.windows.days) ** 2)


READINGS: Final[Mapping[str, Callable[[Fitted], FloatArray]]] = MappingProxyType(
    {"next": _next, "inside": _inside, "points": _points}
)
"""What the squared error of a window may be, in days²; the paper's text is not exact.

next: (1/lambda(t_n) - days to the first update after the window)². inside: the mean over the window's
points of (1/lambda(t_i) - t_i + t_(i-1))². points: the mean of (t_i - the time up to which i are
expected)².
"""


@dataclass(slots=True)
class Errors:
    """Sums of squared errors under one reading: by contestant and kind of window, and by window size.

    `beaten[i, j]` counts the windows in which contestant i has a smaller error than j; equal errors
    count half.
    """

    sums: FloatArray = field(default_factory=lambda: np.zeros((len(CONTESTANTS), len(Kind))))
    numbers: FloatArray = field(default_factory=lambda: np.zeros(len(Kind)))
    by_size: FloatArray = field(
        default_factory=lambda: np.zeros((len(CONTESTANTS), MOST_POINTS + 2))
    )
    sizes: FloatArray = field(default_factory=lambda: np.zeros(MOST_POINTS + 2))
    beaten: FloatArray = field(default_factory=lambda: np.zeros((len(CONTESTANTS),) * 2))

    def add(self, errors: FloatArray, kind: IndexArray, counts: IndexArray) -> None:
        """Add windows; shape of the errors (n_contestants, n_windows)."""
        size = np.minimum(counts, MOST_POINTS + 1)
        self.numbers += np.bincount(kind, minlength=len(Kind))
        self.sizes += np.bincount(size, minlength=MOST_POINTS + 2)
        for place, mine in enumerate(errors):
            self.sums[place] += np.bincount(kind, mine, len(Kind))
            self.by_size[place] += np.bincount(size, mine, MOST_POINTS + 2)
            self.beaten[place] += (mine < errors).sum(axis=1) + 0.5 * (mine == errors).sum(axis=1)

    def join(self, other: Errors) -> None:
        """Add the windows of others."""
        self.sums += other.sums
        self.numbers += other.numbers
        self.by_size += other.by_size
        self.sizes += other.sizes
        self.beaten += other.beaten


@dataclass(slots=True)
class Shape:
    """What the pages look like: Table 1. Updates count t(0), as the paper's do."""

    updates: list[IndexArray] = field(default_factory=list)
    windows: IndexArray = field(default_factory=lambda: np.zeros(len(Kind), np.int64))
    points: int = 0
    small: int = 0
    """Windows of fewer than `MIN_POINTS` points, of pages with no more; they are not estimated."""

    def join(self, other: Shape) -> None:
        """Add other pages."""
        self.updates += other.updates
        self.windows += other.windows
        self.points += other.points
        self.small += other.small


@dataclass(slots=True)
class LocalizedErrors:
    """Tables 1 to 3 and Figure 1, of pages added bit by bit."""

    threshold_days: float
    shape: Shape = field(default_factory=Shape)
    readings: dict[str, Errors] = field(
        default_factory=lambda: {name: Errors() for name in READINGS}
    )

    def add(self, points: Points) -> None:
        """Add pages. Those never updated have no window, and are counted in Table 1 alone."""
        windows = consistent_windows(
            points.days, points.offsets, points.first_days, threshold_days=self.threshold_days
        )
        is_whole = windows.counts >= MIN_POINTS
        self.shape.updates.append(np.diff(points.offsets) + 1)
        self.shape.windows += _counted(windows.kind[is_whole])
        self.shape.points += int(windows.counts[is_whole].sum())
        self.shape.small += int((~is_whole).sum())
        for name, error_of in READINGS.items():
            chosen = is_whole & has_next(windows) if name == "next" else is_whole
            mine, kind = windows.of(chosen), windows.kind[chosen].astype(np.int64) + 1
            if len(mine):
                errors = errors_of(mine, next_gaps(windows)[chosen], error_of)
                self.readings[name].add(errors, kind, mine.counts)

    def join(self, other: LocalizedErrors) -> None:
        """Add other pages."""
        self.shape.join(other.shape)
        for name, errors in other.readings.items():
            self.readings[name].join(errors)


def has_next(windows: Windows) -> BoolArray:
    """Whether an update of its page follows each window."""
    return ~windows.is_last


def next_gaps(windows: Windows) -> FloatArray:
    """Return the days from each window's last update to the next one, nan where none follows."""
    gaps = np.full(len(windows), np.nan)
    followed = np.flatnonzero(has_next(windows))
    gaps[followed] = windows.days[windows.offsets[followed + 1]]
    return gaps


def errors_of(
    windows: Windows, next_gap: FloatArray, error_of: Callable[[Fitted], FloatArray]
) -> FloatArray:
    """Return the squared error of each contestant in each window; shape (n_contestants, n_windows)."""
    window = page_of_value(windows.offsets)
    found = []
    for contestant in CONTESTANTS.values():
        law = contestant.law(windows)
        found.append(error_of(Fitted(windows, window, contestant, law, law.of(window), next_gap)))
    return np.array(found)


def _counted(kinds: np.ndarray[tuple[int], np.dtype[np.int8]]) -> IndexArray:
    return np.bincount(kinds.astype(np.int64) + 1, minlength=len(Kind)).astype(np.int64)
