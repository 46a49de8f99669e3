"""The evaluation of localized rates as text and JSON: Tables 1 to 4, Figure 1 of Singh, IJCAI 2007."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from rich.table import Table

from hacs_crawler.lab.evaluation.localized_error import (
    CONTESTANTS,
    MOST_POINTS,
    LocalizedErrors,
)
from hacs_crawler.lab.evaluation.localized_visits import LocalizedVisits
from hacs_crawler.lab.evaluation.update_points import Points
from hacs_crawler.model import MIN_POINTS, Kind
from hacs_crawler.utils.terminal import column_table

KINDS: Final = tuple(kind.name.lower() for kind in Kind)
REFERENCE: Final = "weibull"
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
    chunks: Iterable[Points],
    data: str,
    on_pages: Callable[[int], None] = lambda _done: None,
) -> LocalizedEvaluation:
    """Evaluate pages; `on_pages` is told how many are done."""
    errors, visits, done = LocalizedErrors(), LocalizedVisits(), 0
    for chunk in chunks:
        errors.add(chunk)
        visits.add(chunk)
        done += len(chunk)
        on_pages(done)
    return LocalizedEvaluation(data, errors, visits)


def localized_json(result: LocalizedEvaluation) -> dict[str, Any]:
    """Return all numbers; what is undefined is None. Rows are by estimator."""
    errors = result.errors
    return {
        "paper": "singh",
        "data": result.data,
        "table1": _table_1(errors),
        "table2": _table_2(errors),
        "table3": _table_3(errors),
        "table4": _table_4(result.visits),
        "figure1": _figure_1(errors),
    }


def _table_1(errors: LocalizedErrors) -> dict[str, Any]:
    updates = np.concatenate([np.zeros(0, np.int64), *errors.updates])
    windows = int(errors.windows.sum())
    return {
        "pages": len(updates),
        "updates_min": int(updates.min()),
        "updates_max": int(updates.max()),
        "updates_mean": float(updates.mean()),
        "updates_sd": float(updates.std()),
        "windows": windows,
        "updates_a_window": _ratio(errors.points, windows),
        "windows_too_small": errors.small,
        **{f"windows_{name}": int(n) for name, n in zip(KINDS, errors.windows, strict=True)},
    }


def _table_2(errors: LocalizedErrors) -> dict[str, dict[str, float | None]]:
    total = errors.numbers.sum()
    return {
        name: {kind: _ratio(sums[place], errors.numbers[place]) for place, kind in enumerate(KINDS)}
        | {"all": _ratio(sums.sum(), total)}
        for name, sums in zip(CONTESTANTS, errors.sums, strict=True)
    }


def _table_3(errors: LocalizedErrors) -> dict[str, dict[str, float | None]]:
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


def _figure_1(errors: LocalizedErrors) -> dict[str, dict[str, float | None]]:
    return {
        name: {title: _ratio(sums[size], errors.sizes[size]) for title, size in _SIZES.items()}
        for name, sums in zip(CONTESTANTS, errors.by_size, strict=True)
    }


def _ratio(value: float, number: float) -> float | None:
    return float(value / number) if number else None


def localized_rows(result: LocalizedEvaluation) -> list[dict[str, Any]]:
    """Return every number of the tables and the figure in a row: table, row, column, value."""
    found = localized_json(result)
    rows = [
        {"table": "table1", "row": name, "column": "", "value": value}
        for name, value in found["table1"].items()
    ]
    return rows + [
        {"table": table, "row": name, "column": column, "value": value}
        for table in _BY_ESTIMATOR
        for name, values in found[table].items()
        for column, value in values.items()
    ]


def localized_parts(result: LocalizedEvaluation) -> Iterator[str | Table]:
    """Yield the tables and sentences as they are printed."""
    found = localized_json(result)
    yield _conclusion(found)
    yield from ("", f"Table 1: the data ({result.data}); updates of a page count t(0)")
    facts = found["table1"]
    values = [_shown(value, 1) for value in facts.values()]
    yield column_table({"": facts, " ": values}, texts=("", " "), has_head=False)
    yield from (
        "",
        "Table 2: average squared error in days², 1/λ at the window's end against the days to the next "
        "update",
    )
    yield _by_estimator(found["table2"], 2)
    yield from ("", "Table 3: windows, in %, in which the row's error is below the column's")
    yield _by_estimator(found["table3"], 1)
    yield ""
    yield (
        f"Table 4: visits of the second half of {result.visits.pages} pages' time, at the rate of "
        "the last window of the first; visits beside Weibull's"
    )
    yield _by_estimator(found["table4"], 3)
    yield from ("", "Figure 1: average squared error in days² by updates in the window")
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
