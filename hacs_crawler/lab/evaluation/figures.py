"""The figures of evaluations and the curves of simulations, drawn with matplotlib (an extra)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.evaluation.descriptive import Description, PoissonCheck
from hacs_crawler.lab.evaluation.paper import ORDERS, Evaluation, LevelResult
from hacs_crawler.lab.evaluation.tables import TITLES, evenly
from hacs_crawler.lab.simulation.tournament import Standing
from hacs_crawler.utils.arrays import IndexArray

INK: Final = "#24292f"
FAINT: Final = "#d0d7de"
SERIES: Final = ("#0969da", "#bc4c00", "#6e7781", "#1a7f37")
WIDTH_INCHES: Final = 4.8
CURVE_KINDS: Final = (".svg", ".png")
_CURVE_MARKS: Final = "os^vD"
_CURVE_HEIGHT_INCHES: Final = 7.5
_STYLE: Final[Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "svg.hashsalt": "hacs",
}
_LOOKS: Final = {
    "HACS": (SERIES[0], "o"),
    "Last-Obs": (SERIES[1], "s"),
    "Random": (SERIES[2], "^"),
}


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure to be drawn; `name` is fit for a file."""

    name: str
    height_inches: float
    draw: Callable[[Figure], None]

    def render(self, kind: str) -> bytes:
        """Return the figure as "svg" or "png"."""
        import matplotlib as mpl  # noqa: PLC0415 - an extra
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=(WIDTH_INCHES, self.height_inches), layout="constrained")
            self.draw(figure)
            out = io.BytesIO()
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(out, format=kind, dpi=160, metadata=metadata)
        return out.getvalue()


def check_matplotlib() -> None:
    """Raise HacsError if figures cannot be drawn."""
    try:
        import matplotlib  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise HacsError(
            f"figures need matplotlib: pip install 'hacs-crawler[report]' ({error})"
        ) from error


def add_legend(figure: Figure, axes: Axes) -> None:
    """Put the legend of the axes above the figure, so that it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels))


def plain_numbers(axes: Axes, axis: str) -> None:
    """Label a logarithmic axis with numbers such as 200, not powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter  # noqa: PLC0415

    scale = axes.xaxis if axis == "x" else axes.yaxis
    scale.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    scale.set_major_formatter(StrMethodFormatter("{x:g}"))
    scale.set_minor_formatter(NullFormatter())


def say_nothing(axes: Axes) -> None:
    """Draw that there is nothing to draw."""
    axes.text(0.5, 0.5, "no updates", ha="center", va="center", transform=axes.transAxes)
    axes.set_axis_off()


def ordering(_level: str, result: LevelResult, figure: Figure) -> None:
    """Draw Figure 11: weighted P@K by window."""
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


def _week_ticks(axes: Axes, weeks: list[int]) -> None:
    axes.set_xticks(range(min(weeks), max(weeks) + 1))
    axes.set_xlabel("window w, weeks")


def captures(level: str, result: LevelResult, figure: Figure) -> None:
    """Draw Figure 3: captures by month."""
    description = result.description
    from matplotlib.dates import ConciseDateFormatter  # noqa: PLC0415 - an extra

    axes = figure.subplots()
    months = np.array(description.months, "datetime64[M]")
    of_all = "captures" if level == "homepage" else "captures of their pages"
    axes.step(months, description.captures, where="mid", color=SERIES[0], label=of_all)
    units = TITLES[level].lower()
    axes.step(months, description.captured, where="mid", color=SERIES[1], label=f"{units} captured")
    axes.set_ylim(0)
    labels = ConciseDateFormatter(axes.xaxis.get_major_locator())  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(labels)
    axes.set_ylabel("number in a month")
    add_legend(figure, axes)


def rates(level: str, result: LevelResult, figure: Figure) -> None:
    """Draw Figure 4: the distribution of 1 / lambda."""
    description = result.description
    median = description.median_of_mean_days
    axes = figure.subplots()
    if median is None:
        say_nothing(axes)
        return
    days = description.mean_days
    edges = np.geomspace(days.min() * 0.99, days.max() * 1.01, 21)
    axes.hist(days, edges.tolist(), color=SERIES[0])
    axes.set_title(f"{days.size} with an update, {description.quiet} without", loc="left")
    axes.axvline(median, color=SERIES[1], label=f"median {median:.0f} days")
    axes.set_xscale("log")
    plain_numbers(axes, "x")
    axes.set_xlabel("1/λ, days")
    axes.set_ylabel(TITLES[level].lower())
    add_legend(figure, axes)


