"""The board on Redis, one server or a cluster: each step is one script, all keys are in one slot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar
from urllib.parse import quote

from hacs_crawler.exceptions import StateError
from hacs_crawler.fleet import redis_scripts
from hacs_crawler.fleet.board import (
    FORMAT,
    LEASE_SECONDS,
    PARTITIONS,
    PHASES,
    Change,
    Changed,
    Entry,
    View,
)
from hacs_crawler.state.redis_connection import RedisServer

T = TypeVar("T")
_LARGEST_CALL: Final = 1_000


class RedisBoard:
    """A board of the keys `<namespace>:{fleet.<fleet>}:…` of the state's server or cluster.

    Its time is that of the server, or of `clock` if one is given.
    """

    def __init__(
        self,
        url: str,
        namespace: str = "hacs",
        fleet: str = "fleet",
        *,
        lease_seconds: float = LEASE_SECONDS,
        partitions: int = PARTITIONS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.lease_seconds = lease_seconds
        self._server = RedisServer(url, "fleet's board")
        self._clock = clock
        self._partitions = partitions
        tag = f"{namespace}:{{fleet.{quote(fleet, safe='')}}}"
        self._keys = [f"{tag}:{name}" for name in redis_scripts.KEYS]

    def renew(
        self,
        worker: str,
        *,
        released: Iterable[int] = (),
        idle_since: int | None = None,
        was_busy: bool = False,
    ) -> View:
        """See `Board.renew`."""
        since = "" if idle_since is None else idle_since
        answer = self._step(redis_scripts.RENEW, worker, since, int(was_busy), *released)
        return View(
            is_new=bool(answer[0]),
            partitions=frozenset(answer[1]),
            share=answer[2],
            phase=_phase(answer[3]),
            round=answer[4],
            leader=answer[5].decode(errors="replace"),
            epoch=answer[6],
            is_over=bool(answer[7]),
            age_seconds=float(answer[8]),
            workers=answer[9],
            held=answer[10],
            waiting=answer[11],
            taken=answer[12],
            total=answer[13],
            done=answer[14],
            repeats=answer[15],
            lost=answer[16],
        )

    def begin(self, worker: str, *, anew: bool = False, above: int = 0) -> int:
        """See `Board.begin`."""
        return int(self._step(redis_scripts.BEGIN, worker, int(anew), above))

    def publish(
        self,
        worker: str,
        number: int,
        start: int,
        entries: Sequence[tuple[int, int, bytes]],
        *,
        may_go: Collection[int] = (),
        is_spare: bool = False,
    ) -> bool:
        """See `Board.publish`; in calls of a thousand."""
        for first in range(start, start + len(entries), _LARGEST_CALL):
            args: list[Any] = []
            some = entries[first - start : first - start + _LARGEST_CALL]
            for rank, (partition, page_id, request) in enumerate(some, first):
                body = page_id.to_bytes(8, "little", signed=True) + request
                args += (partition, int(rank in may_go), body)
            step = redis_scripts.PUBLISH
            if not self._step(step, worker, number, first, int(is_spare), *args):
                return False
        return True

    def note(self, worker: str, number: int, notes: Mapping[str, bytes]) -> bool:
        """See `Board.note`; in calls of a thousand."""
        for some in _pieces([*notes.items()]):
            if not self._step(redis_scripts.NOTE, worker, number, *chain.from_iterable(some)):
                return False
        return True

    def notes(self, worker: str, number: int, names: Sequence[str]) -> list[bytes | None]:
        """See `Board.notes`; in calls of a thousand."""
        found: list[bytes | None] = []
        for some in _pieces(names):
            found += self._step(redis_scripts.NOTES, worker, number, *some) or [None] * len(some)
        return found

    def open(self, worker: str, number: int, total: int, *, room: int | None = None) -> bool:
        """See `Board.open`."""
        more = -1 if room is None else room
        return bool(self._step(redis_scripts.OPEN, worker, number, total, more))

    def rank_anew(self, worker: str, number: int, changes: Sequence[Change]) -> Changed:
        """See `Board.rank_anew`; in calls of a thousand."""
        counts = [0, 0, 0, 0]
        for some in _pieces(changes):
            args: list[Any] = []
            for partition, rank, position, note in some:
                args += (f"{partition}:{rank}", "" if position is None else repr(position), note)
            answer = self._step(redis_scripts.RANK_ANEW, worker, number, *args)
            counts = [before + more for before, more in zip(counts, answer, strict=True)]
        return Changed(*counts)

    def take(self, worker: str, partitions: Iterable[int], most: int) -> list[Entry]:
        """See `Board.take`."""
        answer = self._step(redis_scripts.TAKE, worker, most, *partitions)
        return [_entry(*answer[place : place + 3]) for place in range(0, len(answer), 3)]

    def keep(self, worker: str, ranks: Iterable[int]) -> None:
        """See `Board.keep`."""
        self._step(redis_scripts.KEEP, worker, *ranks)

    def done(self, worker: str, number: int, entries: Sequence[Entry]) -> None:
        """See `Board.done`."""
        for first in range(0, len(entries), _LARGEST_CALL):
            some = entries[first : first + _LARGEST_CALL]
            names = [f"{entry.partition}:{entry.rank}" for entry in some]
            self._step(redis_scripts.DONE, worker, number, *names)

    def leave(self, worker: str) -> None:
        """See `Board.leave`."""
        self._step(redis_scripts.LEAVE, worker)

    def close(self) -> None:
        """See `Board.close`."""
        self._server.close()

    def _step(self, script: str, worker: str, *args: object) -> Any:
        now = "" if self._clock is None else repr(self._clock())
        common = (now, worker, self.lease_seconds, self._partitions, f"{FORMAT}/{self._partitions}")
        with self._server.naming_errors("use"):
            return self._server.call(redis_scripts.BEGINNING + script, self._keys, *common, *args)


def _pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), _LARGEST_CALL):
        yield items[first : first + _LARGEST_CALL]


def _phase(text: bytes) -> str:
    phase = text.decode(errors="replace")
    if phase not in PHASES:
        raise StateError(
            f"the fleet's board is in the phase {phase!r}, which is none: delete its keys"
        )
    return phase


def _entry(name: bytes, body: bytes, note: bytes) -> Entry:
    try:
        partition, rank = map(int, name.split(b":"))
    except ValueError as error:
        raise StateError(f"the fleet's board holds {name!r}, which is no entry") from error
    page_id = int.from_bytes(body[:8], "little", signed=True)
    return Entry(rank, partition, page_id, body[8:], note)
