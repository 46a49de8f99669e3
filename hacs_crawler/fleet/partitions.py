"""What one crawl may ask now, and what it has under way; only used in the event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from scrapy import Request
from scrapy.crawler import Crawler

from hacs_crawler.fleet.board import PARTITIONS, partition_of


class Settle(Protocol):
    """Leaves to others what waits in a shared queue's part of a crawl."""

    def __call__(self, *, is_last: bool) -> bool:
        """Return whether that could be done; the last time what is lost by it is named."""


class Holdings:
    """The partitions of a crawl. One that is of no fleet may ask all hosts, and so may others."""

    def __init__(self) -> None:
        self._partitions: frozenset[int] = frozenset(range(PARTITIONS))
        self.is_of_fleet = False
        """Whether nobody else has these partitions."""
        self.lose: Callable[[Collection[Request]], None] = lambda _: None
        """Told, when a lease ran out, of the requests that waited here: they are others' now."""
        self.waiting: Callable[[], Sequence[Request]] = list
        """Returns requests whose host wants to be left alone: they wait here until it may be asked."""
        self.may_send: Callable[[], bool] = lambda: True
        self.busy: Callable[[], frozenset[int]] = frozenset
        """Returns the partitions of which the shared queue has something here. What has ended counts
        until its server knows, so that nobody gets it with the partition."""
        self.settle: Settle = _settled
        """Leaves to others what waits here, at the end of a fleet's crawl."""
        self._has_begun = False
        self._kept: Counter[int] = Counter()

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

    def left_alone(self) -> frozenset[int]:
        """Return the partitions of hosts that want to be left alone, of which a request waits here."""
        return frozenset(partition_of(request.url) for request in self.waiting())

    def note_begun(self) -> None:
        """Note that something waits here now, or is under way, which is no visit of the plan."""
        self._has_begun = True

    def keep(self, partition: int) -> None:
        """Note that a host of a partition will be asked again by this crawl, soon."""
        self._kept[partition] += 1

    def let_go(self, partition: int) -> None:
        """Note that one of the requests for which a partition was kept has ended."""
        self._kept[partition] -= 1

    def kept(self) -> frozenset[int]:
        """Return the partitions that are kept."""
        return frozenset(partition for partition, number in self._kept.items() if number > 0)

    def take_has_begun(self) -> bool:
        """Return whether anything was begun since this was asked last."""
        has_begun, self._has_begun = self._has_begun, False
        return has_begun


def _settled(*, is_last: bool) -> bool:
    del is_last
    return True


def under_way(crawler: Crawler) -> set[Request]:
    """Return the requests that Scrapy's engine has taken from its scheduler and is not done with.

    Each is with the downloader, or with the scraper until all that its callback yields is dealt with;
    between the two, and between scheduler and downloader, it is handed over in one step.
    """
    engine = crawler.engine
    assert engine is not None  # noqa: S101 - there is one while crawling
    slot = engine.scraper.slot
    return engine.downloader.active | (slot.active if slot is not None else set())
