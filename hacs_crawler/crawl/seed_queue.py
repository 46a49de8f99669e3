"""Ranked start requests that wait to be sent: the best first, among hosts with a free slot."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count

from scrapy import Request

from hacs_crawler.crawl.scrapy_internals import Downloads

Key = tuple[int, float, int]
"""What orders seeds, the least first: priority (negated), place in the ranking, arrival."""
_Entry = tuple[Key, Request]


class SeedQueue:
    """Gives seeds by the free slots of the downloader, by `Request.priority`, and by rank.

    A slot is free while no request waits for its turn in it. Where none is, the slot in which fewest
    wait is next, as Scrapy's own queue chooses. Within a slot the order is exact.
    """

    def __init__(self, downloads: Downloads) -> None:
        self._downloads = downloads
        self._arrivals = count()
        self._number = 0
        # by slot, the best last
        self._seeds: dict[str, list[_Entry]] = {}
        # the best of each slot in which nothing is under way; entries may be outdated
        self._idle: list[tuple[Key, str]] = []
        self._under_way: dict[str, list[Request]] = {}

    def __len__(self) -> int:
        return self._number

    def add(self, seeds: Iterable[Request], orders: Iterable[float]) -> None:
        """Take seeds with their places in the ranking: the lower, the sooner."""
        changed: set[str] = set()
        for seed, order in zip(seeds, orders, strict=True):
            slot = self._downloads.slot_of(seed)
            key = (-seed.priority, order, next(self._arrivals))
            self._seeds.setdefault(slot, []).append((key, seed))
            changed.add(slot)
            self._number += 1
        for slot in changed:
            self._seeds[slot].sort(key=_key, reverse=True)
            self._offer(slot)

    def add_one(self, seed: Request, order: float) -> None:
        """Take one seed."""
        slot = self._downloads.slot_of(seed)
        entries = self._seeds.setdefault(slot, [])
        insort(entries, ((-seed.priority, order, next(self._arrivals)), seed), key=_backwards)
        self._number += 1
        self._offer(slot)

    def note_sent(self, request: Request, slot: str) -> None:
        """Note that a request from elsewhere is about to be under way."""
        requests = self._under_way.setdefault(slot, [])
        if request not in requests:
            requests.append(request)

    def best(self, may_ask: Callable[[str], bool] | None = None) -> tuple[str, Key, int] | None:
        """Return the slot of the next seed, what orders that, and how many wait in the slot.

        `may_ask` leaves out slots that are to be left alone.
        """
        if not self._number:
            return None
        self.forget_ended()
        chosen: tuple[int, Key, str] | None = None
        left_out: list[tuple[Key, str]] = []
        while self._idle:
            key, slot = self._idle[0]
            entries = self._seeds.get(slot)
            if slot in self._under_way or not entries or entries[-1][0] != key:
                heappop(self._idle)
            elif may_ask is not None and not may_ask(slot):
                left_out.append(heappop(self._idle))
            else:
                chosen = (0, key, slot)
                break
        for entry in left_out:
            heappush(self._idle, entry)
        for slot, requests in self._under_way.items():
            entries = self._seeds.get(slot)
            if not entries or (may_ask is not None and not may_ask(slot)):
                continue
            waiting = self._downloads.waiting_in(slot, len(requests))
            found = (waiting, entries[-1][0], slot)
            if chosen is None or found < chosen:
                chosen = found
        return None if chosen is None else (chosen[2], chosen[1], chosen[0])

    def priority_in(self, slot: str) -> int | None:
        """Return the highest priority of the seeds that wait for a slot, None if there are none."""
        entries = self._seeds.get(slot)
        return -entries[-1][0][0] if entries else None

    def take(self, slot: str) -> Request:
        """Return the best seed of a slot, which is about to be under way, and forget it."""
        entries = self._seeds[slot]
        _, seed = entries.pop()
        if not entries:
            del self._seeds[slot]
        self._number -= 1
        self.note_sent(seed, slot)
        return seed

    def is_free(self, slot: str) -> bool:
        """Whether no request waits for its turn in a slot."""
        requests = self._under_way.get(slot)
        return requests is None or not self._downloads.waiting_in(slot, len(requests))

    def busy_slots(self) -> list[str]:
        """Return the slots in which requests wait for their turn."""
        self.forget_ended()
        return [slot for slot in self._under_way if not self.is_free(slot)]

    def all(self) -> list[Request]:
        """Return the seeds that wait, best first."""
        entries = [entry for some in self._seeds.values() for entry in some]
        return [seed for _, seed in sorted(entries, key=_key)]

    def clear(self) -> None:
        """Forget all seeds."""
        self._seeds.clear()
        self._idle.clear()
        self._number = 0

    def forget_ended(self) -> None:
        """Forget requests that are no longer under way, so that their slots are free again."""
        active = self._downloads.active
        for slot in list(self._under_way):
            left = [request for request in self._under_way[slot] if request in active]
            if left:
                self._under_way[slot] = left
            else:
                del self._under_way[slot]
                self._offer(slot)

    def _offer(self, slot: str) -> None:
        entries = self._seeds.get(slot)
        if entries and slot not in self._under_way:
            heappush(self._idle, (entries[-1][0], slot))


def _key(entry: _Entry) -> Key:
    return entry[0]


def _backwards(entry: _Entry) -> tuple[float, ...]:
    return tuple(-part for part in entry[0])
