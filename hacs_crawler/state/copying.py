"""Copying a state into an empty one: any store to any store, also to another number of shards.

During a copy, a note in the target keeps it from being opened as a state. A copy that was stopped can be
repeated: each step is idempotent.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import numpy as np

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import menu_id, page_id_of, site_id
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.database import PAGES_A_CALL, State
from hacs_crawler.state.page import Page
from hacs_crawler.state.rows import encode_row
from hacs_crawler.state.shards import shard_of_page
from hacs_crawler.state.store import Change, Store, change_annotations
from hacs_crawler.utils.times import MAX_SECOND

# Name of the note that marks an unfinished copy, and holds the name of its source.
COPYING: Final = "copying"
# Name of the note of an experiment, which is not copied; see `experiment.twins`.
TWINS: Final = "twins"
# Notes about one store, not about the pages.
_OWN: Final = frozenset({"schema", "identity", "round", COPYING, TWINS})


def refuse_filled(stores: Sequence[Store], source: str, target: str) -> None:
    """Raise StateError unless the stores are empty, or an unfinished copy of the same source."""
    for store in stores:
        if store.read_meta(COPYING) != source and (
            store.count() or any(len(part) for part in store.outcomes())
        ):
            raise StateError(f"{target} is not empty: copy to another address or HACS_NAMESPACE")


def copy_states(
    sources: Sequence[State],
    targets: Sequence[State],
    name: str,
    on_pages: Callable[[int], object] = lambda _: None,
) -> int:
    """Copy a state, given as its shards, into the empty shards of another; return the number of pages.

    `name` is the source's name, `on_pages` is called with the number of pages copied so far. The
    targets must not be opened until `finish_copy`. No crawl may write to the sources meanwhile. Raises
    StateError.
    """
    stores = [target.store for target in targets]
    for store in stores:
        store.write_meta({COPYING: name})
        # an earlier, stopped copy may have added some
        store.trim_outcomes(MAX_SECOND)
    number = 0
    for source in sources:
        shard_of: dict[int, int] = {}
        whole = (page for page in source.pages() if page is not None)
        while pages := list(islice(whole, PAGES_A_CALL)):
            parts: list[dict[int, Page]] = [{} for _ in targets]
            for page in pages:
                page_id = page_id_of(page.url)
                shard = shard_of_page(page.url, len(targets)) if len(targets) > 1 else 0
                parts[shard][page_id] = page
                # annotations are by page, site or group of pages: all are hashes
                if len(targets) > 1:
                    hashes = (page_id, site_id(page.url), menu_id(page.url))
                    shard_of |= dict.fromkeys(hashes, shard)
            for target, part in zip(targets, parts, strict=True):
                _write(target, part)
            number += len(pages)
            on_pages(number)
        outcomes = source.outcomes()
        places = np.array(
            [
                shard_of.get(page_id, site % len(targets))
                for page_id, site in zip(
                    outcomes["page_id"].tolist(), outcomes["site"].tolist(), strict=True
                )
            ],
            np.int64,
        )
        notes = source.store.notes()
        for shard, store in enumerate(stores):
            store.add_outcomes(outcomes[places == shard])
            store.write_meta({key: value for key, value in notes.items() if key not in _OWN})
        _copy_annotations(source.store, stores, shard_of)
    return number


def finish_copy(targets: Sequence[State]) -> None:
    """Remove the notes that mark the targets as unfinished copies."""
    for target in targets:
        target.store.write_meta({COPYING: None})


def _write(target: State, pages: dict[int, Page]) -> None:
    """Write pages as they are, over the pages of an earlier, stopped copy."""
    present = target.load(list(pages))
    changes = []
    for page_id, page in pages.items():
        seen = present[page_id].version if page_id in present else 0
        page.version = seen + 1
        changes.append(Change(page_id, seen, encode_page(page), encode_row(page)))
    if changes and target.store.write(changes):
        raise StateError("another process writes to the copy: stop it, and repeat the copy")


def _copy_annotations(source: Store, targets: Sequence[Store], shard_of: dict[int, int]) -> None:
    """Copy annotations to the shard of their page or site; to all shards if it is unknown."""
    for kind in source.kinds():
        for batch in source.all_annotations(kind):
            for shard, store in enumerate(targets):
                mine = [key for key in batch if shard_of.get(key, shard) == shard]
                change_annotations(store, kind, mine, lambda key, _, of=batch: of[key])  # type: ignore[misc]
