"""At what pace each host of an archive is asked: a downloader slot for its index, one for mementos.

Archives that share a host share its slots, at the slower of their rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest

from hacs_crawler.archive import ArchiveAddress
from hacs_crawler.crawl.scrapy_internals import Downloads

CDX_SLOT: Final = "hacs-cdx"
MEMENTO_SLOT: Final = "hacs-mementos"
REQUESTS_AT_ONCE: Final[Mapping[str, int]] = {CDX_SLOT: 4, MEMENTO_SLOT: 8}
LEAST_DELAY_SECONDS: Final = 0.001
"""Not 0: Scrapy then sends a burst without regard to the slot's concurrency."""


class GivenUpError(IgnoreRequest):
    """A host was left alone so often, or asks for so long, that it is not asked again in this run."""


def slots_of(host: str) -> dict[str, str]:
    """Return the names of a host's slots, by kind."""
    return {kind: f"{kind} {host}" for kind in REQUESTS_AT_ONCE}


class Pace:
    """Plans the slots in which an archive's requests wait, each before its first request."""

    def __init__(self, crawler: Crawler, address: ArchiveAddress) -> None:
        self._crawler = crawler
        self._per_minute = {
            CDX_SLOT: address.cdx_per_minute,
            MEMENTO_SLOT: address.mementos_per_minute,
        }
        self.slots: set[str] = set()

    def slot(self, kind: str, url: str) -> str:
        """Return the slot for a request of a kind."""
        slot = slots_of(urlsplit(url).netloc)[kind]
        if slot not in self.slots:
            per_minute = self._per_minute[kind]
            delay = 60.0 / per_minute if per_minute > 0 else LEAST_DELAY_SECONDS
            Downloads(self._crawler).plan(slot, delay, REQUESTS_AT_ONCE[kind])
            self.slots.add(slot)
        return slot
