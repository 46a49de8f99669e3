"""The pages of a window, judged: their curves, and which of them are temporal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from hacs_crawler.lab.interest.curves import Curves, fit_anchored, rise_of
from hacs_crawler.lab.interest.views import Window
from hacs_crawler.utils.arrays import BoolArray, FloatArray

_DIGITS: Final = 7
# The paper's n: interest that lasts at most this many days is short.
BEST_DAYS: Final = 3
# A page is temporal if its concentration is more: on labelled windows, of those with a spike 97 %
# are above and of those without 99.5 % below (benchmarks/README.md).
CONCENTRATION: Final = 0.4


def concentration_of(views: FloatArray) -> FloatArray:
    """How much of each page's views, (n, days), lies on its best days: 0 if spread evenly, 1 if all.

    (s - e) / (1 - e), with s the share of the views on the best three days and e the share that three
    days have of those since the page's rise. The top day counts no more than the next best, unless it is
    the only one with views: a single robot makes one high day. nan for pages without views and for those
    that rose in the last three days.
    """
    views = np.asarray(views, dtype=np.float64)
    days = views.shape[1]
    if days > 1:
        next_best = np.partition(views, -2, axis=1)[:, -2:-1]
        views = np.where(next_best > 0, np.minimum(views, next_best), views)
    total = views.sum(axis=1)
    best = np.sort(views, axis=1)[:, max(days - BEST_DAYS, 0) :].sum(axis=1)
    since_rise = days - rise_of(views, BEST_DAYS)
    even = np.minimum(BEST_DAYS / since_rise, 1.0)
    is_defined = (total > 0) & (even < 1)
    share = np.divide(best, total, out=np.full(len(views), np.nan), where=is_defined)
    return np.asarray((share - even) / np.where(is_defined, 1 - even, 1.0), np.float64)


def temporal_by_days(views: FloatArray) -> BoolArray:
    """Return which pages of views (n, days) are temporal, by the concentration of their views."""
    return np.asarray(concentration_of(views) > CONCENTRATION, np.bool_)


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """A window and the judgement of its pages."""

    window: Window
    curves: Curves
    is_temporal: BoolArray

    @property
    def totals(self) -> FloatArray:
        """Views of each page in the window."""
        totals: FloatArray = self.window.views.sum(axis=1)
        return totals

    def columns(self) -> dict[str, Any]:
        """Return a column for each fact of the pages: `phi` is at 3 days, nan if undefined."""
        numbers = {
            **{field.name: getattr(self.curves, field.name) for field in fields(Curves)},
            "phi": self.curves.phi(BEST_DAYS),
            "views": self.totals,
            "concentration": concentration_of(self.window.daily),
        }
        rounded = {
            name: [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
            for name, values in numbers.items()
        }
        return {"page": self.window.pages, **rounded, "temporal": self.is_temporal}


def judge(
    window: Window, on_pages: Callable[[int, int], None] = lambda _done, _total: None
) -> JudgedWindow:
    """Fit the pages of a window, and find the temporal pages.

    `on_pages` gets the finished and the total number of pages with views.
    """
    curves = fit_anchored(window.views, window.bins_a_day, on_pages)
    return JudgedWindow(window, curves, temporal_by_days(window.daily))
