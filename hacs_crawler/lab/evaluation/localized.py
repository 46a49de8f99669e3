"""Localized rates: Tables 1 to 4 and Figure 1 of Singh, IJCAI 2007, reproduced."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from rich.table import Table

from hacs_crawler.lab.evaluation.power_law import (
    PowerLaw,
    cho_law,
    corrected_weibull_law,
    duane_law,
    matloff_law,
    naive_law,
    weibull_law,
)
from hacs_crawler.lab.evaluation.update_points import Points
from hacs_crawler.model import MIN_POINTS, Kind, Windows, consistent_windows
from hacs_crawler.utils.arrays import FloatArray, IndexArray, offsets_of, page_of_value
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import shown

# Windows with more points are shown together in Figure 1.
MOST_POINTS: Final = 30


@dataclass(frozen=True, slots=True)
class Contestant:
    """An estimator of the paper: the law that it fits to a window, and its rate.

    For Duane that is the cumulative rate, for the others the intensity.
    """

    law: Callable[[Windows], PowerLaw]
    rate: Callable[[PowerLaw, FloatArray], FloatArray] = PowerLaw.rate


# `weibull` has both corrections of the paper, `weibull-shape` the shape's only, `weibull-ml` neither.
CONTESTANTS: Final[Mapping[str, Contestant]] = MappingProxyType(
    {
        "weibull": Contestant(corrected_weibull_law),
        "weibull-shape": Contestant(lambda windows: corrected_weibull_law(windows, of_rate=False)),
        "weibull-ml": Contestant(weibull_law),
        "duane": Contestant(duane_law, PowerLaw.mean_rate),
        "cho": Contestant(cho_law),
        "matloff": Contestant(matloff_law),
        "naive": Contestant(naive_law),
    }
)


class LocalizedErrors:
    """Tables 1 to 3 and Figure 1, accumulated over pages.

    `updates` are the numbers of updates of pages, including t(0) as in the paper. `small` counts windows
    with fewer than `MIN_POINTS` points, of pages with as few; they are not estimated. `sums` are squared
    errors by contestant, kind of window and points in the window, over `numbers` windows. `beaten[i, j]`
    counts the windows in which contestant i has a smaller error than j; equal errors count half.
    """

    def __init__(self) -> None:
        self.updates: list[IndexArray] = []
        self.windows = np.zeros(len(Kind), np.int64)
        self.points = self.small = 0
        self.numbers: FloatArray = np.zeros((len(Kind), MOST_POINTS + 2))
        self.sums: FloatArray = np.zeros((len(CONTESTANTS), *self.numbers.shape))
        self.beaten: FloatArray = np.zeros((len(CONTESTANTS),) * 2)

    def add(self, points: Points) -> None:
        """Add pages. Pages without an update are counted in Table 1 only."""
        windows = consistent_windows(points.days, points.offsets, points.first_days)
        is_whole = windows.counts >= MIN_POINTS
        kind = windows.kind.astype(np.int64) + 1
        self.updates.append(np.diff(points.offsets) + 1)
        self.windows += np.bincount(kind[is_whole], minlength=len(Kind))
        self.points += int(windows.counts[is_whole].sum())
        self.small += int((~is_whole).sum())
        chosen = is_whole & ~windows.is_last
        if not chosen.any():
            return
        mine, gaps = windows.of(chosen), next_gaps(windows)[chosen]
        # The paper does not define its squared error: benchmarks/singh.py tries other readings.
        errors = np.array(
            [
                (1.0 / one.rate(one.law(mine), mine.last_days) - gaps) ** 2
                for one in CONTESTANTS.values()
            ]
        )
        cell = kind[chosen] * (MOST_POINTS + 2) + np.minimum(mine.counts, MOST_POINTS + 1)
        shape = self.numbers.shape
        self.numbers += np.bincount(cell, minlength=self.numbers.size).reshape(shape)
        for number, error in enumerate(errors):
            self.sums[number] += np.bincount(cell, error, self.numbers.size).reshape(shape)
            wins = (error < errors).sum(axis=1) + 0.5 * (error == errors).sum(axis=1)
            self.beaten[number] += wins


def next_gaps(windows: Windows) -> FloatArray:
    """Return the days from each window's last update to the next update, nan without a next one."""
    gaps = np.full(len(windows), np.nan)
    followed = np.flatnonzero(~windows.is_last)
    gaps[followed] = windows.days[windows.offsets[followed + 1]]
    return gaps


