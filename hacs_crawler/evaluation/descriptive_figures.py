"""The descriptive figures of an evaluation: Figures 3 to 6 of Jayawardana et al. 2020."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hacs_crawler.evaluation.descriptive import Description, PoissonCheck
from hacs_crawler.evaluation.figures import SERIES, Plot, add_legend, plain_numbers, say_nothing
from hacs_crawler.evaluation.paper import LevelResult
from hacs_crawler.evaluation.tables import TITLES, evenly
from hacs_crawler.utils.arrays import IndexArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def captures(level: str, result: LevelResult) -> Plot:
    """Draw Figure 3: captures by month."""
    description = result.description

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        months = np.array(description.months, "datetime64[M]")
        of_all = "captures" if level == "homepage" else "captures of their pages"
        axes.step(months, description.captures, where="mid", color=SERIES[0], label=of_all)
        units = TITLES[level].lower()
        axes.step(
            months, description.captured, where="mid", color=SERIES[1], label=f"{units} captured"
        )
        axes.set_ylim(0)
        axes.set_ylabel("number in a month")
        add_legend(figure, axes)

    return Plot(
        f"figure-3-captures-{level}",
        level,
        "Captures over time (Figure 3)",
        "How many captures there are in each month, and of how many units.",
        2.8,
        draw,
    )


def rates(level: str, result: LevelResult) -> Plot:
    """Draw Figure 4: the distribution of 1 / lambda."""
    description = result.description
    median = description.median_of_mean_days

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if median is None:
            say_nothing(axes)
            return
        days = description.mean_days
        edges = np.geomspace(days.min() * 0.99, days.max() * 1.01, 21)
        axes.hist(days, edges.tolist(), color=SERIES[0])
        axes.axvline(median, color=SERIES[1], label=f"median {median:.0f} days")
        axes.set_xscale("log")
        plain_numbers(axes, "x")
        axes.set_xlabel("1/λ, days")
        axes.set_ylabel(TITLES[level].lower())
        add_legend(figure, axes)

    shown = (
        f"{description.mean_days.size} with an update; {description.quiet} without are left out."
    )
    return Plot(
        f"figure-4-rates-{level}",
        level,
        "Mean update interval 1/λ (Figure 4)",
        f"The distribution over {TITLES[level].lower()}: {shown}",
        2.8,
        draw,
    )


def medians(level: str, result: LevelResult) -> Plot:
    """Draw Figure 5: 1 / lambda against the median interval."""
    description = result.description
    known = np.flatnonzero(~np.isnan(description.median_days))
    correlation = _rank_correlation(description, known)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if not known.size:
            say_nothing(axes)
            return
        places = known[evenly(known.size)]
        x, y = description.median_days[places], description.mean_days[places]
        ends = [min(x.min(), y.min()), max(x.max(), y.max())]
        axes.plot(ends, ends, color=SERIES[1], linewidth=1, label="median = 1/λ")
        exponential = [end / np.log(2) for end in ends]
        axes.plot(
            ends,
            exponential,
            "--",
            color=SERIES[1],
            linewidth=1,
            label="median = ln 2 / λ (Poisson)",
        )
        axes.plot(x, y, ".", color=SERIES[0], alpha=0.6, markersize=6)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in ("x", "y"):
            plain_numbers(axes, axis)
        axes.set_xlabel("median interval, days")
        axes.set_ylabel("1/λ, days")
        add_legend(figure, axes)

    return Plot(
        f"figure-5-medians-{level}",
        level,
        "1/λ against the median interval (Figure 5)",
        f"{known.size} {TITLES[level].lower()} with two interpolated updates or more"
        + ("." if correlation is None else f"; rank correlation {correlation:.2f}."),
        3.4,
        draw,
    )


def _rank_correlation(description: Description, known: IndexArray) -> float | None:
    """Return Spearman's rank correlation, None where it is undefined."""
    from scipy.stats import rankdata  # noqa: PLC0415 - takes a while to import

    x, y = (rankdata(values[known]) for values in (description.median_days, description.mean_days))
    if len(x) < 2 or x.std() == 0 or y.std() == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def poisson(level: str, result: LevelResult) -> Plot:
    """Draw Figure 6: intervals against the exponential distribution."""
    checks = result.description.checks

    def draw(figure: Figure) -> None:
        rows = np.atleast_1d(figure.subplots(len(checks), 1))
        for axes, check in zip(rows, checks, strict=True):
            _draw_check(axes, check, TITLES[level].lower())
        add_legend(figure, rows[0])
        rows[-1].set_xlabel("days between interpolated updates (last bar: or more)")

    return Plot(
        f"figure-6-poisson-{level}",
        level,
        "Are updates a Poisson process? (Figure 6)",
        f"Intervals between updates of {TITLES[level].lower()} whose 1/λ is in a bin, against the "
        "exponential distribution with each one's λ.",
        5.6,
        draw,
    )


def _draw_check(axes: Axes, check: PoissonCheck, units: str) -> None:
    axes.set_title(
        f"1/λ from {check.low_days:g} to {check.high_days:g} days: "
        f"{check.units} {units}, {check.intervals} intervals",
        loc="left",
    )
    width = check.edges[1] - check.edges[0]
    middles = check.edges[:-1] + width / 2
    axes.bar(middles, check.observed, width * 0.9, color=SERIES[0], label="observed")
    axes.plot(middles, check.expected, "o-", color=SERIES[1], label="expected")
    axes.set_ylabel("share")
