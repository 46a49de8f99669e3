"""What the middlewares share that hold requests to a host back when it asks for that."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response


class HostPausedError(Exception):
    """The request waited in the downloader when its host asked to be left alone."""


def retry_after(response: Response, now: float) -> float | None:
    """Return how many seconds from `now` (since 1970) Retry-After asks for, None if there is none."""
    text = (response.headers.get(b"Retry-After") or b"").decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        return parsedate_to_datetime(text).timestamp() - now
    except (ValueError, OverflowError):
        return None


def recall(crawler: Crawler, slot_key: str, is_meant: Callable[[Request], bool]) -> None:
    """Take requests out of a slot's queue in the downloader before they are sent.

    Each ends with a HostPausedError, which the middleware's `process_exception` is to answer.
    """
    assert crawler.engine is not None  # noqa: S101 - there is one while crawling
    slot = crawler.engine.downloader.slots.get(slot_key)
    if slot is None:
        return
    for waiting in [one for one in slot.queue if is_meant(one[0])]:
        slot.queue.remove(waiting)
        waiting[1].errback(HostPausedError(waiting[0].url))


def is_closing(crawler: Crawler) -> bool:
    """Whether the crawl is closing; what is still asked for would keep it from ever ending."""
    assert crawler.engine is not None  # noqa: S101 - there is one while crawling
    slot = crawler.engine._slot  # noqa: SLF001 - Scrapy says so nowhere else
    return slot is None or slot.closing is not None