# The share of a page's time that is the known history; the rest is for visits.
HISTORY: Final = 0.5
LEAST_GAP_DAYS: Final = 0.01


@dataclass(slots=True)
class LocalizedVisits:
    """Visits of the second half of each page's time, one every 1/rate days.

    The rate is constant: that at the last update of the last consistent window of the first half. A
    visit that finds one or more unseen updates is an observation, otherwise it is premature. Pages with
    fewer than `MIN_POINTS` updates in the first half are not visited.
    """

    pages: int = 0
    observed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONTESTANTS, 0))
    visits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONTESTANTS, 0))

    def add(self, points: Points) -> None:
        """Add pages."""
        split = points.first_days + HISTORY * (points.until_days - points.first_days)
        page = page_of_value(points.offsets)
        is_known = points.days <= split[page]
        known = offsets_of(np.bincount(page[is_known], minlength=len(points)))
        windows = consistent_windows(points.days[is_known], known, points.first_days)
        mine = windows.of(windows.is_last & (windows.counts >= MIN_POINTS))
        self.pages += len(mine)
        is_first_of_page = np.diff(page, prepend=-1) != 0
        for name, contestant in CONTESTANTS.items():
            rate = np.zeros(len(points))
            rate[mine.page] = contestant.rate(contestant.law(mine), mine.last_days)
            rate = np.minimum(rate, 1.0 / LEAST_GAP_DAYS)
            visits = np.floor((points.until_days - split) * rate)
            self.visits[name] += int(visits.sum())
            # the visit that would observe each update: visit k comes k / rate days after the split
            visit = np.ceil((points.days - split[page]) * rate[page])
            is_first = is_first_of_page | (np.diff(visit, prepend=0.0) != 0)
            observed = is_first & (visit >= 1) & (visit <= visits[page])
            self.observed[name] += int(observed.sum())


KINDS: Final = tuple(kind.name.lower() for kind in Kind)
REFERENCE: Final = "weibull"
# The tables by estimator: their titles, and the number of digits shown.
_TITLES: Final = {
    "table2": (
        "Table 2: average squared error in days², 1/λ at the window's end against the days to the next "
        "update",
        2,
    ),
    "table3": ("Table 3: windows, in %, in which the row's error is below the column's", 1),
    "table4": (
        "Table 4: visits of the second half of {pages} pages' time, at the rate of the last window of "
        "the first; visits beside Weibull's",
        3,
    ),
    "figure1": ("Figure 1: average squared error in days² by updates in the window", 2),
}
_SIZES: Final = {
    **{str(size): size for size in range(MIN_POINTS, MOST_POINTS + 1)},
    f"{MOST_POINTS + 1}+": MOST_POINTS + 1,
}


@dataclass(frozen=True, slots=True)
class LocalizedEvaluation:
    """The whole evaluation. `data` describes the pages in words."""

    data: str
    errors: LocalizedErrors
    visits: LocalizedVisits


def evaluate_localized(
    chunks: Iterable[Points], data: str, on_pages: Callable[[int], None] = lambda _done: None
) -> LocalizedEvaluation:
    """Evaluate pages; `on_pages` gets the number of finished pages."""
    errors, visits, done = LocalizedErrors(), LocalizedVisits(), 0
    for chunk in chunks:
        errors.add(chunk)
        visits.add(chunk)
        done += len(chunk)
        on_pages(done)
    return LocalizedEvaluation(data, errors, visits)


