"""The estimators of S. R. Singh, IJCAI 2007, on stored visits: the rate of the last consistent window.

Unlike in the paper's forms, a page's last window ends with its last visit T, not with the last update,
so that quiet time since then counts. The updates expected up to t days after a window's origin are a
power of time, Λ(t) = c (t / T)^b, and λ is their intensity at T.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.model.gaps import Visits
from hacs_crawler.model.survival import TIMES
from hacs_crawler.model.windows import MIN_POINTS, Windows, consistent_windows
from hacs_crawler.utils.arrays import FloatArray, IndexArray, page_of_value, sum_by_page

# Within which b is kept.
SHAPES: Final = 0.001, 1000.0
_ROUNDING: Final = 1e-6  # days, a tenth of a second; visits are whole seconds apart
_MOST_LOG: Final = 600.0


class LastWindows(NamedTuple):
    """How pages go on by their last windows: c, b and T, and the places of the pages."""

    page: IndexArray
    expected: FloatArray
    shape: FloatArray
    watched_days: FloatArray

    def rate_per_day(self) -> FloatArray:
        """Return λ = c b / T."""
        rate: FloatArray = self.expected * self.shape / self.watched_days
        return rate

    def survival(self) -> FloatArray:
        """Return e^-(Λ(T + x) - Λ(T)) of each of `TIMES` x; (n_windows, times)."""
        grown = self.shape[:, None] * np.log1p(TIMES / self.watched_days[:, None])
        more = self.expected[:, None] * np.expm1(np.minimum(grown, _MOST_LOG))
        survival: FloatArray = np.exp(-more)
        return survival


def last_windows(name: str, visits: Visits) -> LastWindows:
    """Return the last windows of the pages with at least `MIN_POINTS` updates.

    `name` is one of `estimators.LOCALIZED`. weibull: b = n / sum log(T / t_i) and c = n, the maximum
    likelihood for n updates up to T. duane: the shape 1 - gamma of Duane's plot, and c = n, as the plot
    itself knows nothing of quiet time. matloff: b = 1 and the rate -log(1 - X / k) / tau for k visits in
    the window, X of them with an update, tau their mean distance.
    """
    days, offsets = visits.visit_days, visits.offsets
    first = (
        days[np.minimum(offsets[:-1], len(days) - 1)] if len(days) else np.zeros(len(offsets) - 1)
    )
    windows = consistent_windows(*visits.update_points(), first)
    windows = windows.of(windows.is_last & (windows.counts >= MIN_POINTS))
    watched = days[offsets[windows.page + 1] - 1] - windows.origin_days
    count, shape = windows.counts.astype(np.float64), np.ones(len(windows))
    if name == "matloff":
        k = np.maximum(_visits_in(windows, watched, visits), windows.counts)
        count = watched * matloff_rate(k, windows.counts, watched / k)
    elif name == "duane":
        shape = duane_line(windows)[0]
    else:
        ages = np.log(watched[page_of_value(windows.offsets)] / windows.days)
        shape = count / np.maximum(sum_by_page(ages, windows.offsets), 1e-300)
    return LastWindows(windows.page, count, np.clip(shape, *SHAPES), watched)


def _visits_in(windows: Windows, watched_days: FloatArray, visits: Visits) -> IndexArray:
    """Return how many visits each window has."""
    days = visits.visit_days
    # the pages one after the other on one time line
    span, least = np.ptp(days) + 1.0 if days.size else 1.0, days.min(initial=np.inf)
    order = page_of_value(visits.offsets) * span + (days - least)
    origin = windows.page * span + (windows.origin_days - least) + _ROUNDING
    begins = np.searchsorted(order, origin, side="right")
    number: IndexArray = np.searchsorted(order, origin + watched_days, side="right") - begins
    return number


def matloff_rate(intervals: ArrayLike, updated: ArrayLike, interval_days: ArrayLike) -> FloatArray:
    """Return -log(1 - X / k) / tau, 1/day; shapes broadcast, k is at least 1.

    N. Matloff, "Estimation of Internet file-access/modification rates from indirect data", ACM TOMACS
    15(3), 2005. The paper's M_n is read as X. Where every interval has an update, X = k, that is
    infinite: X is then k - 1/2.
    """
    k = np.asarray(intervals, np.float64)
    share = np.minimum(np.asarray(updated, np.float64), k - 0.5) / k
    rate: FloatArray = -np.log1p(-share) / np.asarray(interval_days, np.float64)
    return rate


def duane_line(windows: Windows) -> tuple[FloatArray, FloatArray]:
    """Return 1 - gamma and log alpha of the line through Duane's plot of each window."""
    window = page_of_value(windows.offsets)
    n = windows.counts
    number = np.arange(len(windows.days)) - windows.offsets[window] + 1.0
    x = np.log(windows.days)
    y = x - np.log(number)
    x_mean = sum_by_page(x, windows.offsets) / n
    y_mean = sum_by_page(y, windows.offsets) / n
    x_off = x - x_mean[window]
    squares = sum_by_page(x_off * x_off, windows.offsets)
    slope = np.divide(
        sum_by_page(x_off * (y - y_mean[window]), windows.offsets),
        squares,
        out=np.full(len(windows), np.nan),
        where=(squares > 0) & (n > 1),
    )
    return 1.0 - slope, y_mean - slope * x_mean
