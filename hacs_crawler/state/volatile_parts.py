"""The parts of links that change with every request, as learned for each host."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from hacs_crawler.links import LinkPart, VolatileLinkParts
from hacs_crawler.state.database import State
from hacs_crawler.state.store import change_note, read_note

NOTE: Final = "varying"
# Limit on the hosts: a crawl reads all of them when it opens the state.
MOST_HOSTS: Final = 10_000


class _StoredParts(Struct):
    parts: list[tuple[str, str]]
    suspected: list[tuple[str, str, int]]


def read_volatile_parts(state: State) -> dict[str, VolatileLinkParts]:
    """Return the volatile parts of each host; raises StateError if their note is damaged."""
    return _decoded(read_note(state.store, NOTE, dict[str, _StoredParts]))


def _decoded(notes: dict[str, _StoredParts] | None) -> dict[str, VolatileLinkParts]:
    return {
        host: VolatileLinkParts(
            host,
            frozenset(LinkPart(*part) for part in parts.parts),
            {LinkPart(folder, name): controls for folder, name, controls in parts.suspected},
        )
        for host, parts in (notes or {}).items()
    }


def learn_volatile_parts(
    state: State,
    host: str,
    first: Iterable[str],
    second: Iterable[str],
    is_known: Callable[[str], bool],
) -> VolatileLinkParts:
    """Learn from two fetches of a page (see `VolatileLinkParts.learned`); write and return the parts."""
    return _changed(state, host, lambda before: before.learned(first, second, is_known))[1]


def forget_volatile_parts(state: State, host: str) -> VolatileLinkParts:
    """Forget a host's volatile parts, so that its links count as a whole; return the forgotten parts.

    An empty entry is kept, so that parts learned on other hosts are not left out here.
    """
    return _changed(state, host, lambda _: VolatileLinkParts(host))[0]


def _changed(
    state: State, host: str, change: Callable[[VolatileLinkParts], VolatileLinkParts]
) -> tuple[VolatileLinkParts, VolatileLinkParts]:
    """Replace a host's parts by the result of `change`; return the parts before and after."""
    before = after = VolatileLinkParts(host)

    def changed(notes: dict[str, _StoredParts] | None) -> Any:
        nonlocal before, after
        by_host = _decoded(notes)
        before = by_host.get(host, VolatileLinkParts(host))
        after = change(before)
        if after is not before and (host in by_host or len(by_host) < MOST_HOSTS):
            by_host[host] = after
        return {name: parts.to_json() for name, parts in by_host.items()} or None

    change_note(state.store, NOTE, dict[str, _StoredParts], changed)
    return before, after
