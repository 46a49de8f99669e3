"""The numbers of an evaluation, as rows and as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from rich.table import Table

from hacs_crawler.lab.evaluation.measures import (
    AVERAGE_TITLES,
    AVERAGES,
    MODELS,
    THETAS,
    Curve,
    curve,
)
from hacs_crawler.lab.evaluation.paper import (
    ORDERS,
    Evaluation,
    LevelResult,
    day_name,
)
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import counted, shown

FOOTNOTE: Final = (
    "- is undefined: theta where no threshold selects a page that was updated, P where nothing is "
    "selected, R where nothing was updated, F1 where neither is. Micro, and macro where an update was "
    "found, compare with the paper's Table I; macro counts a week in which none was found as F1 = 0."
)
TITLES: Final = {"homepage": "Homepages", "website": "Websites"}
# By title: a model, one of its numbers, and how many digits are shown.
_SELECTION: Final = {
    "theta": ("HACS", "theta", 2),
    **{
        f"{model} {title}": (model, name, 3)
        for model in MODELS
        for title, name in (("P", "precision"), ("R", "recall"), ("F1", "f1"))
    },
}
_ORDER: Final = {name: (name, "weighted_precision", 3) for name in ORDERS}


# One model at one level, window and average, at theta-hat; None if undefined.
#
# `weeks` counts the moments t with pages. The counts are sums over them, of Random the mean over
# all draws. docs/evaluation.md has the columns.
Row = dict[str, Any]


def table_rows(level: str, result: LevelResult) -> Iterator[Row]:
    """Yield the rows of the paper's Table I of one level: by average, window and model."""
    for average in AVERAGES:
        for weeks, tally in result.tallies.items():
            curves = [curve(tally.counts(model), average) for model in MODELS]
            best = curves[0].best()
            for model, measured in zip(MODELS, curves, strict=True):
                chosen = 0 if model == "Brute Force" else best
                yield {
                    "level": level,
                    "average": average,
                    "window_weeks": weeks,
                    "weeks": tally.moments,
                    "model": model,
                    "theta": None
                    if best is None or model == "Brute Force"
                    else float(THETAS[best]),
                    **_at(measured, chosen),
                }


def _at(measured: Curve, index: int | None) -> dict[str, float | None]:
    """Return the measures at a threshold; all undefined if no threshold selects an updated page."""
    values = {
        field.name: math.nan if index is None else float(getattr(measured, field.name)[index])
        for field in fields(Curve)
    }
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def all_rows(result: Evaluation) -> Iterator[Row]:
    """Yield the rows of both evaluations at all levels; None is undefined."""
    for level, scores in result.levels.items():
        selected = list(table_rows(level, scores))
        yield from ({**row, "weighted_precision": None} for row in selected)
        for weeks, order in scores.orderings.items():
            for name in ORDERS:
                yield {
                    **dict.fromkeys(selected[0]),
                    "level": level,
                    "window_weeks": weeks,
                    "weeks": order.moments,
                    "model": name,
                    "weighted_precision": order.mean(name),
                }


def table_parts(result: Evaluation) -> Iterator[str | Table]:
    """Yield the tables and sentences as they are printed."""
    dates = f"t = {day_name(result.period.since)} to {day_name(result.period.until)}, weekly"
    rows: dict[tuple[str, str | None], list[Row]] = {}
    for row in all_rows(result):
        rows.setdefault((row["level"], row["average"]), []).append(row)
    for level in result.levels:
        yield from (_conclusion(level, rows[level, "micro"], rows[level, None]), "")
    yield f"Evaluation 1: pages selected at theta, the best threshold of each window. {dates}"
    for level in result.levels:
        for average in AVERAGES:
            yield from ("", f"{TITLES[level]}, {AVERAGE_TITLES[average]}")
            yield _table(rows[level, average], _SELECTION)
    yield from ("", f"Evaluation 2: weighted P@K, mean over t. {dates}")
    for level in result.levels:
        yield from ("", TITLES[level])
        yield _table(rows[level, None], _ORDER)
    yield from ("", FOOTNOTE)


def _table(rows: Sequence[Row], cells: Mapping[str, tuple[str, str, int]]) -> Table:
    """Return a line for each window, and a column for each title."""
    windows = {row["window_weeks"]: row["weeks"] for row in rows}
    columns = {
        title: [shown(row[name], digits) for row in rows if row["model"] == model]
        for title, (model, name, digits) in cells.items()
    }
    return column_table({"w": windows, "weeks": windows.values(), **columns})


def _conclusion(level: str, selected: Sequence[Row], ordered: Sequence[Row]) -> str:
    """Return in a sentence or two what both evaluations say of one level."""
    said = []
    f1 = {(row["model"], row["window_weeks"]): row["f1"] for row in selected}
    order = {(row["model"], row["window_weeks"]): row["weighted_precision"] for row in ordered}
    if best := _best(f1):
        others = (f"{name} {shown(f1[name, best], 3)}" for name in ("Random", "Brute Force"))
        said.append(
            f"pages selected by HACS have an F1 of {shown(f1['HACS', best], 3)} at best (window of "
            f"{counted(best, 'week')}), {', '.join(others)}"
        )
    if best := _best(order):
        hacs, chance = order["HACS", best], order["Random", best]
        verdict = "better than" if hacs > chance else "no better than"
        said.append(
            f"its order is {verdict} chance, with a weighted P@K of {hacs:.3f} against {chance:.3f} "
            f"(window of {counted(best, 'week')})"
        )
    nothing = "no page was updated in the time evaluated, so nothing can be concluded"
    return f"Conclusion, {TITLES[level].lower()}: {'; '.join(said) or nothing}."


def _best(values: Mapping[tuple[str, int], float | None]) -> int:
    """Return the window in which HACS has most, 0 if it has nothing in any."""
    mine = {
        weeks: value
        for (model, weeks), value in values.items()
        if model == "HACS" and value is not None
    }
    return max(mine, key=lambda weeks: mine[weeks], default=0)
