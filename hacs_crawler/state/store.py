"""The store protocol: keeps pages, as bytes that the store need not understand.

It also has the version of a store's contents, and the notes that it keeps as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.state.outcome_log import Outcomes

Ids = NDArray[np.int64]
Rows = NDArray[np.void]
T = TypeVar("T")
# How often a change is retried because other processes changed the same value meanwhile.
TRIES: Final = 100


class Change(Struct, frozen=True):
    """A page's new bytes, to be written if the store still has version `seen` of it (0: no page).

    `outcomes` are outcome records (dtype `OUTCOME`) of the visits that are written with it.
    """

    page_id: int
    seen: int
    body: bytes
    row: bytes
    outcomes: bytes = b""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A new value for a page or a site, kept in addition to its row, if the store still has `seen`.

    `key` is a page id or a site id; an empty `seen` stands for no value, an empty `value` removes.
    """

    key: int
    seen: bytes
    value: bytes


class Store(Protocol):
    """Keeps pages by 64-bit id. Used from one thread at a time; any method may raise StateError."""

    def load(self, page_ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bytes of those pages that are known, in one round trip."""

    def write(self, changes: Sequence[Change]) -> dict[int, bytes]:
        """Write every change whose page is still at the version seen, in one round trip.

        Returns the present bytes of the pages that were not written because another process did
        (empty bytes if the page is gone from the store). Each page is written whole, with its row
        and its outcome records, or not at all. A page id occurs at most once in a call.
        """

    def annotations(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        """Return the annotations of a kind under these keys, in one round trip.

        Keys under which nothing is kept are left out.
        """

    def annotated(self, kind: str) -> Ids:
        """Return every key under which something is kept by that kind, ascending."""

    def all_annotations(self, kind: str) -> Iterator[dict[int, bytes]]:
        """Stream the annotations of a kind, in batches, in no particular order."""

    def annotate(self, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
        """Make every change whose key still has the value seen, in one round trip.

        Returns the values of the keys whose changes were not made because another process changed
        them first (empty bytes if it is gone). A key occurs at most once in a call.
        """

    def rows(self, page_ids: Ids) -> Rows:
        """Return ranking rows (dtype `rows.ROW`) in the order asked; zeros for unknown pages."""

    def all_rows(self, after: int | None = None) -> Iterator[tuple[Ids, Rows]]:
        """Stream the ids and ranking rows of every page, in batches.

        The order of the batches is the store's own and the same each time; pages within a batch are in
        no order. `after` is the last id of a batch: then the batches behind it are streamed. Pages that
        are added meanwhile may be missed.
        """

    def count(self) -> int:
        """Return how many pages are known."""

    def outcomes(self) -> Iterator[Outcomes]:
        """Stream the outcome records, in no particular order; a record may come twice."""

    def add_outcomes(self, outcomes: Outcomes) -> None:
        """Keep outcome records that another state held."""

    def trim_outcomes(self, before: int) -> None:
        """Forget the outcome records of visits before that second since 1970 UTC."""

    def read_meta(self, key: str) -> Any:
        """Return the JSON value kept under `key`, or None."""

    def hold_notes(self) -> ExitStack:
        """Read all notes in one round trip; `read_meta` returns these until the stack is closed.

        What is written through this store meanwhile is among them. A store that is near does nothing.
        """
        return ExitStack()

    def write_meta(self, notes: Mapping[str, Any]) -> None:
        """Keep JSON values under their keys, all or none, in one round trip."""

    def swap_meta(self, key: str, seen: Any, value: Any) -> bool:
        """Keep a JSON value under `key` if the value seen is still there; return whether it was."""

    def kinds(self) -> list[str]:
        """Return the kinds of annotations that there are."""

    def notes(self) -> dict[str, Any]:
        """Return every JSON value kept, by key."""

    def size_bytes(self) -> int:
        """Return how many bytes the store takes, of disk or of the server's memory."""

    def try_to_write(self) -> None:
        """Write a note and take it back; raises StateError if the store takes no writes."""

    def risks(self) -> Iterator[tuple[str, str]]:
        """Yield what loses pages, or may lose them, and what to do about it."""

    def close(self) -> None:
        """Release the connection; the store is not used afterwards."""


def read_note(store: Store, key: str, kind: type[T], remedy: str = "remove it") -> T | None:
    """Return the note kept under `key`, a value of that type, or None.

    Raises StateError that names the note, and the remedy, if it holds anything else.
    """
    return _converted(store.read_meta(key), key, kind, remedy)


def change_note(store: Store, key: str, kind: type[T], change: Callable[[T | None], Any]) -> None:
    """Replace the note under `key` by the result of `change`, given the note at that moment.

    If several processes change a note concurrently, each is given the others' writes. Raises
    StateError as `read_note` does.
    """
    for _ in range(TRIES):
        seen = store.read_meta(key)
        value = change(_converted(seen, key, kind, "remove it"))
        if value == seen or store.swap_meta(key, seen, value):
            return
    raise _busy(f"the note {key!r}")


def change_annotations(
    store: Store, kind: str, keys: Iterable[int], change: Callable[[int, bytes], bytes]
) -> set[int]:
    """Replace the value under each key by the result of `change`, given the value at that moment.

    Returns the keys whose value changed. If several processes change a value
    concurrently, each is given the others' writes.
    """
    waiting, changed = list(keys), set[int]()
    for _ in range(TRIES):
        seen = store.annotations(kind, waiting)
        pairs = ((key, seen.get(key, b"")) for key in waiting)
        new = [Annotation(key, before, change(key, before)) for key, before in pairs]
        new = [annotation for annotation in new if annotation.value != annotation.seen]
        waiting = list(store.annotate(kind, new))
        changed |= {annotation.key for annotation in new} - {*waiting}
        if not waiting:
            return changed
    raise _busy(f"the annotations of kind {kind!r}")


def _busy(what: str) -> StateError:
    return StateUnavailableError(f"{what} was changed by others {TRIES} times while being changed")


def _converted(value: Any, key: str, kind: type[T], remedy: str) -> T | None:
    if value is None:
        return None
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        msg = f"the note {key!r} in the state is damaged, {remedy}: {error}"
        raise StateError(msg) from error


def note(key: str, text: str | bytes) -> Any:
    """Return the value of a note that a store holds as JSON; raises ValueError that names it."""
    try:
        value = json.loads(text)
        # a lone surrogate is in no text
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        msg = f"the note {key!r} is damaged, remove it: {error}"
        raise ValueError(msg) from error
    return value


# Version of tables or keys, page bytes, ranking rows; see CONTRIBUTING.md for what makes a new one.
SCHEMA: Final = 1


def check_schema(schema: int, address: str) -> None:
    """Raise StateError if the state at that place is of a newer version."""
    if schema > SCHEMA:
        msg = (
            f"the state in {address} has schema {schema}, newer than the {SCHEMA} that this version of "
            f"hacs-crawler knows: upgrade hacs-crawler or use another HACS_STATE or HACS_NAMESPACE"
        )
        raise StateError(msg)


def refuse_other(address: str, what: str) -> NoReturn:
    """Raise StateError for a state that is no longer the state that was opened."""
    raise StateError(
        f"the state in {address} {what} while it was in use; restore a backup of it, or start again to "
        f"begin anew"
    )