def localized_tables(result: LocalizedEvaluation) -> dict[str, dict[str, Any]]:
    """Return all numbers, None if undefined. Rows are by estimator."""
    errors, visits = result.errors, result.visits
    updates = np.concatenate([np.zeros(0, np.int64), *errors.updates])
    windows, total = int(errors.windows.sum()), errors.numbers.sum()
    tables: dict[str, dict[str, Any]] = {
        "table1": {
            "pages": len(updates),
            "updates_min": int(updates.min()),
            "updates_max": int(updates.max()),
            "updates_mean": float(updates.mean()),
            "updates_sd": float(updates.std()),
            "windows": windows,
            "updates_a_window": _ratio(errors.points, windows),
            "windows_too_small": errors.small,
            **{f"windows_{name}": int(n) for name, n in zip(KINDS, errors.windows, strict=True)},
        },
        **{name: {} for name in _TITLES},
    }
    for row, name in enumerate(CONTESTANTS):
        sums, observed, made = errors.sums[row], visits.observed[name], visits.visits[name]
        of_kinds = zip(KINDS, sums.sum(axis=1), errors.numbers.sum(axis=1), strict=True)
        by_kind = {kind: _ratio(*of_kind) for kind, *of_kind in of_kinds}
        tables["table2"][name] = by_kind | {"all": _ratio(sums.sum(), total)}
        tables["table3"][name] = {
            other: None if other == name else _ratio(100.0 * errors.beaten[row, column], total)
            for column, other in enumerate(CONTESTANTS)
        }
        tables["table4"][name] = {
            "observed": observed,
            "premature": made - observed,
            "precision": _ratio(observed, made),
            "visits": _ratio(made, visits.visits[REFERENCE]),
        }
        tables["figure1"][name] = {
            title: _ratio(sums[:, size].sum(), errors.numbers[:, size].sum())
            for title, size in _SIZES.items()
        }
    return tables


def _ratio(value: float, number: float) -> float | None:
    return float(value / number) if number else None


def localized_rows(result: LocalizedEvaluation) -> list[dict[str, Any]]:
    """Return every number of the tables and the figure in a row: table, row, column, value."""
    return [
        {"table": table, "row": name, "column": column, "value": value}
        for table, rows in localized_tables(result).items()
        for name, values in rows.items()
        for column, value in (values.items() if isinstance(values, dict) else [("", values)])
    ]


def localized_parts(result: LocalizedEvaluation) -> Iterator[str | Table]:
    """Yield the tables and sentences as they are printed."""
    tables = localized_tables(result)
    yield _conclusion(tables)
    facts = tables.pop("table1")
    yield from ("", f"Table 1: the data ({result.data}); updates of a page count t(0)")
    values = [_shown(value, 1) for value in facts.values()]
    yield column_table({"": facts, " ": values}, texts=("", " "), has_head=False)
    for name, (title, digits) in _TITLES.items():
        yield from ("", title.format(pages=result.visits.pages))
        columns = {
            column: [_shown(row.get(column), digits) for row in tables[name].values()]
            for column in dict.fromkeys(column for row in tables[name].values() for column in row)
            if not (column.isdecimal() and int(column) > 10 and int(column) % 5)
        }
        yield column_table({"estimator": CONTESTANTS, **columns}, texts=("estimator",))


def _conclusion(tables: Mapping[str, Any]) -> str:
    errors = {name: row["all"] for name, row in tables["table2"].items() if row["all"] is not None}
    if not errors:
        return "Conclusion: no window has enough updates to compare estimators."
    order = sorted(errors, key=lambda name: errors[name])
    others = ", ".join(f"{name} has {errors[name]:.2f}" for name in order[1:])
    return (
        f"Conclusion: {order[0]} follows changing rates best, with an average squared error of "
        f"{errors[order[0]]:.2f} days² over all windows; {others}."
    )


def _shown(value: Any, digits: int) -> str:
    return str(value) if isinstance(value, int) else shown(value, digits)
