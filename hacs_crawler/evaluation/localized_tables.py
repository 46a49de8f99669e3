"""The evaluation of localized rates as text and JSON: Tables 1 to 4, Figure 1 of Singh, IJCAI 2007."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from rich.table import Table

from hacs_crawler.cluster import HERE, Workers
from hacs_crawler.evaluation.localized_error import (
    CONTESTANTS,
    MOST_POINTS,
    Errors,
    LocalizedErrors,
)
from hacs_crawler.evaluation.localized_visits import LocalizedVisits
from hacs_crawler.evaluation.update_points import Chunk
from hacs_crawler.model import MIN_POINTS, Kind
from hacs_crawler.utils.terminal import column_table, facts_table

KINDS: Final = tuple(kind.name.lower() for kind in Kind)
REFERENCE: Final = "weibull"
READING_TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "next": "1/λ at the window's end against the days to the next update",
        "inside": "1/λ at each update of the window against the days before it",
        "points": "the time up to which i updates are expected against the i-th update",
    }
)
_BY_ESTIMATOR: Final = ("table2", "table3", "table4", "figure1")
_SIZES: Final = {
    **{str(size): size for size in range(MIN_POINTS, MOST_POINTS + 1)},
    f"{MOST_POINTS + 1}+": MOST_POINTS + 1,
}


@dataclass(frozen=True, slots=True)
class LocalizedEvaluation:
    """All of it. `data` says in words what the pages are."""

    data: str
    errors: LocalizedErrors
    visits: LocalizedVisits


def evaluate_localized(
    chunks: Iterable[Chunk],
    data: str,
    threshold_days: float,
    on_pages: Callable[[int], None] = lambda _done: None,
    workers: Workers = HERE,
) -> LocalizedEvaluation:
    """Evaluate pages, each chunk by a worker; `on_pages` is told how many are done."""
    errors, visits, done = LocalizedErrors(threshold_days), LocalizedVisits(threshold_days), 0
    for pages, more, further in workers.mapped(_of_chunk, chunks, threshold_days):
        errors.join(more)
        visits.join(further)
        done += pages
        on_pages(done)
    return LocalizedEvaluation(data, errors, visits)


def _of_chunk(chunk: Chunk, threshold_days: float) -> tuple[int, LocalizedErrors, LocalizedVisits]:
    """Return how many pages a chunk has, and what is found of them."""
    points = chunk()
    errors, visits = LocalizedErrors(threshold_days), LocalizedVisits(threshold_days)
    errors.add(points)
    visits.add(points)
    return len(points), errors, visits


def localized_json(result: LocalizedEvaluation) -> dict[str, Any]:
    """Return all numbers; what is undefined is None. Rows are by estimator."""
    readings = {
        name: {"table2": _table_2(one), "table3": _table_3(one), "figure1": _figure_1(one)}
        for name, one in result.errors.readings.items()
    }
    return {
        "paper": "singh",
        "data": result.data,
        "threshold_days": result.errors.threshold_days,
        "table1": _table_1(result.errors),
        **readings["next"],
        "table4": _table_4(result.visits),
        "readings": {name: one for name, one in readings.items() if name != "next"},
    }


def _table_1(errors: LocalizedErrors) -> dict[str, Any]:
    shape = errors.shape
    updates = np.concatenate([np.zeros(0, np.int64), *shape.updates])
    windows = int(shape.windows.sum())
    return {
        "pages": len(updates),
        "updates_min": int(updates.min()),
        "updates_max": int(updates.max()),
        "updates_mean": float(updates.mean()),
        "updates_sd": float(updates.std()),
        "windows": windows,
        "updates_a_window": _ratio(shape.points, windows),
        "windows_too_small": shape.small,
        **{f"windows_{name}": int(n) for name, n in zip(KINDS, shape.windows, strict=True)},
    }


def _table_2(errors: Errors) -> dict[str, dict[str, float | None]]:
    total = errors.numbers.sum()
    return {
        name: {kind: _ratio(sums[place], errors.numbers[place]) for place, kind in enumerate(KINDS)}
        | {"all": _ratio(sums.sum(), total)}
        for name, sums in zip(CONTESTANTS, errors.sums, strict=True)
    }


def _table_3(errors: Errors) -> dict[str, dict[str, float | None]]:
    total = errors.numbers.sum()
    return {
        name: {
            other: None if other == name else _ratio(100.0 * errors.beaten[row, column], total)
            for column, other in enumerate(CONTESTANTS)
        }
        for row, name in enumerate(CONTESTANTS)
    }


def _table_4(visits: LocalizedVisits) -> dict[str, dict[str, float | None]]:
    return {
        name: {
            "observed": visits.observed[name],
            "premature": visits.visits[name] - visits.observed[name],
            "precision": _ratio(visits.observed[name], visits.visits[name]),
            "visits": _ratio(visits.visits[name], visits.visits[REFERENCE]),
        }
        for name in CONTESTANTS
    }


def _figure_1(errors: Errors) -> dict[str, dict[str, float | None]]:
    return {
        name: {title: _ratio(sums[size], errors.sizes[size]) for title, size in _SIZES.items()}
        for name, sums in zip(CONTESTANTS, errors.by_size, strict=True)
    }


def _ratio(value: float, number: float) -> float | None:
    return float(value / number) if number else None


def localized_rows(result: LocalizedEvaluation) -> list[dict[str, Any]]:
    """Return every number of the tables and the figure in a row: table, reading, row, column, value."""
    found = localized_json(result)
    rows = [
        {"table": "table1", "reading": "", "row": name, "column": "", "value": value}
        for name, value in found["table1"].items()
    ]
    readings = {"next": found, **found["readings"], "": {"table4": found["table4"]}}
    rows += [
        {"table": table, "reading": reading, "row": name, "column": column, "value": value}
        for reading, tables in readings.items()
        for table in _BY_ESTIMATOR
        for name, values in tables.get(table, {}).items()
        for column, value in values.items()
        if (table == "table4") == (not reading)
    ]
    return rows


def localized_parts(result: LocalizedEvaluation) -> Iterator[str | Table]:
    """Yield the tables and sentences as they are printed."""
    found = localized_json(result)
    yield _conclusion(found)
    yield from ("", f"Table 1: the data ({result.data}); updates of a page count t(0)")
    yield facts_table((name, _shown(value, 1)) for name, value in found["table1"].items())
    for name, title in READING_TITLES.items():
        tables = found if name == "next" else found["readings"][name]
        yield from ("", f"Table 2, {name}: average squared error in days², {title}")
        yield _by_estimator(tables["table2"], 2)
        yield ""
        yield f"Table 3, {name}: windows, in %, in which the row's error is below the column's"
        yield _by_estimator(tables["table3"], 1)
    yield ""
    yield (
        f"Table 4: visits of the second half of {result.visits.pages} pages' time, at the rate of "
        "the last window of the first; visits beside Weibull's"
    )
    yield _by_estimator(found["table4"], 3)
    yield from ("", "Figure 1: average squared error in days² (next) by updates in the window")
    shown = [title for title, size in _SIZES.items() if size <= 10 or size % 5 == 0 or "+" in title]
    yield _by_estimator(
        {
            name: {title: errors[title] for title in shown}
            for name, errors in found["figure1"].items()
        },
        2,
    )


def _conclusion(found: Mapping[str, Any]) -> str:
    errors = {name: row["all"] for name, row in found["table2"].items() if row["all"] is not None}
    if not errors:
        return "Conclusion: no window has enough updates to compare estimators."
    order = sorted(errors, key=lambda name: errors[name])
    return (
        f"Conclusion: {order[0]} follows changing rates best, with an average squared error of "
        f"{errors[order[0]]:.2f} days² over all windows; "
        + ", ".join(f"{name} has {errors[name]:.2f}" for name in order[1:])
        + "."
    )


def _by_estimator(table: Mapping[str, Mapping[str, float | None]], digits: int) -> Table:
    """Return a row an estimator."""
    titles = dict.fromkeys(name for row in table.values() for name in row)
    columns = {
        title: [_shown(row.get(title), digits) for row in table.values()] for title in titles
    }
    return column_table({"estimator": list(table), **columns}, texts=("estimator",))


def _shown(value: float | None, digits: int) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.{digits}f}"
