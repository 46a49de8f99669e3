"""What waits in the inner scheduler, as far as it can be known without taking it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from scrapy import Request


class Backlog:
    """Counts the requests that were given to the inner scheduler, by slot and priority.

    Requests that it had before, as of a resumed job, are not known.
    """

    def __init__(self) -> None:
        self._by_slot: dict[str, Counter[int]] = {}
        self._by_priority: Counter[int] = Counter()

    def add(self, request: Request, slot: str) -> None:
        """Note a request that the inner scheduler took."""
        self._by_slot.setdefault(slot, Counter())[request.priority] += 1
        self._by_priority[request.priority] += 1

    def remove(self, request: Request, slot: str) -> None:
        """Note a request that the inner scheduler gave back."""
        of_slot = self._by_slot.get(slot)
        if of_slot is None or not of_slot[request.priority]:
            return
        of_slot[request.priority] -= 1
        self._by_priority[request.priority] -= 1
        if not of_slot[request.priority]:
            del of_slot[request.priority]
        if not of_slot:
            del self._by_slot[slot]
        if not self._by_priority[request.priority]:
            del self._by_priority[request.priority]

    def highest(self) -> int | None:
        """Return the highest priority of all, None where nothing is known to wait."""
        return max(self._by_priority, default=None)

    def highest_in(self, slot: str) -> int | None:
        """Return the highest priority of a slot's requests, None where none is known to wait."""
        return max(self._by_slot.get(slot, ()), default=None)

    def has_outside(self, slots: Collection[str]) -> bool:
        """Whether any request waits for another slot than these."""
        here = sum(slot in self._by_slot for slot in slots)
        return len(self._by_slot) > here
