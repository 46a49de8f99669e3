"""Moves the pages of an older state in Redis to where they belong (`state.moves`).

Pages may lie on different nodes, so that no transaction holds them together. Each step may be done a
second time: outcome records go first (of two that are the same, one counts), then the page is written
where it belongs, merged with what is there, and only then it is taken away where it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hacs_crawler.exceptions import StateError
from hacs_crawler.state.codec import decode_page, encode_page, encode_row, row_of
from hacs_crawler.state.moves import LEFT, id_of, joined, with_page
from hacs_crawler.state.redis_connection import RedisServer
from hacs_crawler.state.redis_scripts import TAKE_OUTCOMES, TAKE_PAGE
from hacs_crawler.state.store import Change
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

_PAGES_A_TRIP: Final = 1_000


@dataclass(frozen=True, slots=True)
class Mover:
    """Moves pages; `key_of` names the key of a page and a kind, `load` and `write` are the store's."""

    server: RedisServer
    key_of: Callable[[int, str], str]
    field_of: Callable[[int], bytes]
    load: Callable[[Sequence[int]], dict[int, bytes]]
    write: Callable[[Sequence[Change]], dict[int, bytes]]

    def bring_up_to_date(self, buckets: range) -> int:
        """Move the pages of buckets, and make anew the ranking rows of those that stay.

        Returns how many belonged elsewhere.
        """
        with self.server.naming_errors("read"), self._pipeline() as pipe:
            for bucket in buckets:
                pipe.hgetall(self.key_of(bucket, "pages"))
            found = pipe.execute()
        bodies = {_id(field): body for bucket in found for field, body in bucket.items()}
        with self.server.naming_errors("write to"), self._pipeline() as pipe:
            for bucket, pages in zip(buckets, found, strict=True):
                if pages:
                    rows = {field: row_of(body) for field, body in pages.items()}
                    pipe.hset(self.key_of(bucket, "rows"), mapping=rows)
            pipe.execute()
        return self.move(bodies)

    def move(self, bodies: Mapping[int, bytes]) -> int:
        """Move those of these pages that belong elsewhere; return how many these are."""
        targets = {page_id: id_of(page_id, body) for page_id, body in bodies.items()}
        misplaced = [page_id for page_id, target in targets.items() if page_id != target]
        for start in range(0, len(misplaced), _PAGES_A_TRIP):
            some = misplaced[start : start + _PAGES_A_TRIP]
            self._move({one: bodies[one] for one in some}, targets)
        return len(misplaced)

    def _move(self, bodies: Mapping[int, bytes], targets: Mapping[int, int]) -> None:
        # what lies where one of these belongs may itself belong elsewhere
        self.move(self.load([*{targets[one] for one in bodies}]))
        self._move_outcomes({one: targets[one] for one in bodies})
        left = self._write(bodies, targets)
        with self.server.naming_errors("write to"), self._pipeline() as pipe:
            for page_id, body in bodies.items():
                if page_id not in left:
                    keys = [self.key_of(page_id, kind) for kind in ("pages", "rows")]
                    self.server.add_call(pipe, TAKE_PAGE, keys, self.field_of(page_id), body)
            pipe.execute()

    def _write(self, bodies: Mapping[int, bytes], targets: Mapping[int, int]) -> set[int]:
        """Write pages where they belong; return those for which that cannot be done."""
        pending: dict[int, list[int]] = defaultdict(list)
        for page_id in bodies:
            pending[targets[page_id]].append(page_id)
        present, left = self.load([*pending]), set[int]()
        while pending:
            changes = []
            for target, page_ids in pending.items():
                there = present.get(target, b"")
                try:
                    page = joined([one for one in (there, *map(bodies.get, page_ids)) if one])
                except StateError:
                    for page_id in page_ids:
                        logger.error(LEFT, page_id, self.server.shown)
                    left.update(page_ids)
                    continue
                seen = decode_page(there).version if there else 0
                page.version = seen + 1
                changes.append(Change(target, seen, encode_page(page), encode_row(page)))
            present = self.write(changes)
            pending = {target: pending[target] for target in present}
        return left

    def _move_outcomes(self, targets: Mapping[int, int]) -> None:
        by_key: dict[str, list[int]] = defaultdict(list)
        for page_id in targets:
            by_key[self.key_of(page_id, "outcomes")].append(page_id)
        with self.server.naming_errors("read"), self._pipeline() as pipe:
            for key in by_key:
                pipe.lrange(key, 0, -1)
            found = pipe.execute()
        fields = {self.field_of(page_id): target for page_id, target in targets.items()}
        with self.server.naming_errors("write to"), self._pipeline() as pipe:
            for record in (one for records in found for one in records):
                target = fields.get(record[:8])
                if target is not None:
                    pipe.rpush(self.key_of(target, "outcomes"), with_page(record, target))
            pipe.execute()
        with self.server.naming_errors("write to"), self._pipeline() as pipe:
            for key, page_ids in by_key.items():
                self.server.add_call(pipe, TAKE_OUTCOMES, [key], *map(self.field_of, page_ids))
            pipe.execute()

    def _pipeline(self) -> Any:
        return self.server.client.pipeline(transaction=False)


def _id(field: bytes) -> int:
    return int.from_bytes(field[:8].ljust(8, b"\0"), "little", signed=True)
