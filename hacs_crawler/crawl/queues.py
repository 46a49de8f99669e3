"""Requests that wait in the scheduler: for ranking, for a free slot, or for parts to admit them."""

import time
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from heapq import heappop, heappush
from itertools import chain, count
from typing import Final, TypeVar

from msgspec import Struct
from scrapy import Request

from hacs_crawler.crawl.meta import KEY, is_start, tag_of, take_added_mark
from hacs_crawler.crawl.part import LONGEST_WAIT_SECONDS
from hacs_crawler.crawl.scrapy_internals import Downloads
from hacs_crawler.ranking.selection import Chosen, Selection
from hacs_crawler.utils.loop import call_later

# The smallest chunk of seeds that is ranked at once if there is a budget; memory is O(budget).
LEAST_CHUNK: Final = 1_000
# How many requests are read ahead from `start()`; an endless one may need a callback to stop it.
MOST_AHEAD: Final = 2_000
# The shortest time after which `admit` is called again for a waiting request.
LEAST_SECONDS: Final = 0.01
T = TypeVar("T")
# The sort key of seeds: negated priority, place in the ranking, arrival.
Key = tuple[int, float, int]
# Stores a prediction in a seed, given the seed's index in its batch.
Mark = Callable[[Request, int], object]


class UnrankedSeeds:
    """Holds seeds until they are ranked.

    `selection` chooses among the seeds of one round; None if no seed was ranked in it.
    """

    def __init__(self, budget: int | None) -> None:
        self._budget = budget
        self._held: list[Request] = []
        self._page_ids: list[int] = []
        # The seeds that are being ranked.
        self.ranking: list[Request] = []
        self._has_tagged = False
        # Pages of ranked seeds that HACS added and the spider has not requested itself.
        self.added: set[int] = set()
        self.selection: Selection[Request] | None = None
        # Whether the held seeds come from a finite list, which can be ranked as a whole.
        self.ends_surely = False

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_chunk(self) -> bool:
        """Whether enough seeds are held to be ranked before more are read."""
        if self._budget:
            return len(self._held) >= max(self._budget, LEAST_CHUNK)
        return not self.ends_surely and len(self._held) >= MOST_AHEAD

    @property
    def most_ahead(self) -> int | None:
        """How many ranked seeds may wait before more are read; None if unlimited."""
        return None if self._budget or self.ends_surely else MOST_AHEAD

    @property
    def is_kept(self) -> bool:
        """Whether ranked seeds wait for what is left of the budget at the end."""
        return self.selection is not None and self.selection.waits

    def add(self, seed: Request, page_id: int) -> None:
        """Hold a seed of a page."""
        self._held.append(seed)
        self._page_ids.append(page_id)
        self._has_tagged = self._has_tagged or KEY in seed.meta

    def passes_filter(self, seed: Request, page_id: int) -> bool:
        """Whether a seed bypasses the duplicate filter when it arrives.

        Seeds that HACS added are filtered when they are ranked, as the spider may request the page
        until then. A later start request bypasses the filter, which has seen only HACS's seed.
        """
        is_first = page_id in self.added and is_start(seed)
        if is_first:
            self.added.remove(page_id)
        return is_first or (KEY in seed.meta and tag_of(seed).added)

    def all(self) -> list[Request]:
        """Return all seeds: ranked and kept, being ranked, and held."""
        ranked = [] if self.selection is None else self.selection.entries
        return [*ranked, *self.ranking, *self._held]

    def begin_ranking(
        self, is_filtered: Callable[[Request], bool]
    ) -> tuple[list[Request], list[int]]:
        """Return the held seeds, to be ranked until `end_ranking`, and their pages' ids.

        Seeds that HACS added are left out if filtered, or if the spider requests the page itself.
        """
        self.ranking, self._held = self._held, []
        page_ids, self._page_ids = self._page_ids, []
        if self._has_tagged:
            seeds = [*zip(self.ranking, page_ids, strict=True)]
            own = {page_id for seed, page_id in seeds if not tag_of(seed).added}
            seeds = [
                (seed, page_id)
                for seed, page_id in seeds
                # the filter applies even to requests with `dont_filter`: HACS requests a page once
                if not take_added_mark(seed)
                or not (page_id in own or is_filtered(seed.replace(dont_filter=False)))
            ]
            self.ranking, page_ids = [seed for seed, _ in seeds], [page_id for _, page_id in seeds]
            self.added.update(set(page_ids) - own)
        return self.ranking, page_ids

    def end_ranking(self, unranked: list[Request], page_ids: list[int]) -> None:
        """Hold the seeds again that could not be ranked."""
        self.ranking = []
        self._held[:0], self._page_ids[:0] = unranked, page_ids

    def begin_round(self) -> None:
        """Renew the budget."""
        self.selection = None
        self.added.clear()

    def take(self, *, is_last: bool) -> tuple[Chosen[Request] | None, list[Request]]:
        """Return the chosen seeds, and the seeds that the budget drops; see `Selection`."""
        return (None, []) if self.selection is None else self.selection.take(is_last=is_last)