def medians(_level: str, result: LevelResult, figure: Figure) -> None:
    """Draw Figure 5: 1 / lambda against the median interval."""
    description = result.description
    has_median = np.flatnonzero(~np.isnan(description.median_days))
    correlation = _rank_correlation(description, has_median)
    axes = figure.subplots()
    if not has_median.size:
        say_nothing(axes)
        return
    if correlation is not None:
        axes.set_title(f"rank correlation {correlation:.2f}", loc="left")
    places = has_median[evenly(has_median.size)]
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


def _rank_correlation(description: Description, indices: IndexArray) -> float | None:
    """Return Spearman's rank correlation, None if it is undefined."""
    from scipy.stats import rankdata  # noqa: PLC0415 - takes a while to import

    x, y = (
        rankdata(values[indices]) for values in (description.median_days, description.mean_days)
    )
    if len(x) < 2 or x.std() == 0 or y.std() == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def poisson(level: str, result: LevelResult, figure: Figure) -> None:
    """Draw Figure 6: intervals against the exponential distribution."""
    checks = result.description.checks
    rows = np.atleast_1d(figure.subplots(len(checks), 1))
    for axes, check in zip(rows, checks, strict=True):
        _draw_check(axes, check, TITLES[level].lower())
    add_legend(figure, rows[0])
    rows[-1].set_xlabel("days between interpolated updates (last bar: or more)")


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
    axes.set_ylim(0, None if check.intervals else 1)
    axes.set_ylabel("share")


_FIGURES: Final = {
    "figure-3-captures": (2.8, captures),
    "figure-4-rates": (2.8, rates),
    "figure-5-medians": (3.4, medians),
    "figure-6-poisson": (5.6, poisson),
    "figure-11-ordering": (3.0, ordering),
}


def plots(result: Evaluation) -> Iterator[Plot]:
    """Yield the figures in the paper's order, each at both levels."""
    for name, (height, draw) in _FIGURES.items():
        for level, scores in result.levels.items():
            yield Plot(f"{name}-{level}", height, partial(draw, level, scores))


def check_curves(target: Path) -> None:
    """Raise HacsError if curves cannot be drawn to a file of that name."""
    if target.suffix not in CURVE_KINDS:
        raise HacsError(f"--plot = {str(target)!r}: must be a name that ends in .svg or .png")
    check_matplotlib()


def draw_curves(standings: Sequence[Standing], kind: str) -> bytes:
    """Return the curves as "svg" or "png"."""

    def draw(figure: Figure) -> None:
        hits, delay = figure.subplots(2, sharex=True)
        for number, name in enumerate(
            dict.fromkeys(standing.score.policy for standing in standings)
        ):
            mine = sorted(
                (standing for standing in standings if standing.score.policy == name),
                key=lambda standing: standing.budget,
            )
            style = {
                "marker": _CURVE_MARKS[number // 10 % len(_CURVE_MARKS)],
                "color": f"C{number % 10}",
            }
            budgets = [standing.budget for standing in mine]
            hits.plot(budgets, [standing.score.hits for standing in mine], label=name, **style)
            with_delay = [
                standing for standing in mine if standing.score.mean_delay_days is not None
            ]
            days = [standing.score.mean_delay_days for standing in with_delay]
            delay.plot([standing.budget for standing in with_delay], days, **style)
        hits.set_xscale("log")
        ticks = sorted({standing.budget for standing in standings})
        hits.set_xticks(ticks, [str(tick) for tick in ticks])
        hits.minorticks_off()
        hits.set_ylim(0)
        delay.set_ylim(0)
        hits.set_ylabel("visits that found an update")
        delay.set_ylabel("mean delay, days")
        delay.set_xlabel("visits a day")
        figure.legend(loc="outside lower center", ncols=3)

    return Plot("curves", _CURVE_HEIGHT_INCHES, draw).render(kind)
