"""Ranked start requests that wait to be sent: the best first, among hosts with a free slot."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from scrapy import Request

from hacs_crawler.crawl.scrapy_internals import Downloads

Key = tuple[int, float, int]
"""What orders seeds, the least first: priority (negated), place in the ranking, arrival."""


@dataclass(slots=True)
class _SlotQueue:
    """The seeds that wait for one slot, the best last.

    Two lists: a tuple a seed would have Python's garbage collector look at each again and again.
    """

    keys: list[Key] = field(default_factory=list)
    seeds: list[Request] = field(default_factory=list)

    def sort(self) -> None:
        places = sorted(range(len(self.keys)), key=self.keys.__getitem__, reverse=True)
        self.keys = [self.keys[place] for place in places]
        self.seeds = [self.seeds[place] for place in places]

    def insert(self, key: Key, seed: Request) -> None:
        place = bisect_left(self.keys, _reversed(key), key=_reversed)
        self.keys.insert(place, key)
        self.seeds.insert(place, seed)


class SeedQueue:
    """Gives seeds by the free slots of the downloader, by `Request.priority`, and by rank.

    A slot is free while no request waits for its turn in it. Where none is, the slot in which fewest
    wait is next, as Scrapy's own queue chooses. Within a slot the order is exact.
    """

    def __init__(self, downloads: Downloads) -> None:
        self._downloads = downloads
        self._arrivals = count()
        self._number = 0
        self._lines: dict[str, _SlotQueue] = {}
        # the best of each slot in which nothing is under way; entries may be outdated
        self._idle: list[tuple[Key, str]] = []
        self._under_way: dict[str, list[Request]] = {}

    def __len__(self) -> int:
        return self._number

    def add(self, seeds: Sequence[Request], orders: Sequence[float]) -> None:
        """Take seeds with their places in the ranking: the lower, the sooner."""
        changed: dict[str, _SlotQueue] = {}
        slot_of, arrivals = self._downloads.slot_of, self._arrivals
        for seed, order in zip(seeds, orders, strict=True):
            slot = slot_of(seed)
            line = changed.get(slot)
            if line is None:
                line = changed[slot] = self._lines.setdefault(slot, _SlotQueue())
            line.keys.append((-seed.priority, order, next(arrivals)))
            line.seeds.append(seed)
        self._number += len(seeds)
        for slot, line in changed.items():
            line.sort()
            self._offer(slot)

    def add_one(self, seed: Request, order: float) -> None:
        """Take one seed."""
        slot = self._downloads.slot_of(seed)
        line = self._lines.setdefault(slot, _SlotQueue())
        line.insert((-seed.priority, order, next(self._arrivals)), seed)
        self._number += 1
        self._offer(slot)

    def note_sent(self, request: Request, slot: str) -> None:
        """Note that a request from elsewhere is about to be under way."""
        requests = self._under_way.setdefault(slot, [])
        if request not in requests:
            requests.append(request)

    def best(self, left_out: Collection[str] = ()) -> tuple[str, Key, int] | None:
        """Return the slot of the next seed, what orders that, and how many wait in the slot.

        Slots that are `left_out` are none.
        """
        if not self._number:
            return None
        self.forget_ended()
        chosen: tuple[int, Key, str] | None = None
        passed_over: list[tuple[Key, str]] = []
        while self._idle:
            key, slot = self._idle[0]
            line = self._lines.get(slot)
            if slot in self._under_way or line is None or line.keys[-1] != key:
                heappop(self._idle)
            elif slot in left_out:
                passed_over.append(heappop(self._idle))
            else:
                chosen = (0, key, slot)
                break
        for entry in passed_over:
            heappush(self._idle, entry)
        for slot, requests in self._under_way.items():
            line = self._lines.get(slot)
            if line is None or slot in left_out:
                continue
            waiting = self._downloads.waiting_in(slot, len(requests))
            found = (waiting, line.keys[-1], slot)
            if chosen is None or found < chosen:
                chosen = found
        return None if chosen is None else (chosen[2], chosen[1], chosen[0])

    def priority_in(self, slot: str) -> int | None:
        """Return the highest priority of the seeds that wait for a slot, None if there are none."""
        line = self._lines.get(slot)
        return None if line is None else -line.keys[-1][0]

    def take(self, slot: str) -> Request:
        """Return the best seed of a slot, which is about to be under way, and forget it."""
        line = self._lines[slot]
        line.keys.pop()
        seed = line.seeds.pop()
        if not line.seeds:
            del self._lines[slot]
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
        everything = _SlotQueue()
        for line in self._lines.values():
            everything.keys += line.keys
            everything.seeds += line.seeds
        everything.sort()
        return everything.seeds[::-1]

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
        line = self._lines.get(slot)
        if line is not None and slot not in self._under_way:
            heappush(self._idle, (line.keys[-1], slot))


def _reversed(key: Key) -> tuple[float, ...]:
    return tuple(-part for part in key)
