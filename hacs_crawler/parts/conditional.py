"""HACS_CONDITIONAL_REQUESTS: requests known pages with If-None-Match or If-Modified-Since.

With "auto", control visits find out which hosts' 304s can be trusted.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import numpy as np
from scrapy import Request
from scrapy.http import Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart, SecondVisits
from hacs_crawler.crawl.observation import NOT_MODIFIED
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import Recorded, State, Visit, change_annotations, source_id
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

KIND: Final = "conditional"
# How many 304s of a host are checked by control visits, as the allowance permits.
CHECKS: Final = 3
_VERSION: Final = 1
CONTRADICTED: Final = 255


class ConditionalRequests(CrawlPart):
    """Sends conditional requests, and keeps, by host, whether control visits confirmed its 304s."""

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._is_auto = crawl.config.conditional_requests == "auto"
        self._control_visits = SecondVisits(crawl)
        self._confirmed: dict[int, int] = {}
        self._is_checked: set[int] = set()

    async def before_request(self, request: Request, page_url: str | None) -> None:
        """Make the request conditional, once the page has been read."""
        if page_url is None:
            return
        if self._is_auto and not await self._is_trusted(request.url):
            return
        await self._crawl.state.read_ahead.ready(page_url)
        page = self._crawl.state.write_behind.page(page_url)
        if page is None or not page.visits:
            return
        page = page.sound  # validators of doubtful visits may belong to another document
        conditions = (("If-None-Match", page.etag), ("If-Modified-Since", page.last_modified))
        for header, value in conditions:
            if value:
                request.headers.setdefault(header, value.encode("latin-1", "ignore"))

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Check some 304s by unconditional requests."""
        is_304 = observed.response.status == NOT_MODIFIED and not observed.reason
        if self._is_auto and is_304 and self._wants_check(observed.request.url):
            url = observed.request.url

            async def judge(second: Recorded, _response: Response) -> None:
                await self._keep_result(url, was_right=not second.updated)
                if second.updated:
                    self._crawl.stats.count("controls/contradicted")
                else:
                    self._crawl.stats.count("controls/confirmed")

            self._crawl.parts.tell(Part.chosen, np.zeros(0), twice=1)
            self._control_visits.begin(observed.request, observed.recorded, judge)
        return ()

    def busy(self) -> bool:
        """Whether a check is in progress."""
        return self._control_visits.under_way > 0

    async def _is_trusted(self, url: str) -> bool:
        """Whether no 304 of the page's host was ever wrong."""
        key = source_id(urlsplit(url).netloc)
        if key not in self._confirmed:
            try:
                self._confirmed[key] = await self._crawl.state.once(confirmed, key)
            except StateError:
                return False
        return self._confirmed[key] != CONTRADICTED

    def _wants_check(self, url: str) -> bool:
        """Whether to check a 304 of that page: one per host and run, until enough are confirmed."""
        key = source_id(urlsplit(url).netloc)
        if self._crawl.quota.controls < 1 or key in self._is_checked:
            return False
        if self._confirmed.get(key, 0) >= CHECKS:
            return False
        self._is_checked.add(key)
        return True

    async def _keep_result(self, url: str, *, was_right: bool) -> None:
        """Keep the result of a check."""
        host = urlsplit(url).netloc
        key = source_id(host)
        if not was_right:
            logger.info(
                "%s answered 304 for %s, which had new links: its pages get no more conditions",
                host,
                url,
            )
            self._confirmed[key] = CONTRADICTED
        try:
            self._confirmed[key] = await self._crawl.state.once(
                keep_judgement, key, was_right=was_right
            )
        except StateError as error:
            logger.warning("What the 304s of %s showed could not be written: %s", host, error)


def confirmed(state: State, key: int) -> int:
    """Return how many 304s of a host were confirmed, `CONTRADICTED` if any was wrong."""
    return _decoded(state.store.annotations(KIND, [key]).get(key, b""))


def keep_judgement(state: State, key: int, *, was_right: bool) -> int:
    """Keep the result of a check of a host, and return the new value of `confirmed`."""

    def judged(_: int, now: bytes) -> bytes:
        confirmed_before = _decoded(now)
        if confirmed_before != CONTRADICTED:
            confirmed_before = min(confirmed_before + 1, CHECKS) if was_right else CONTRADICTED
        return bytes([_VERSION, confirmed_before])

    change_annotations(state.store, KIND, [key], judged)
    return confirmed(state, key)


def _decoded(body: bytes) -> int:
    return body[1] if len(body) == 2 and body[0] == _VERSION else 0
