"""The figures of an evaluation: of its scores here, and all of them in the paper's order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from hacs_crawler.evaluation.descriptive_figures import captures, medians, poisson, rates
from hacs_crawler.evaluation.figures import SERIES, Plot, add_legend
from hacs_crawler.evaluation.paper import ORDERS, Evaluation, LevelResult
from hacs_crawler.evaluation.selection import AVERAGES, MODELS, THETAS, curve
from hacs_crawler.evaluation.tables import table_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN_WEEKS: Final = (4, 8, 12)
_LOOKS: Final = {
    "HACS": (SERIES[0], "o"),
    "Last-Obs": (SERIES[1], "s"),
    "Random": (SERIES[2], "^"),
    "Brute Force": (SERIES[3], "D"),
}


def plots(result: Evaluation) -> Iterator[Plot]:
    """Yield the figures in the paper's order, each at both levels."""
    for make in (captures, rates, medians, poisson, by_theta, by_window, ordering):
        for level, one in result.levels.items():
            yield make(level, one)


def by_theta(level: str, result: LevelResult) -> Plot:
    """Draw F1 by threshold."""

    def draw(figure: Figure) -> None:
        rows = np.atleast_1d(figure.subplots(len(AVERAGES), 1, sharex=True))
        for axes, average in zip(rows, AVERAGES, strict=True):
            axes.set_title(f"{average}-averaged", loc="left")
            for number, weeks in enumerate(SHOWN_WEEKS):
                for model, style in (("HACS", "-"), ("Random", ":")):
                    f1 = curve(result.tallies[weeks].counts(model), average).f1
                    label = f"w = {weeks}" if model == "HACS" else None
                    axes.plot(THETAS, f1, style, color=SERIES[number], label=label)
            axes.set_ylabel("F1")
            axes.set_ylim(0)
        add_legend(figure, rows[0])
        rows[-1].set_xlabel("threshold θ on p")

    return Plot(
        f"evaluation-1-theta-{level}",
        level,
        "F1 by threshold (Evaluation 1)",
        "HACS as lines, Random with as many pages dotted. At θ = 0 both are Brute Force.",
        4.4,
        draw,
    )


def by_window(level: str, result: LevelResult) -> Plot:
    """Draw F1 at theta-hat by window."""
    rows = list(table_rows(level, result))

    def draw(figure: Figure) -> None:
        panels = np.atleast_1d(figure.subplots(len(AVERAGES), 1, sharex=True))
        for axes, average in zip(panels, AVERAGES, strict=True):
            axes.set_title(f"{average}-averaged", loc="left")
            for model in MODELS:
                color, mark = _LOOKS[model]
                mine = [row for row in rows if (row.average, row.model) == (average, model)]
                f1 = [np.nan if row.f1 is None else row.f1 for row in mine]
                weeks = [row.window_weeks for row in mine]
                axes.plot(weeks, f1, f"{mark}-", color=color, label=model)
            axes.set_ylabel("F1 at θ̂")
            axes.set_ylim(0)
        add_legend(figure, panels[0])
        _week_ticks(panels[-1], [row.window_weeks for row in rows])

    return Plot(
        f"evaluation-1-window-{level}",
        level,
        "F1 at the best threshold (Evaluation 1)",
        "By the weeks of captures that rates are estimated from.",
        4.4,
        draw,
    )


def ordering(level: str, result: LevelResult) -> Plot:
    """Draw Figure 11: weighted P@K by window."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        weeks = list(result.orderings)
        for name in ORDERS:
            color, mark = _LOOKS[name]
            means = [order.mean(name) for order in result.orderings.values()]
            values = [np.nan if mean is None else mean for mean in means]
            axes.plot(weeks, values, f"{mark}-", color=color, label=name)
        axes.set_ylabel("weighted P@K")
        _week_ticks(axes, weeks)
        add_legend(figure, axes)

    return Plot(
        f"figure-11-ordering-{level}",
        level,
        "Weighted P@K (Figure 11)",
        "How well each order agrees with the order in which pages were updated after t.",
        3.0,
        draw,
    )


def _week_ticks(axes: Axes, weeks: list[int]) -> None:
    axes.set_xticks(range(min(weeks), max(weeks) + 1))
    axes.set_xlabel("window w, weeks")
