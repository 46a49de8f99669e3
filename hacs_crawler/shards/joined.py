"""The states of shards, read as one."""

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import astuple, replace
from itertools import chain, compress
from typing import Any, Final, TypeVar, cast

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.exceptions import NoStateError, StateError
from hacs_crawler.state import (
    MOST_OUTCOMES,
    MOST_SHARDS,
    PRIOR_NOTES,
    Ids,
    Outcomes,
    Page,
    Recorded,
    Restored,
    Rows,
    Shard,
    SQLiteFile,
    State,
    Store,
    Visit,
    open_state,
    shard_of_page,
    shards_of,
    sorted_outcomes,
    sqlite_path,
)
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)
T = TypeVar("T", Page, Visit)


class JoinedStore:
    """Reads stores with disjoint pages as one; refuses methods that work on a single store."""

    # How to join the stores' results, by method.
    _joins: Final[dict[str, Callable[[Iterable[Any]], Any]]] = {
        "load": lambda found: dict(ChainMap(*found)),
        "annotations": lambda found: dict(ChainMap(*found)),
        "all_annotations": chain.from_iterable,
        "all_rows": chain.from_iterable,
        "count": sum,
        "size_bytes": max,  # all are in one file or server
        "read_meta": lambda found: next((one for one in found if one is not None), None),
        "write_meta": list,
        "close": list,
    }

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores

    def __getattr__(self, name: str) -> Callable[..., Any]:
        join = self._joins.get(name)
        if join is None:
            raise StateError("this works on one shard only: name it, as in -s HACS_SHARD=0/16")
        methods = [getattr(store, name) for store in self._stores]
        return lambda *given: join(method(*given) for method in methods)

    def rows(self, page_ids: Ids) -> Rows:
        """See `Store.rows`."""
        rows = self._stores[0].rows(page_ids).copy()
        for store in self._stores[1:]:
            places = np.flatnonzero(rows["site"] == 0)
            rows[places] = store.rows(page_ids[places])
        return rows

    def hold_notes(self) -> ExitStack:
        """See `Store.hold_notes`; one round trip per store."""
        with ExitStack() as held:
            for store in self._stores:
                held.enter_context(store.hold_notes())
            return held.pop_all()

    def add_outcomes(self, outcomes: Outcomes) -> None:
        """Add each record to the store that knows its page; distribute others by site."""
        holder = outcomes["site"] % len(self._stores)
        for number, store in enumerate(self._stores):
            holder[store.rows(outcomes["page_id"])["site"] > 0] = number
        for number in np.unique(holder).tolist():
            self._stores[number].add_outcomes(outcomes[holder == number])


class JoinedState(State):
    """The states of all shards as one; visits are recorded in their page's shard."""

    def __init__(self, states: Sequence[State], shards: Sequence[Shard]) -> None:
        store = cast(Store, JoinedStore([state.store for state in states]))
        super().__init__(store, states[0].estimation)
        self.states, self.shards = states, shards
        self.by_number = {shard.index: state for shard, state in zip(shards, states, strict=True)}

    def refit_prior(self) -> int:
        """Fit one prior to the pages of all shards, store it in each, and return the sample's size."""
        fitted = super().refit_prior()
        notes = {key: self.store.read_meta(key) for key in PRIOR_NOTES}
        self.store.write_meta({key: value for key, value in notes.items() if value is not None})
        for state in self.states:
            state.read_prior()
        return fitted

    def record(
        self, visits: Sequence[Visit], held: object = None, merges: object = ()
    ) -> list[Recorded]:
        """See `State.record`."""
        del held, merges
        return [
            recorded for state, some in self._by_state(visits) for recorded in state.record(some)
        ]

    def restore(self, pages: Iterable[Page]) -> Restored:
        """See `State.restore`."""
        done = [astuple(state.restore(some)) for state, some in self._by_state(pages)]
        return Restored(*map(sum, zip(*done, strict=True))) if done else Restored(0, 0, 0)

    def pages(self) -> Iterator[Page | None]:
        """See `State.pages`."""
        return chain.from_iterable(state.pages() for state in self.states)

    def outcomes(self) -> Outcomes:
        """Return the latest records of all shards, limited as in a single state."""
        outcomes = self.states[0].outcomes()
        for state in self.states[1:]:
            outcomes = sorted_outcomes([outcomes, state.outcomes()])[-MOST_OUTCOMES:]
        return outcomes

    def _by_state(self, entries: Iterable[T]) -> list[tuple[State, list[T]]]:
        """Group entries by state; all shards must be open."""
        by_state: dict[int, list[T]] = {}
        for entry in entries:
            by_state.setdefault(shard_of_page(entry.url, len(self.states)), []).append(entry)
        return [(self.by_number[number], some) for number, some in by_state.items()]


def open_shards(
    config: Config, count: int, *, reads_only: bool = True, creates: bool = False
) -> JoinedState | None:
    """Open the states of `count` shards as one; `close` it when done.

    Missing states are left out, or created if `creates`. Returns None if all are missing. Raises
    ConfigError, StateError.
    """
    states: dict[Shard, State] = {}
    with ExitStack() as stack:
        for shard in shards_of(count):
            arguments = replace(config, shard=shard).state_arguments
            with suppress(NoStateError):
                is_read = reads_only and not creates
                states[shard] = open_state(*arguments, reads_only=is_read, creates=creates)
                stack.callback(states[shard].close)
        joined = JoinedState(list(states.values()), list(states)) if states else None
        stack.pop_all()
    return joined


def found_shards(config: Config) -> list[int]:
    """Return the numbers of shards that a state has, none if it has pages outside of shards.

    On a server, a state has shards if the first shard exists. Raises StateError.
    """
    path = sqlite_path(config.state, config.base)
    if path is not None and not path.exists():
        return []
    has_pages = False
    with (
        suppress(NoStateError),
        closing(open_state(*config.state_arguments, reads_only=True)) as state,
    ):
        has_pages = state.store.count() > 0
    if path is None:
        from hacs_crawler.state.redis_connection import RedisServer  # noqa: PLC0415 - an extra

        possible = range(1, MOST_SHARDS + 1)
        firsts = [Shard(0, count).namespace(config.namespace) for count in possible]
        with closing(RedisServer(config.state)) as server:
            counts = [*compress(possible, server.have_states(firsts))]
    else:
        pattern = re.compile(rf"{re.escape(config.namespace)}\.\d+-(\d+)\.pages")
        # also reads the file if nothing can be written next to it
        with closing(SQLiteFile(path, reads_only=True)) as file:
            found = map(pattern.fullmatch, file.tables)
            counts = sorted({int(match[1]) for match in found if match})
    if counts and has_pages:
        msg = "Namespace %s has shards, too: the pages outside of them are read; --shards %d reads these"
        with closing(cast(State, open_shards(config, counts[-1]))) as shards:
            if shards.store.count():  # not only a plan
                logger.warning(msg, config.namespace, counts[-1])
    return [] if has_pages else counts


def states_in(state: State) -> Sequence[State]:
    """Return the joined states, or the only state."""
    return state.states if isinstance(state, JoinedState) else [state]


def state_of(state: State, url: str) -> State:
    """Return the state of a page's shard, or any of those read as one if the URL is not a page's."""
    if not isinstance(state, JoinedState):
        return state
    with suppress(ValueError, KeyError):
        return state.by_number[shard_of_page(url, state.shards[0].count)]
    return state.states[0]
