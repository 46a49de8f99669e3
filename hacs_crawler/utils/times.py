"""Times: seconds since 1970 UTC, ISO texts, and the range that a state can hold."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

DAY = 86_400
MAX_SECOND = 2**32 - 1
# Tolerance for differences between the clocks of machines.
SKEW_SECONDS = 300


def day_text(second: float) -> str:
    """Return a time's day, UTC: 2026-01-31."""
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%d}"


def minute_text(second: float) -> str:
    """Return a time to the minute, UTC: 2026-01-31 13:00."""
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%d %H:%M}"


def iso_text(second: float | None) -> str | None:
    """Return a time as 2026-01-31T13:00:00Z; None for None and 0."""
    return datetime.fromtimestamp(int(second), UTC).isoformat()[:-6] + "Z" if second else None


def in_range(time: datetime) -> int | None:
    """Return the second of a time (UTC without a zone), None if the state cannot hold it."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    second = int(time.timestamp())
    return second if 0 < second <= MAX_SECOND else None


def parse_iso(text: str) -> int | None:
    """Return the second of an ISO 8601 time, None if it is not a valid time."""
    try:
        return in_range(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def parse_http_date(text: str | None) -> int | None:
    """Return the second of an HTTP date, None if it is not a valid time."""
    try:
        return None if text is None else in_range(parsedate_to_datetime(text))
    except (ValueError, OverflowError):
        return None


def retry_after(header: bytes | None, now: float) -> float | None:
    """Return the wait in seconds that a Retry-After header asks for, None without a valid one."""
    text = (header or b"").decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    until = parse_http_date(text)
    return None if until is None else until - now
