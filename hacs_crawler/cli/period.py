"""The rates of one page over a period, as text and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from hacs_crawler.archive import parse_day
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
    def rates(self) -> FloatArray | None:
        """The rate of each part, in 1/day."""
        return None if self.expected is None else self.expected / np.diff(self.edges)

    @property
    def watched_days(self) -> float:
        """How many days of the period have a rate."""
        if self.expected is None:
            return 0.0
        return float(np.diff(self.edges)[~np.isnan(self.expected)].sum())


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
    rates = period.rates
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
                "rate_per_day": None
                if rates is None or math.isnan(rates[at])
                else float(rates[at]),
                "updates_found": found,
            }
            for at, (start, end, found) in enumerate(
                zip(period.edges[:-1], period.edges[1:], period.found, strict=True)
            )
        ],
    }


def period_summary(period: PeriodRates) -> str:
    """Return in a sentence what the period's rate was."""
    start, end = _iso(period.edges[0])[:10], _iso(period.edges[-1])[:10]
    number = counted(sum(period.found), "visit")
    if period.rates is None:
        return (
            f"{start} to {end}: {number} found an update; a rate of a period takes {MIN_POINTS} of "
            "them among the visits kept"
        )
    mean = f"{_mean(period):.4g} a day, by {period.estimator}"
    return f"{start} to {end}: {mean}; {number} found an update"


def period_bars(period: PeriodRates, width: int) -> Iterator[str]:
    """Yield a line with a bar for each part's rate, shorter in a narrow terminal."""
    rates = period.rates
    if rates is None:
        return
    highest = float(np.nanmax(rates))
    longest = max(min(BAR, width - _BESIDE_BAR), 1)
    for at, found in enumerate(period.found):
        rate = float(rates[at])
        when = _iso(period.edges[at])[:10]
        if math.isnan(rate):
            yield f"    {when}  not watched"
            continue
        bar = "#" * round(longest * rate / highest) if highest > 0 else ""
        yield f"    {when}  {rate:8.3g} a day  {bar}{f'  {found}' if found else ''}".rstrip()


def _mean(period: PeriodRates) -> float | None:
    if period.expected is None or period.watched_days == 0:
        return None
    return float(np.nansum(period.expected) / period.watched_days)


def _iso(day: float) -> str:
    moment = datetime.fromtimestamp(round(float(day) * DAY), UTC)
    return moment.isoformat().replace("+00:00", "Z")
