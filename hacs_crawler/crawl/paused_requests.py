"""Requests whose host wants to be left alone: they wait until it may be asked again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from scrapy import Request

from hacs_crawler.crawl.backoff import HostPauses


class PausedRequests:
    """Requests by their downloader slot, and in one in the order in which they came."""

    def __init__(self, pauses: HostPauses) -> None:
        self._pauses = pauses
        self._by_slot: dict[str, deque[Request]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_slot.values()))

    def may_ask(self, slot: str) -> bool:
        """Whether a host need not be left alone now."""
        return not (len(self._pauses) and self._pauses.holds(slot))

    def add(self, request: Request, slot: str) -> None:
        """Take a request whose host is to be left alone."""
        self._by_slot.setdefault(slot, deque()).append(request)

    def take(self, is_free: Callable[[str], bool]) -> tuple[Request, str] | None:
        """Return a request whose host may be asked again, with its slot, if that is free."""
        for slot, waiting in self._by_slot.items():
            if self.may_ask(slot) and is_free(slot):
                request = waiting.popleft()
                if not waiting:
                    del self._by_slot[slot]
                return request, slot
        return None

    def all(self) -> list[Request]:
        """Return the requests that wait."""
        return [request for waiting in self._by_slot.values() for request in waiting]

    def take_all(self) -> list[Request]:
        """Return the requests that wait, and forget them."""
        requests = self.all()
        self._by_slot.clear()
        return requests
