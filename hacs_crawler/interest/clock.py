"""Moments as days or hours of a time zone's clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hacs_crawler.exceptions import HacsError

_HOUR: Final = 3600
_QUARTER: Final = 900
EARLIEST_HOUR: Final = 24 * 9131
"""1995: what is dated before is a wrong clock."""


def zone_named(name: str) -> tzinfo:
    """Return a time zone by its name, such as Europe/Berlin; raises HacsError where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise HacsError(
            f"time zone {name!r}: allowed is a name such as UTC or Europe/Berlin"
        ) from (error)


def hours_by(zone: tzinfo) -> Callable[[float], int]:
    """Return what gives the hour, since 1970 by the clock of a zone, of a moment in seconds UTC."""

    @lru_cache(maxsize=65_536)  # offsets of zones are multiples of a quarter of an hour
    def by_quarter(quarter: int) -> int:
        local = datetime.fromtimestamp(quarter * _QUARTER, zone).replace(tzinfo=UTC)
        return int(local.timestamp()) // _HOUR

    return lambda moment: by_quarter(int(moment // _QUARTER))
