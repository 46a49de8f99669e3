"""Duplicate filters of schedulers."""

from __future__ import annotations

from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler


def empty_filter(inner: BaseScheduler, crawler: Crawler) -> None:
    """Let a scheduler's filter forget the requests it has seen: in a new round they come again."""
    seen = getattr(inner, "df", None)
    if seen is None:
        return
    if hasattr(seen, "clear"):  # scrapy-redis
        seen.clear()
        return
    seen.close("round")
    inner.df = build_from_crawler(type(seen), crawler)  # type: ignore[attr-defined]
    inner.df.open()  # type: ignore[attr-defined]
