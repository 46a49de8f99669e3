"""Requests that parts do not let be sent yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from heapq import heappop, heappush
from itertools import count
from typing import Final

from scrapy import Request

from hacs_crawler.utils.loop import call_later

LONGEST_WAIT_SECONDS: Final = 120.0
"""A request that would have to wait longer is given up."""
LEAST_SECONDS: Final = 0.01
"""The least time after which a part that has a request wait is asked again."""


class PutBackError(Exception):
    """The request goes back to the scheduler, and waits there."""


class WaitingRequests:
    """Waiting requests by downloader slot, then by priority, then by order of arrival.

    If `admit` makes one request wait, all requests of its slot wait until `wake` is called for the
    slot; then `admit` is asked again.
    """

    def __init__(
        self,
        admit: Callable[[Request], float],
        wake: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admit = admit
        self._wake = wake
        self._clock = clock
        self._until: dict[str, float] = {}
        self._arrivals = count()
        self._by_slot: dict[str, list[tuple[int, int, Request]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_slot.values()))

    @property
    def slots(self) -> Collection[str]:
        """The slots whose requests wait now."""
        if self._until:
            now = self._clock()
            self._until = {slot: until for slot, until in self._until.items() if until > now}
        return self._until

    def may_send(self, request: Request, slot: str) -> bool:
        """Whether a request may be sent now, or is given up, which whoever sends it does."""
        if slot in self.slots:
            return False
        seconds = self._admit(request)
        if not 0.0 < seconds <= LONGEST_WAIT_SECONDS:
            return True
        seconds = max(LEAST_SECONDS, seconds)
        self._until[slot] = self._clock() + seconds
        call_later(seconds, self._wake)
        return False

    def keep(self, request: Request, slot: str) -> None:
        """Hold a request that may not be sent yet."""
        waiting = self._by_slot.setdefault(slot, [])
        heappush(waiting, (-request.priority, next(self._arrivals), request))

    def take(self, is_free: Callable[[str], bool]) -> tuple[Request, str] | None:
        """Return a request that may be sent now, with its slot, if that is free."""
        for slot, waiting in self._by_slot.items():
            if is_free(slot) and self.may_send(waiting[0][2], slot):
                request = heappop(waiting)[2]
                if not waiting:
                    del self._by_slot[slot]
                return request, slot
        return None

    def take_all(self) -> list[Request]:
        """Return the requests that wait, and forget them."""
        requests = [
            request for waiting in self._by_slot.values() for _, _, request in sorted(waiting)
        ]
        self._by_slot.clear()
        return requests
