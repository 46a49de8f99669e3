"""The numbers of an evaluation, as rows and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
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
    defined,
)
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import counted, shown

FOOTNOTE: Final = (
    "- is undefined: theta where no threshold selects a page that was updated, P where nothing is "
    "selected, R where nothing was updated, F1 where neither is. Micro, and macro where an update was "
    "found, compare with the paper's Table I; macro counts a week in which none was found as F1 = 0."
)
TITLES: Final = {"homepage": "Homepages", "website": "Websites"}
# Of more units than this only this many, evenly spaced, are written in full.
MOST_POINTS: Final = 2_000
_MEASURES: Final = ("precision", "recall", "f1")
SELECTION_TITLES: Final = (
    *("w", "weeks", "theta"),
    *(f"{model} {measure}" for model in MODELS for measure in ("P", "R", "F1")),
)


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
    names = [field.name for field in fields(Curve)]
    if index is None:
        return dict.fromkeys(names)
    values = defined([getattr(measured, name)[index] for name in names])
    return dict(zip(names, values, strict=True))


def table_parts(result: Evaluation) -> Iterator[str | Table]:
    """Yield the tables and sentences as they are printed."""
    dates = f"t = {day_name(result.period.since)} to {day_name(result.period.until)}, weekly"
    for level, scores in result.levels.items():
        yield from (conclusion(level, scores), "")
    yield f"Evaluation 1: pages selected at theta, the best threshold of each window. {dates}"
    for level, scores in result.levels.items():
        rows = list(table_rows(level, scores))
        for average in AVERAGES:
            yield from ("", f"{TITLES[level]}, {AVERAGE_TITLES[average]}")
            yield _table(SELECTION_TITLES, selection_cells(average, rows))
    yield from ("", f"Evaluation 2: weighted P@K, mean over t. {dates}")
    for level, scores in result.levels.items():
        yield from ("", TITLES[level])
        yield _table(("w", "weeks", *ORDERS), ordering_cells(scores))
    yield from ("", FOOTNOTE)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    cells = zip(*rows, strict=True) if rows else ([] for _ in titles)
    return column_table(dict(zip(titles, cells, strict=True)))


def conclusion(level: str, result: LevelResult) -> str:
    """Return in a sentence or two what both evaluations say of one level."""
    rows = [row for row in table_rows(level, result) if row["average"] == "micro"]
    ours = [row for row in rows if row["model"] == MODELS[0] and row["f1"] is not None]
    orders = [
        (weeks, order.mean(ORDERS[0]), order.mean("Random"))
        for weeks, order in result.orderings.items()
    ]
    ranked = [
        (weeks, hacs, chance)
        for weeks, hacs, chance in orders
        if hacs is not None and chance is not None
    ]
    sentences = []
    if ours:
        best = max(ours, key=lambda row: float(row["f1"]))
        weeks = best["window_weeks"]
        others = {row["model"]: row["f1"] for row in rows if row["window_weeks"] == weeks}
        sentences.append(
            f"pages selected by HACS have an F1 of {shown(best['f1'], 3)} at best (window of "
            f"{counted(weeks, 'week')}), Random {shown(others['Random'], 3)}, Brute Force "
            f"{shown(others['Brute Force'], 3)}"
        )
    if ranked:
        weeks, hacs, chance = max(ranked, key=lambda pair: pair[1])
        verdict = "better than" if hacs > chance else "no better than"
        sentences.append(
            f"its order is {verdict} chance, with a weighted P@K of {hacs:.3f} against {chance:.3f} "
            f"(window of {counted(weeks, 'week')})"
        )
    said = (
        "; ".join(sentences)
        or "no page was updated in the time evaluated, so nothing can be concluded"
    )
    return f"Conclusion, {TITLES[level].lower()}: {said}."


def selection_cells(average: str, rows: Sequence[Row]) -> list[list[str]]:
    """Return a table's cells: window, weeks, theta, then P, R and F1 of each model."""
    mine = [row for row in rows if row["average"] == average]
    return [
        [
            str(group[0]["window_weeks"]),
            str(group[0]["weeks"]),
            shown(group[0]["theta"], 2),
            *(shown(row[name], 3) for row in group for name in _MEASURES),
        ]
        for group in (mine[i : i + len(MODELS)] for i in range(0, len(mine), len(MODELS)))
    ]


def ordering_cells(result: LevelResult) -> list[list[str]]:
    """Return a table's cells: window, weeks, then the mean weighted P@K of each order."""
    return [
        [str(weeks), str(order.moments), *(shown(order.mean(name), 3) for name in ORDERS)]
        for weeks, order in result.orderings.items()
    ]


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


def evenly(size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return at most MOST_POINTS places, evenly spaced."""
    if size <= MOST_POINTS:
        return np.arange(size)
    return np.linspace(0, size - 1, MOST_POINTS).astype(np.int64)
