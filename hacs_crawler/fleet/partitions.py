"""What one crawl may ask now, and what it has under way; only used in the event loop."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable

from scrapy import Request
from scrapy.crawler import Crawler

from hacs_crawler.fleet.board import PARTITIONS


class Holdings:
    """The partitions of a crawl. One that is of no fleet may ask all hosts, and so may others."""

    def __init__(self) -> None:
        self._partitions: frozenset[int] = frozenset(range(PARTITIONS))
        self.is_of_fleet = False
        """Whether nobody else has these partitions."""
        self.life = 0
        """Another number each time that a lease ran out: what was taken before is others' now."""
        self.may_send: Callable[[], bool] = lambda: True
        self.settle: Callable[[], None] = lambda: None
        """Has the shared queue told what has ended, so that nobody gets it with the partition."""
        self._has_begun = False
        self._under_way: Counter[int] = Counter()

    @classmethod
    def of(cls, crawler: Crawler) -> Holdings:
        """Return the crawler's holdings, made when first asked for."""
        holdings: Holdings | None = getattr(crawler, "hacs_holdings", None)
        if holdings is None:
            holdings = cls()
            crawler.hacs_holdings = holdings  # type: ignore[attr-defined]
        return holdings

    @property
    def partitions(self) -> frozenset[int]:
        """Those in which something may be begun; once set, the crawl is of a fleet."""
        return self._partitions

    @partitions.setter
    def partitions(self, partitions: frozenset[int]) -> None:
        self._partitions = partitions
        self.is_of_fleet = True

    def begin(self, partition: int) -> None:
        """Note that something of a partition waits or is under way in this process."""
        self._under_way[partition] += 1
        self._has_begun = True

    def end(self, partition: int) -> None:
        """Note that it has ended."""
        self._under_way[partition] -= 1
        if not self._under_way[partition]:
            del self._under_way[partition]

    def take_has_begun(self) -> bool:
        """Return whether anything was begun since this was asked last."""
        has_begun, self._has_begun = self._has_begun, False
        return has_begun

    def follow(self, request: Request, partition: int) -> None:
        """Note that a request is under way until Scrapy has let go of it, however that ends."""
        self.begin(partition)
        weakref.finalize(request, self.end, partition).atexit = False

    def busy(self) -> frozenset[int]:
        """Return the partitions in which something waits or is under way in this process."""
        self.settle()
        return frozenset(self._under_way)
