"""The rates of one page over a period, as text and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hacs_crawler.archive import parse_day
from hacs_crawler.cli.text import iso_text
from hacs_crawler.exceptions import HacsError
from hacs_crawler.model import LOCALIZED, MIN_POINTS, expected_up_to
from hacs_crawler.state import Page, histories
from hacs_crawler.utils.arrays import FloatArray
from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import DAY

MOST_PARTS: Final = 24
BAR: Final = 40
"""The length of the bar of the highest rate."""
_BESIDE_BAR: Final = 38
"""What stands before a bar, and the number behind it."""


@dataclass(frozen=True, slots=True)
class PeriodRates:
    """The rates of a page from day `edges[0]` to `edges[-1]` (days since 1970 UTC), in equal parts.

    `expected` are the updates expected in each part, nan where the page was not watched through it; None
    where it has too few updates for rates that change. `found` are the visits with an update.
    """

    estimator: str
    edges: FloatArray
    expected: FloatArray | None
    found: list[int]

    @property
    def rates(self) -> list[float | None]:
        """The rate of each part, in 1/day; None where it is not known."""
        if self.expected is None:
            return [None] * len(self.found)
        rates = (self.expected / np.diff(self.edges)).tolist()
        return [None if math.isnan(rate) else rate for rate in rates]


def parse_period(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Return the seconds at which a period begins and ends. Raises HacsError."""
    begin = None if since is None else parse_day(since, "--from")
    end = None if until is None else parse_day(until, "--to")
    if begin is not None and end is not None and begin >= end:
        raise HacsError(f"--from {since} is not before --to {until}")
    return begin, end


def period_of(
    page: Page, bounds: tuple[int | None, int | None], estimator: str
) -> PeriodRates | None:
    """Return the rates of a page between two seconds, by default its first visit and its last.

    None where the page was visited less than twice, or all of its visits lie outside.
    """
    if len(page.visits) < 2:
        return None
    begin = page.visits[0] if bounds[0] is None else bounds[0]
    end = page.visits[-1] if bounds[1] is None else bounds[1]
    if begin >= end or begin >= page.visits[-1] or end <= page.visits[0]:
        return None
    days, updated, _ = histories([page])
    parts = min(MOST_PARTS, max(1, math.ceil((end - begin) / DAY)))
    edges = np.linspace(begin / DAY, end / DAY, parts + 1)
    name = estimator if estimator in LOCALIZED else LOCALIZED[0]
    # a part that the page was watched in half is shown by the half
    inside = np.clip(edges, days[0], days[-1])
    up_to = expected_up_to(name, days, updated, inside)
    expected = None
    if up_to is not None:
        whole = np.diff(inside) / np.diff(edges)
        expected = np.divide(np.diff(up_to), whole, out=np.full(parts, np.nan), where=whole > 0)
    found = np.histogram(days[updated], edges)[0].tolist()
    return PeriodRates(name, edges, expected, found)


def period_json(period: PeriodRates) -> dict[str, Any]:
    """Return the period as JSON; what is not known is None."""
    return {
        "from": _iso(period.edges[0]),
        "to": _iso(period.edges[-1]),
        "estimator": period.estimator,
        "rate_per_day": _mean(period),
        "updates_found": sum(period.found),
        "parts": [
            {
                "from": _iso(start),
                "to": _iso(end),
                "rate_per_day": rate,
                "updates_found": found,
            }
            for start, end, rate, found in zip(
                period.edges[:-1], period.edges[1:], period.rates, period.found, strict=True
            )
        ],
    }


def period_summary(period: PeriodRates) -> str:
    """Return in a sentence what the period's rate was."""
    start, end = _iso(period.edges[0])[:10], _iso(period.edges[-1])[:10]
    number = counted(sum(period.found), "visit")
    if period.expected is None:
        return (
            f"{start} to {end}: {number} found an update; a rate of a period takes {MIN_POINTS} of "
            "them among the visits kept"
        )
    mean = f"{_mean(period):.4g} a day, by {period.estimator}"
    return f"{start} to {end}: {mean}; {number} found an update"


def period_bars(period: PeriodRates, width: int) -> Iterator[str]:
    """Yield a line with a bar for each part's rate, shorter in a narrow terminal."""
    if period.expected is None:
        return
    highest = max(rate or 0.0 for rate in period.rates)
    longest = max(min(BAR, width - _BESIDE_BAR), 1)
    for start, rate, found in zip(period.edges[:-1], period.rates, period.found, strict=True):
        when = _iso(start)[:10]
        if rate is None:
            yield f"    {when}  not watched"
            continue
        bar = "#" * round(longest * rate / highest) if highest > 0 else ""
        yield f"    {when}  {rate:8.3g} a day  {bar}{f'  {found}' if found else ''}".rstrip()


def _mean(period: PeriodRates) -> float | None:
    if period.expected is None or np.isnan(period.expected).all():
        return None
    watched_days = np.diff(period.edges)[~np.isnan(period.expected)].sum()
    return float(np.nansum(period.expected) / watched_days)


def _iso(day: float) -> str:
    return iso_text(round(float(day) * DAY))
