"""What a source of signals shows: pages, and when each last changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.times import DAY, MAX_SECOND


class SignalError(HacsError):
    """A source of signals cannot be read; the message says why."""


@dataclass(slots=True)
class Listing:
    """What one file of a source shows: pages, and the second since 1970 UTC of each one's last signal.

    `files` are further files that it names. `unread` is how many of its entries could not be used:
    without a time or with one that cannot be, or of pages of other hosts.
    """

    pages: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    unread: int = 0

    def add(self, url: str, second: int | None) -> None:
        """Add an entry; of several for one page the latest counts."""
        if second is None:
            self.unread += 1
        else:
            self.pages[url] = max(second, self.pages.get(url, 0))


def second_of(text: str, now: int) -> int | None:
    """Return the second since 1970 UTC of a time in ISO 8601; None for what can be no signal.

    A day stands for its end: the page may have changed at any time of it. What lies more than a day
    after `now` is wrong.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    try:
        second = int(found.timestamp())
    except (OverflowError, ValueError):
        return None
    if _is_day(text.strip()):
        second += DAY - 1
    return second if 0 < second <= min(now + DAY, MAX_SECOND) else None


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
