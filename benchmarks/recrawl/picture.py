"""The picture of a comparison: what each policy found at each budget, a column for each history."""

from __future__ import annotations

import io

import matplotlib as mpl
from comparison import FORMS, Results
from matplotlib.axes import Axes
from matplotlib.figure import Figure

HEIGHT_INCHES = 8.5
MARKS = "ohs^vDPX*"
NAMES = list(FORMS)[:3]
INK = "#24292f"
STYLE = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d0d7de",
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "svg.hashsalt": "hacs",
}


def picture(results: Results) -> bytes:
    """Return it as SVG; bars are 95 % intervals."""
    histories = list(dict.fromkeys(history for history, _, _ in results))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.2 * len(histories), HEIGHT_INCHES), layout="constrained")
        grid = figure.subplots(len(NAMES), len(histories), squeeze=False)
        for column, history in enumerate(histories):
            for axes, name in zip(grid[:, column], NAMES, strict=True):
                _draw_lines(axes, results, history, name)
            grid[0, column].set_title(history)
            grid[-1, column].set_xlabel("visits a day")
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def _draw_lines(axes: Axes, results: Results, history: str, name: str) -> None:
    budgets = sorted({budget for one, budget, _ in results if one == history})
    policies = dict.fromkeys(policy for _, _, policy in results)
    for number, policy in enumerate(policies):
        mine = [results[history, budget, policy][name] for budget in budgets]
        low = [max(0.0, one.value - one.low) for one in mine]
        high = [max(0.0, one.high - one.value) for one in mine]
        shift = 1 + 0.02 * (number - len(policies) / 2)  # bars are not to hide each other
        axes.errorbar(
            [budget * shift for budget in budgets],
            [one.value for one in mine],
            [low, high],
            label=policy,
            marker=MARKS[number % len(MARKS)],
            color=f"C{number % 10}",
            linewidth=2 if policy.startswith("HACS") else 1,
            elinewidth=0.7,
        )
    axes.set_xscale("log")
    axes.set_xticks(budgets, [str(budget) for budget in budgets])
    axes.minorticks_off()
    axes.set_ylabel(name)
