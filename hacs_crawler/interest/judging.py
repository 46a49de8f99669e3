"""The pages of a window, judged: curves, classes, and the shapes beside them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from hacs_crawler.interest.views import Window
from hacs_crawler.model import (
    BEST_DAYS,
    CLASSES,
    CONCENTRATION,
    PAPER_SHARE,
    Classes,
    Curves,
    Shape,
    classify,
    classify_by_curve,
    fit_anchored,
    fit_paper,
    shape_of,
)
from hacs_crawler.utils.arrays import FloatArray

MODELS: Final = ("anchored", "paper")
_PAGES_AT_ONCE: Final = 8192
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Rules:
    """What makes a page temporal: which model's class, within how many days (n), above which share (q).

    Of the anchored model q is compared with the concentration of the views, of the paper's with Phi(n).
    """

    model: str = MODELS[0]
    best_days: int = BEST_DAYS
    share: float | None = None

    @property
    def threshold(self) -> float:
        """The share q that is in force."""
        if self.share is not None:
            return self.share
        return CONCENTRATION if self.model == MODELS[0] else PAPER_SHARE


@dataclass(frozen=True, slots=True)
class Judged:
    """A window and what was found of its pages."""

    window: Window
    rules: Rules
    curves: Curves
    classes: Classes
    shape: Shape

    @property
    def totals(self) -> FloatArray:
        """Views of each page in the window."""
        totals: FloatArray = self.window.views.sum(axis=1)
        return totals

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row a page: curve, `phi` at n days, class, shape; None where undefined."""
        columns = {
            **{field.name: getattr(self.curves, field.name) for field in fields(Curves)},
            "phi": self.curves.phi(self.rules.best_days),
            "views": self.totals,
            "best_share": self.shape.best_share,
            "gini": self.shape.gini,
            "half_life": self.shape.half_life,
            "concentration": self.shape.concentration,
        }
        lists = {name: values.tolist() for name, values in columns.items()}
        for place, page in enumerate(self.window.pages):
            row: dict[str, Any] = {"page": page}
            row |= {name: _rounded(values[place]) for name, values in lists.items()}
            yield row | {"class": CLASSES[self.classes[place]]}


def judge(
    window: Window,
    rules: Rules,
    on_pages: Callable[[int, int], None] = lambda _done, _total: None,
) -> Judged:
    """Fit and classify the pages of a window; `on_pages` is told how many of all are done."""
    daily = window.daily
    found: list[tuple[Curves, Classes]] = []
    for start in range(0, len(window.pages), _PAGES_AT_ONCE):
        rows = slice(start, start + _PAGES_AT_ONCE)
        if rules.model == "paper":
            curves = fit_paper(daily[rows])
            classes = classify_by_curve(curves, rules.best_days, rules.threshold)
        else:
            curves = fit_anchored(window.views[rows], window.bins_a_day)
            classes = classify(daily[rows], rules.best_days, rules.threshold)
        found.append((curves, classes))
        on_pages(min(rows.stop, len(window.pages)), len(window.pages))
    return Judged(
        window,
        rules,
        Curves(
            *(
                np.concatenate(
                    [getattr(curves, field.name) for curves, _ in found] or [np.empty(0)]
                )
                for field in fields(Curves)
            )
        ),
        np.concatenate([classes for _, classes in found] or [np.empty(0, np.int8)]),
        shape_of(daily, rules.best_days),
    )


def rows_json(judged: Judged) -> Iterator[bytes]:
    """Yield a JSON array of the rows, one a line."""
    yield b"["
    for number, row in enumerate(judged.rows()):
        yield (b",\n" if number else b"\n") + json.dumps(row, allow_nan=False).encode()
    yield b"\n]\n"


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS + 1}g}") if math.isfinite(value) else None
