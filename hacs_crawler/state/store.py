"""The store protocol: what SQLite and Redis keep; the notes, kept as JSON; and the schema version.

To a store, pages are bytes that it need not understand.
"""

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
# How often a change is tried if other processes keep changing the same value.
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
    """A new value for a page or a site, to be written if the store still has `seen`.

    `key` is a page id or a site id; an empty `seen` stands for no value, an empty `value` removes.
    """

    key: int
    seen: bytes
    value: bytes


class Store(Protocol):
    """Keeps pages by 64-bit id. Used from one thread at a time; any method may raise StateError."""

    def load(self, page_ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bytes of the known pages, in one round trip."""

    def write(self, changes: Sequence[Change]) -> dict[int, bytes]:
        """Write every change whose page is still at the version seen, in one round trip.

        Returns the present bytes of the pages that were not written because another process wrote them
        (empty bytes if the page is gone from the store). Each page is written whole, with its row
        and its outcome records, or not at all. A page id occurs at most once in a call.
        """

    def annotations(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        """Return the annotations of a kind by key, in one round trip; unknown keys are left out."""

    def annotated(self, kind: str) -> Ids:
        """Return every key with an annotation of that kind, ascending."""

    def all_annotations(self, kind: str) -> Iterator[dict[int, bytes]]:
        """Stream the annotations of a kind, in batches, in no particular order."""

    def annotate(self, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
        """Make every change whose key still has the value seen, in one round trip.

        Returns the present values of the keys that another process changed first (empty bytes if it
        removed the value). A key occurs at most once in a call.
        """

    def rows(self, page_ids: Ids) -> Rows:
        """Return ranking rows (dtype `rows.ROW`) in the order asked; zeros for unknown pages."""

    def all_rows(self, after: int | None = None) -> Iterator[tuple[Ids, Rows]]:
        """Stream the ids and ranking rows of every page, in batches.

        The order of the batches is the same each time; pages within a batch are in no order. `after`,
        the last id of a batch, starts the stream with the next batch. Pages that are added meanwhile may
        be missed.
        """

    def count(self) -> int:
        """Return how many pages are known."""

    def outcomes(self) -> Iterator[Outcomes]:
        """Stream the outcome records, in no particular order; there may be duplicates."""

    def add_outcomes(self, outcomes: Outcomes) -> None:
        """Add outcome records from another state."""

    def trim_outcomes(self, before: int) -> None:
        """Delete the outcome records of visits before that second since 1970 UTC."""

    def read_meta(self, key: str) -> Any:
        """Return the JSON value kept under `key`, or None."""

    def hold_notes(self) -> ExitStack:
        """Read all notes in one round trip; `read_meta` returns these until the stack is closed.

        They include notes written through this store meanwhile. A local store does nothing.
        """
        return ExitStack()

    def write_meta(self, notes: Mapping[str, Any]) -> None:
        """Write JSON values under their keys, all or none, in one round trip."""

    def swap_meta(self, key: str, seen: Any, value: Any) -> bool:
        """Write a JSON value under `key` if the value seen is still there; return whether it was."""

    def kinds(self) -> list[str]:
        """Return the kinds of annotations in the store."""

    def notes(self) -> dict[str, Any]:
        """Return every JSON value kept, by key."""

    def size_bytes(self) -> int:
        """Return the store's size in bytes, on disk or in the server's memory."""

    def try_to_write(self) -> None:
        """Write a note and remove it; raises StateError if the store cannot be written to."""

    def risks(self) -> Iterator[tuple[str, str]]:
        """Yield each danger of losing pages, and its remedy."""

    def close(self) -> None:
        """Release the connection; the store is not used afterwards."""


def read_note(store: Store, key: str, kind: type[T]) -> T | None:
    """Return the note kept under `key`, a value of that type, or None.

    Raises StateError that names the note if it has another type.
    """
    return _converted(store.read_meta(key), key, kind)


def change_note(store: Store, key: str, kind: type[T], change: Callable[[T | None], Any]) -> None:
    """Replace the note under `key` by the result of `change`, given the note at that moment.

    Concurrent changes are not lost: `change` is called again with the new value. Raises StateError as
    `read_note` does.
    """
    for _ in range(TRIES):
        seen = store.read_meta(key)
        value = change(_converted(seen, key, kind))
        if value == seen or store.swap_meta(key, seen, value):
            return
    raise _busy(f"the note {key!r}")


def change_annotations(
    store: Store, kind: str, keys: Iterable[int], change: Callable[[int, bytes], bytes]
) -> set[int]:
    """Replace the value under each key by the result of `change`, given the value at that moment.

    Returns the keys whose value changed. Concurrent changes are not lost: `change` is called again with
    the new value.
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
    raise _busy(f"an annotation of kind {kind!r}")


def _busy(what: str) -> StateError:
    return StateUnavailableError(f"{what} could not be changed: others changed it {TRIES} times")


def _converted(value: Any, key: str, kind: type[T]) -> T | None:
    if value is None:
        return None
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise StateError(f"the note {key!r} in the state is damaged, remove it: {error}") from error


def note(key: str, text: str | bytes) -> Any:
    """Return the value of a note's JSON text; raises ValueError that names the note."""
    try:
        value = json.loads(text)
        # fails for a lone surrogate
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"the note {key!r} is damaged, remove it: {error}") from error
    return value


# Version of tables or keys, page bytes and ranking rows; CONTRIBUTING.md says when it changes.
SCHEMA: Final = 1


def check_schema(schema: int, address: str) -> None:
    """Raise StateError if the state at that place is of a newer version."""
    if schema > SCHEMA:
        raise StateError(
            f"the state in {address} has schema {schema}, newer than the {SCHEMA} that this version of "
            f"hacs-crawler knows: upgrade hacs-crawler or use another HACS_STATE or HACS_NAMESPACE"
        )


def refuse_other(address: str, what: str) -> NoReturn:
    """Raise StateError for a state that is no longer the state that was opened."""
    raise StateError(
        f"the state in {address} {what} while it was in use; restore a backup of it, or run the command "
        f"again to go on without it"
    )