class _Waiting(Struct, order=True, gc=False):
    """A seed that waits; the greatest is the best.

    The garbage collector does not track these objects, so their reference cycles leak without `clear`.
    """

    priority: int
    negated_order: float
    negated_arrival: int
    seed: Request
    first_arrival: int
    mark: Mark | None

    @property
    def key(self) -> Key:
        return -self.priority, -self.negated_order, -self.negated_arrival

    def marked(self) -> Request:
        if self.mark is not None:
            self.mark(self.seed, -self.negated_arrival - self.first_arrival)
        return self.seed


class SeedQueue:
    """Orders seeds by free downloader slots first, then by `Request.priority`, then by rank.

    A slot is free if no request waits in it. If none is free, the slot with the fewest waiting
    requests is next, as in Scrapy's own queue. Within a slot, the order is exact.
    """

    def __init__(self, downloads: Downloads, *, knows_all_given: bool = False) -> None:
        self._downloads = downloads
        self._knows_all_given = knows_all_given
        self._arrived = self._number = 0
        self._lines: dict[str, list[_Waiting]] = {}
        # heap of the best seed of each idle slot; entries may be outdated
        self._idle: list[tuple[Key, str]] = []
        # the slot of each request in progress, and their number by slot; kept while seeds wait
        self._slot_of: dict[Request, str] = {}
        self._under_way: Counter[str] = Counter()
        # number of requests in the inner scheduler, by slot and priority
        self._given: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._given_by_priority: Counter[int] = Counter()

    def __len__(self) -> int:
        return self._number

    def add(
        self, seeds: Sequence[Request], orders: Sequence[float], mark: Mark | None = None
    ) -> None:
        """Add seeds with their sort keys, lowest first; `take` will mark them."""
        self.update()
        first, changed = self._arrived, dict[str, list[_Waiting]]()
        for arrival, (seed, order) in enumerate(zip(seeds, orders, strict=True), first):
            slot = self._downloads.slot_of(seed)
            line = changed[slot] = self._lines.setdefault(slot, [])
            line.append(_Waiting(seed.priority, -order, -arrival, seed, first, mark))
        self._arrived += len(seeds)
        self._number += len(seeds)
        for slot, line in changed.items():
            line.sort()
            self._offer(slot)

    def add_one(self, seed: Request, order: float) -> None:
        """Add a seed that is marked already."""
        self.update()
        slot = self._downloads.slot_of(seed)
        waiting = _Waiting(seed.priority, -order, -self._arrived, seed, self._arrived, None)
        insort(self._lines.setdefault(slot, []), waiting)
        self._arrived += 1
        self._number += 1
        self._offer(slot)

    def on_sent(self, request: Request, slot: str) -> None:
        """Count a request that is about to be sent."""
        if self._number and request not in self._slot_of:
            self._slot_of[request] = slot
            self._under_way[slot] += 1

    def on_enqueued(self, request: Request, slot: str) -> None:
        """Count a request that the inner scheduler took."""
        self._given[slot][request.priority] += 1
        self._given_by_priority[request.priority] += 1

    def on_dequeued(self, request: Request, slot: str) -> None:
        """Count a request that the inner scheduler gave back."""
        given, priority = self._given.get(slot), request.priority
        if given is not None and priority in given:
            _decrease(given, priority)
            _decrease(self._given_by_priority, priority)
            if not given:
                del self._given[slot]

    def best(self, left_out: Collection[str] = ()) -> tuple[str, Key, int] | None:
        """Return the slot of the next seed, its sort key, and how many seeds wait in the slot.

        Slots in `left_out` are skipped.
        """
        if not self._number:
            return None
        self.update()
        chosen = self._best_idle(left_out)
        for slot, number in self._under_way.items():
            line = self._lines.get(slot)
            if line is None or slot in left_out:
                continue
            if chosen is None or chosen[2] or chosen[1] < line[-1]:
                waiting = self._downloads.waiting_in(slot, number)
                if chosen is None or (chosen[2], line[-1]) > (waiting, chosen[1]):
                    chosen = slot, line[-1], waiting
        return None if chosen is None else (chosen[0], chosen[1].key, chosen[2])

    def is_for_follow_ups(self, slot: str, key: Key, waiting: int) -> bool:
        """Whether the inner scheduler comes before the seed that `best` returned.

        It does not if the seed has a higher priority than all follow-ups, or than those for its
        slot; nor if the seed's slot is free and all follow-ups are for busy slots.
        """
        if not self._given:  # it may still have requests of an earlier job, or of other crawls
            return not self._knows_all_given
        priority, here = -key[0], self._given.get(slot)
        if priority > max(self._given_by_priority) or (here and priority > max(here)):
            return False
        busy = sum(slot in self._given for slot in self.busy_slots())
        return bool(waiting) or len(self._given) > busy

    def is_before(self, request: Request, slot: str) -> bool:
        """Whether a seed for a slot has more priority than a request for it."""
        return slot in self._lines and self._lines[slot][-1].priority > request.priority

    def take(self, slot: str) -> Request:
        """Remove and return the best seed of a slot, which is about to be sent."""
        line = self._lines[slot]
        seed = line.pop().marked()
        if not line:
            del self._lines[slot]
        self.on_sent(seed, slot)
        self._number -= 1
        return seed

    def is_free(self, slot: str) -> bool:
        """Whether no request waits in a slot."""
        number = self._under_way.get(slot)
        return not number or not self._downloads.waiting_in(slot, number)

    def busy_slots(self) -> list[str]:
        """Return the slots in which requests wait."""
        self.update()
        return [slot for slot in self._under_way if not self.is_free(slot)]

    def all(self) -> list[Request]:
        """Return the waiting seeds, unmarked, best first."""
        everything = sorted(chain.from_iterable(self._lines.values()), reverse=True)
        return [waiting.seed for waiting in everything]

    def clear(self) -> None:
        """Drop all seeds: the garbage collector would never free them (see `_Waiting`)."""
        self._lines.clear()
        self._idle.clear()
        self._number = 0

    def update(self) -> None:
        """Free the slots whose requests have ended."""
        active = self._downloads.active
        if not self._number:
            self._slot_of = {request: self._downloads.slot_of(request) for request in active}
            self._under_way = Counter(self._slot_of.values())
            return
        for request in self._slot_of.keys() - active:
            slot = self._slot_of.pop(request)
            if _decrease(self._under_way, slot):
                self._offer(slot)

    def _best_idle(self, left_out: Collection[str]) -> tuple[str, _Waiting, int] | None:
        """Return the best seed of the idle slots, with its slot and the number 0."""
        chosen: tuple[str, _Waiting, int] | None = None
        passed_over: list[tuple[Key, str]] = []
        while self._idle and chosen is None:
            key, slot = self._idle[0]
            line = self._lines.get(slot)
            if line is None or slot in self._under_way or line[-1].key != key:
                heappop(self._idle)
            elif slot in left_out:
                passed_over.append(heappop(self._idle))
            else:
                chosen = slot, line[-1], 0
        for entry in passed_over:
            heappush(self._idle, entry)
        return chosen

    def _offer(self, slot: str) -> None:
        line = self._lines.get(slot)
        if line is not None and slot not in self._under_way:
            heappush(self._idle, (line[-1].key, slot))


class WaitingRequests:
    """Waiting requests by downloader slot, then by priority, then by order of arrival.

    If `admit` makes one request wait, its whole slot waits; `wake` is called when the time is over,
    and then `admit` again.
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
        """The slots that have to wait now."""
        if self._until:
            now = self._clock()
            self._until = {slot: until for slot, until in self._until.items() if until > now}
        return self._until

    def may_send(self, request: Request, slot: str) -> bool:
        """Whether a request may be sent now, or has to be given up, which the sender does."""
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
        """Return a request that may be sent now, and its slot, if the slot is free."""
        for slot, waiting in self._by_slot.items():
            if is_free(slot) and self.may_send(waiting[0][2], slot):
                request = heappop(waiting)[2]
                if not waiting:
                    del self._by_slot[slot]
                return request, slot
        return None

    def take_all(self) -> list[Request]:
        """Remove and return all requests."""
        lines, self._by_slot = self._by_slot.values(), {}
        return [request for line in lines for _, _, request in sorted(line)]


def _decrease(counts: Counter[T], key: T) -> bool:
    """Decrease a count; return whether it is now 0."""
    counts[key] -= 1
    if counts[key]:
        return False
    del counts[key]
    return True
