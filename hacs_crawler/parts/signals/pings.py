"""A user's own signals: which page changed when, one a line."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from typing import Final

from hacs_crawler.links import check_url, page_id_of
from hacs_crawler.parts.signals.sitemap import SignalError, second_of
from hacs_crawler.utils.times import DAY

HEADERS: Final = {"url", "page", "loc"}
"""What may stand in the first line above the pages."""


def read_pings(lines: Iterable[str], name: str, now: int) -> Iterator[tuple[str, int]]:
    """Yield pages and seconds since 1970 UTC from lines `url,time`.

    A time is in ISO 8601 or in seconds; without one it is `now`. Empty lines, and a first line of names,
    are passed over. Raises SignalError that names the line.
    """
    rows = csv.reader(lines)
    try:
        for row in rows:
            if not row or not any(cell.strip() for cell in row):
                continue
            url, time = row[0].strip(), row[1].strip() if len(row) > 1 else ""
            if rows.line_num == 1 and url.lower() in HEADERS:
                continue
            place = f"{name}, line {rows.line_num}"
            problem = check_url(url)
            if problem is not None:
                raise SignalError(f"{place}: {url[:200]!r}: {problem}")
            second = _second(time, now)
            if second is None:
                raise SignalError(
                    f"{place}: {time[:100]!r}: must be a time in ISO 8601, or in seconds since 1970 "
                    "UTC, at most a day ahead"
                )
            page_id_of(url)
            yield url, second
    except csv.Error as error:
        raise SignalError(f"{name}, line {rows.line_num}: {error}") from error


def _second(text: str, now: int) -> int | None:
    if not text:
        return now
    try:
        seconds = float(text)
    except ValueError:
        return second_of(text, now)
    is_time = math.isfinite(seconds) and 0 < seconds <= now + DAY
    return int(seconds) if is_time else None
