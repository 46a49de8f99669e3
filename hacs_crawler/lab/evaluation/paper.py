"""The paper's two evaluations on known histories (Jayawardana et al. 2020), and their tables.

Each week t the rates are estimated from the captures of the w weeks before, and compared with the
updates after t.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from rich.table import Table

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.evaluation.histories import History, window
from hacs_crawler.lab.evaluation.measures import (
    AVERAGES,
    MODELS,
    THETAS,
    Curve,
    Tally,
    curve,
    weighted_precision,
)
from hacs_crawler.utils.arrays import FloatArray
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import counted, shown
from hacs_crawler.utils.times import DAY, day_text

WEEK: Final = 7.0
WINDOW_WEEKS: Final = tuple(range(1, 13))
HORIZON_DAYS: Final = WEEK
ORDERS: Final = ("HACS", "Last-Obs", "Random")


@dataclass(frozen=True, slots=True)
class Period:
    """The moments t: weekly from `since` to `until`, both included, in days since 1970 UTC."""

    since: float
    until: float

    @property
    def moments(self) -> FloatArray:
        """The moments in order."""
        return np.arange(self.since, self.until + 1e-9, WEEK)


@dataclass(frozen=True, slots=True)
class LevelResult:
    """The results at one level, by weeks of the window.

    `orderings` are the weighted P@K of `ORDERS`, at each moment with a true order.
    """

    tallies: dict[int, Tally]
    orderings: dict[int, list[list[float]]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result at each level."""

    period: Period
    levels: dict[str, LevelResult]


def evaluate(
    levels: Mapping[str, History],
    period: Period,
    on_moment: Callable[[int, int], None] = lambda _done, _total: None,
) -> Evaluation:
    """Run both evaluations at every level; `on_moment` gets the numbers of finished and of all moments.

    Raises HacsError if all windows are without captures.
    """
    moments = period.moments.tolist()
    earliest = period.since - max(WINDOW_WEEKS) * WEEK
    for history in levels.values():
        days = history.capture_days
        if not ((days >= earliest) & (days <= period.until)).any():
            raise HacsError(
                f"no captures between {day_text(DAY * earliest)} (the longest window before the "
                f"first week) and {day_text(DAY * period.until)}"
            )
    results: dict[str, LevelResult] = {}
    for name, history in levels.items():
        result = LevelResult(
            tallies={weeks: Tally() for weeks in WINDOW_WEEKS},
            orderings={weeks: [] for weeks in WINDOW_WEEKS},
        )
        before = len(results) * len(moments)
        for done, day in enumerate(moments, start=before + 1):
            next_updates = history.next_updates(day)
            for weeks in WINDOW_WEEKS:
                past = window(history, day, weeks * WEEK, HORIZON_DAYS)
                following = next_updates[past.units]
                result.tallies[weeks].add(past.p, following <= day + HORIZON_DAYS)
                if following.size > 1 and np.isfinite(following).any():  # else any order is right
                    keys = past.p, -past.last_capture, np.zeros(following.size)
                    result.orderings[weeks].append(
                        [weighted_precision(key, following) for key in keys]
                    )
            on_moment(done, len(levels) * len(moments))
        results[name] = result
    return Evaluation(period, results)


def choose_period(
    levels: Mapping[str, History], since: float | None, until: float | None
) -> tuple[Period, float]:
    """Return the moments to evaluate, and the last one after which the truth is known.

    `since` defaults to the longest window after the first capture, `until` to the last moment whose
    horizon ends before the last capture or update; a later `until` is moved there. Raises HacsError if
    no moment is left.
    """
    times = [
        days
        for history in levels.values()
        for days in (history.capture_days, history.update_days)
        if days.size
    ]
    captures = [history.capture_days for history in levels.values() if history.capture_days.size]
    if not captures:
        raise HacsError("there is no capture of any page")
    latest = math.floor(max(float(days.max()) for days in times) - HORIZON_DAYS)
    earliest = math.ceil(min(float(days[0]) for days in captures))
    end = latest if until is None else min(until, latest)
    start = min(earliest + max(WINDOW_WEEKS) * WEEK, end) if since is None else since
    if start > end or end < earliest:
        raise HacsError(
            f"no week to evaluate: captures begin on {day_text(DAY * earliest)}, and the last week "
            f"that is known whole begins on {day_text(DAY * latest)}"
            + ("" if since is None else f"; since = {day_text(DAY * since)}")
            + ("" if until is None else f"; until = {day_text(DAY * until)}")
        )
    return Period(start, end), latest


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


def _selection_rows(level: str, result: LevelResult) -> Iterator[Row]:
    """Yield the rows of the paper's Table I of one level: by average, window and model."""
    for average in AVERAGES:
        for weeks, tally in result.tallies.items():
            curves = [curve(tally.counts(model), average) for model in MODELS]
            best = curves[0].best()
            theta = None if best is None else float(THETAS[best])
            for model, measured in zip(MODELS, curves, strict=True):
                has_theta = model != "Brute Force"
                place = best if has_theta else 0
                at_place = {
                    field.name: math.nan if place is None else getattr(measured, field.name)[place]
                    for field in fields(Curve)
                }
                yield {
                    "level": level,
                    "average": average,
                    "window_weeks": weeks,
                    "weeks": tally.moments,
                    "model": model,
                    "theta": theta if has_theta else None,
                    **{
                        name: None if math.isnan(value) else float(value)
                        for name, value in at_place.items()
                    },
                    "weighted_precision": None,
                }


def all_rows(result: Evaluation) -> Iterator[Row]:
    """Yield the rows of both evaluations at all levels; None is undefined."""
    for level, scores in result.levels.items():
        selected = list(_selection_rows(level, scores))
        yield from selected
        for weeks, order in scores.orderings.items():
            for place, name in enumerate(ORDERS):
                total = math.fsum(values[place] for values in order)
                yield {
                    **dict.fromkeys(selected[0]),
                    "level": level,
                    "window_weeks": weeks,
                    "weeks": len(order),
                    "model": name,
                    "weighted_precision": total / len(order) if order else None,
                }


def table_parts(result: Evaluation) -> Iterator[str | Table]:
    """Yield the tables and sentences as they are printed."""
    dates = f"t = {day_text(DAY * result.period.since)} to {day_text(DAY * result.period.until)}, weekly"
    rows: dict[tuple[str, str | None], list[Row]] = {}
    for row in all_rows(result):
        rows.setdefault((row["level"], row["average"]), []).append(row)
    for level in result.levels:
        yield from (_conclusion(level, rows[level, "micro"], rows[level, None]), "")
    yield f"Evaluation 1: pages selected at theta, the best threshold of each window. {dates}"
    for level in result.levels:
        for average in AVERAGES:
            yield from ("", f"{TITLES[level]}, {AVERAGES[average]}")
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
    """Return the results of both evaluations at one level, in a sentence or two."""
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
    weeks = counted(max(row["weeks"] for row in selected), "week")
    return f"Conclusion, {TITLES[level].lower()}, from {weeks}: {'; '.join(said) or nothing}."


def _best(values: Mapping[tuple[str, int], float | None]) -> int:
    """Return the window with the greatest value of HACS, 0 without values."""
    mine = {
        weeks: value
        for (model, weeks), value in values.items()
        if model == "HACS" and value is not None
    }
    return max(mine, key=lambda weeks: mine[weeks], default=0)
