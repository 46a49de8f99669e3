"""What a state has learned of the parts of links that change with every request, by host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from hacs_crawler.links import LinkPart, VolatileLinkParts
from hacs_crawler.state.database import State
from hacs_crawler.state.store import change_note, read_note

NOTE: Final = "varying"
MOST_HOSTS: Final = 10_000
"""They are read as a whole when a crawl opens the state; of more hosts nothing is learned."""


class _StoredParts(Struct):
    parts: list[tuple[str, str]]
    suspected: list[tuple[str, str, int]]


def read_volatile_parts(state: State) -> dict[str, VolatileLinkParts]:
    """Return the volatile parts of each host; raises StateError if the note of them is damaged."""
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
    """Compare two fetches of a page (see `VolatileLinkParts.learned`), and write its host's parts."""
    found = VolatileLinkParts(host)

    def learned(notes: dict[str, _StoredParts] | None) -> Any:
        nonlocal found
        known = _decoded(notes)
        before = known.get(host, VolatileLinkParts(host))
        found = before.learned(first, second, is_known)
        if found != before and (host in known or len(known) < MOST_HOSTS):
            known[host] = found
        return _encoded(known)

    change_note(state.store, NOTE, dict[str, _StoredParts], learned)
    return found


def forget_volatile_parts(state: State, host: str) -> VolatileLinkParts | None:
    """Forget a host's volatile parts, so that all its links count; return them, None for none.

    That nothing is left out is kept, so that what other hosts have is not left out either.
    """
    found = read_volatile_parts(state).get(host)

    def forgotten(notes: dict[str, _StoredParts] | None) -> Any:
        known = _decoded(notes)
        known[host] = VolatileLinkParts(host)
        return _encoded(known)

    change_note(state.store, NOTE, dict[str, _StoredParts], forgotten)
    return found


def _encoded(known: Mapping[str, VolatileLinkParts]) -> Any:
    return {host: parts.to_json() for host, parts in known.items()} or None
