"""Hosts that want to be left alone for a while, and how long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from scrapy.http import Response

LONGEST_WAIT_SECONDS: Final = 120.0
"""A host that asks for more is not asked again for that long: its requests are given up."""


class HostPausedError(Exception):
    """The request waited in the downloader when its host asked to be left alone."""


class HostPauses:
    """Until when each host, by its downloader slot, wants to be left alone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def pause(self, slot: str, seconds: float) -> None:
        """Leave a host alone for so long, or for longer if that was asked before."""
        self._until[slot] = max(self._until.get(slot, 0.0), self._clock() + seconds)

    def seconds_left(self, slot: str) -> float:
        """Return for how long a host is to be left alone from now, 0 if it may be asked."""
        until = self._until.get(slot)
        if until is None:
            return 0.0
        left = until - self._clock()
        if left <= 0.0:
            del self._until[slot]
        return max(0.0, left)

    def holds(self, slot: str) -> bool:
        """Whether requests to a host wait; those to one that asked for too long are given up."""
        return 0.0 < self.seconds_left(slot) <= LONGEST_WAIT_SECONDS


def retry_after(response: Response, now: float) -> float | None:
    """Return how many seconds from `now` (since 1970) Retry-After asks for, None if there is none."""
    text = (response.headers.get(b"Retry-After") or b"").decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        until = parsedate_to_datetime(text)
        if (
            until.tzinfo is None
        ):  # as in the oldest form of an HTTP date, which is UTC (RFC 9110, 5.6.7)
            until = until.replace(tzinfo=UTC)
        return until.timestamp() - now
    except (ValueError, OverflowError):
        return None
