"""HACS_RETRY_AFTER: hosts that answer 429 or 503 are left alone for as long as they ask.

Scrapy retries such answers without regard to their Retry-After (scrapy/scrapy issue 3849). Web archives
as the spider `wayback` asks them are left to `ArchivePauseMiddleware`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.http import Response

from hacs_crawler.crawl.admission import PutBackError
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.scrapy_internals import Downloads
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import retry_after

logger = safe_logger(__name__)

STATUSES: Final = (429, 503)
DEFAULT_PAUSE_SECONDS: Final = 60.0
"""After a 429 that names no time."""


class HostPauses(Part):
    """Until when each host wants to be left alone.

    Not by downloader slot: a redirect keeps that of the host that it began with (scrapy issue 2141),
    and a spider's own may have requests for many hosts, or some of those for one.
    """

    required = True

    def __init__(self, crawl: Crawl, clock: Callable[[], float] = time.monotonic) -> None:
        self._downloads = Downloads(crawl.crawler)
        self._clock = clock
        self._until: dict[str, float] = {}
        # before a middleware sees a response, Scrapy has sent what waited for its turn behind it
        crawl.crawler.signals.connect(self.on_response, signals.response_downloaded)

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> HostPauses:
        """Return the part of a crawl."""
        return cls(crawl)

    def admit(self, request: Request) -> float:
        """Return for how many seconds from now a request's host wants to be left alone."""
        if not self._until or "hacs_archive" in request.meta:
            return 0.0
        host = _host(request)
        left = self._until.get(host, 0.0) - self._clock()
        if left <= 0.0:
            self._until.pop(host, None)
        return left

    def on_response(self, request: Request, response: Response) -> None:
        """Learn until when the host wants to be left alone, and recall what waits to be sent to it."""
        if response.status not in STATUSES or "hacs_archive" in request.meta:
            return
        seconds = retry_after(response.headers.get(b"Retry-After"), time.time())
        if seconds is None:
            seconds = DEFAULT_PAUSE_SECONDS if response.status == 429 else 0.0
        if seconds > 0:
            host = _host(response)  # a browser follows redirects by itself
            until = self._clock() + seconds
            self._until[host] = max(self._until.get(host, until), until)
            logger.info("%s answered %d: left alone for %.0f s", host, response.status, seconds)
            self._downloads.recall(lambda waiting: _host(waiting) == host, PutBackError())


def _host(found: Request | Response) -> str:
    return urlsplit(found.url).hostname or ""
