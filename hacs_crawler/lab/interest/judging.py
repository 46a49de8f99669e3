"""The pages of a window, judged: their curves, and which of them are temporal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

from hacs_crawler.lab.interest.anchored import fit_anchored
from hacs_crawler.lab.interest.curves import Curves
from hacs_crawler.lab.interest.paper import fit_paper
from hacs_crawler.lab.interest.temporal import (
    BEST_DAYS,
    concentration_of,
    temporal_by_curve,
    temporal_by_days,
)
from hacs_crawler.lab.interest.views import Window
from hacs_crawler.utils.arrays import BoolArray, FloatArray

MODELS: Final = ("anchored", "paper")
"""The anchored curve, with which the days' concentration decides; or the paper's, whose Phi(3) does."""
_DIGITS: Final = 7


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """A window and what was found of its pages."""

    window: Window
    curves: Curves
    is_temporal: BoolArray

    @property
    def totals(self) -> FloatArray:
        """Views of each page in the window."""
        totals: FloatArray = self.window.views.sum(axis=1)
        return totals

    def columns(self) -> dict[str, Any]:
        """Return a column for each fact of the pages: `phi` is at 3 days, nan is what is undefined."""
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
    window: Window,
    model: str = MODELS[0],
    on_pages: Callable[[int, int], None] = lambda _done, _total: None,
) -> JudgedWindow:
    """Fit the pages of a window, and tell the temporal ones by a model's rule (see `MODELS`).

    `on_pages` is told how many of those with views are done, and of how many.
    """
    if model == "paper":
        curves = fit_paper(window.daily, on_pages)
        is_temporal = temporal_by_curve(curves)
    else:
        curves = fit_anchored(window.views, window.bins_a_day, on_pages)
        is_temporal = temporal_by_days(window.daily)
    return JudgedWindow(window, curves, is_temporal)
