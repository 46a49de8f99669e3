"""The store in this process's memory, for simulations: it ends with them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hacs_crawler.state.codec import VERSION_OFFSET
from hacs_crawler.state.outcome_log import OUTCOME, Outcomes
from hacs_crawler.state.rows import ROW, UNKNOWN_ROW
from hacs_crawler.state.store import Annotation, Change, Ids, Rows, Store

BATCH = 10_000


class MemoryStore(Store):
    """Keeps pages' bytes in a dict and their ranking rows in one array."""

    def __init__(self) -> None:
        self._bodies: dict[int, bytes] = {}
        self._places: dict[int, int] = {}
        self._rows: Rows = np.zeros(16, ROW)
        self._outcomes: list[bytes] = []
        self._annotations: dict[str, dict[int, bytes]] = {}
        self._meta: dict[str, str] = {}
        self._order = self._sorted_ids = np.zeros(0, np.int64)

    def copy(self) -> MemoryStore:
        """Return a store with the same contents that shares nothing with this store."""
        other = MemoryStore()
        other._bodies, other._places = self._bodies.copy(), self._places.copy()
        other._rows, other._meta = self._rows.copy(), self._meta.copy()
        other._outcomes = self._outcomes[:]
        other._annotations = {kind: kept.copy() for kind, kept in self._annotations.items()}
        return other

    def load(self, page_ids: Sequence[int]) -> dict[int, bytes]:
        return {page_id: self._bodies[page_id] for page_id in page_ids if page_id in self._bodies}

    def write(self, changes: Sequence[Change]) -> dict[int, bytes]:
        refused: dict[int, bytes] = {}
        for change in changes:
            present = self._bodies.get(change.page_id, b"")
            version = present[VERSION_OFFSET : VERSION_OFFSET + 4]
            if int.from_bytes(version, "little") != change.seen:
                refused[change.page_id] = present
                continue
            index = self._places.setdefault(change.page_id, len(self._places))
            if index == len(self._rows):
                self._rows = np.concatenate([self._rows, np.zeros(index, ROW)])
            self._bodies[change.page_id] = change.body
            self._rows[index] = np.frombuffer(change.row, ROW)[0]
            self._outcomes.append(change.outcomes)
        return refused

    def annotations(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        values = self._annotations.get(kind, {})
        return {key: values[key] for key in keys if key in values}

    def annotated(self, kind: str) -> Ids:
        return np.array(sorted(self._annotations.get(kind, ())), np.int64)

    def all_annotations(self, kind: str) -> Iterator[dict[int, bytes]]:
        if values := self._annotations.get(kind):
            yield values.copy()

    def annotate(self, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
        values = self._annotations.setdefault(kind, {})
        refused: dict[int, bytes] = {}
        for change in changes:
            if values.get(change.key, b"") != change.seen:
                refused[change.key] = values.get(change.key, b"")
            elif change.value:
                values[change.key] = change.value
            else:
                values.pop(change.key, None)
        return refused

    def rows(self, page_ids: Ids) -> Rows:
        if not self._places:
            return np.repeat(UNKNOWN_ROW, len(page_ids))
        if len(self._order) != len(self._places):
            ids = np.array(list(self._places), np.int64)
            self._order = np.argsort(ids)
            self._sorted_ids = ids[self._order]
        at = np.minimum(np.searchsorted(self._sorted_ids, page_ids), len(self._order) - 1)
        rows = self._rows[self._order[at]]
        rows[self._sorted_ids[at] != page_ids] = UNKNOWN_ROW
        return rows

    def all_rows(self, after: int | None = None) -> Iterator[tuple[Ids, Rows]]:
        ids = np.array(list(self._places), np.int64)
        first = 0 if after is None else self._places[after] + 1
        for start in range(first, len(ids), BATCH):
            stop = min(start + BATCH, len(ids))
            yield ids[start:stop], self._rows[start:stop].copy()

    def count(self) -> int:
        return len(self._bodies)

    def outcomes(self) -> Iterator[Outcomes]:
        yield np.frombuffer(b"".join(self._outcomes), OUTCOME)

    def add_outcomes(self, outcomes: Outcomes) -> None:
        self._outcomes.append(outcomes.tobytes())

    def trim_outcomes(self, before: int) -> None:
        parts = [part[part["at"] >= before].tobytes() for part in self.outcomes()]
        self._outcomes = parts

    def kinds(self) -> list[str]:
        return list(self._annotations)

    def notes(self) -> dict[str, Any]:
        return {key: json.loads(text) for key, text in self._meta.items()}

    def size_bytes(self) -> int:
        """Return how many bytes pages, rows, outcome records and annotations take."""
        annotations = (value for kept in self._annotations.values() for value in kept.values())
        parts = (*self._bodies.values(), *self._outcomes, *annotations)
        return sum(map(len, parts)) + self._rows.nbytes

    def read_meta(self, key: str) -> Any:
        return json.loads(self._meta.get(key, "null"))

    def write_meta(self, notes: Mapping[str, Any]) -> None:
        self._meta |= {key: json.dumps(value) for key, value in notes.items()}

    def swap_meta(self, key: str, seen: Any, value: Any) -> bool:
        is_there = bool(self.read_meta(key) == seen)
        if is_there:
            self.write_meta({key: value})
        return is_there

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
