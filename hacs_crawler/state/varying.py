"""What a state has learned of the parts of links that change with every request, by host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from hacs_crawler.links import LinkPart, Varying
from hacs_crawler.state.database import State
from hacs_crawler.state.store import change_note, read_note

NOTE: Final = "varying"
MOST_HOSTS: Final = 10_000
"""They are read as a whole when a crawl opens the state; of more hosts nothing is learned."""


class _VaryingNote(Struct):
    parts: list[tuple[str, str]]
    suspected: list[tuple[str, str, int]]


def read_varying(state: State) -> dict[str, Varying]:
    """Return what is known of each host; raises StateError where the note of it is damaged."""
    return _decoded(read_note(state.store, NOTE, dict[str, _VaryingNote]))


def _decoded(notes: dict[str, _VaryingNote] | None) -> dict[str, Varying]:
    return {
        host: Varying(
            host,
            frozenset(LinkPart(*part) for part in one.parts),
            {LinkPart(folder, name): controls for folder, name, controls in one.suspected},
        )
        for host, one in (notes or {}).items()
    }


def learn_varying(
    state: State,
    host: str,
    first: Iterable[str],
    second: Iterable[str],
    is_known: Callable[[str], bool],
) -> Varying:
    """Compare two fetches of a page (see `Varying.learned`), and keep what that tells of its host."""
    found = Varying(host)

    def learned(notes: dict[str, _VaryingNote] | None) -> Any:
        nonlocal found
        known = _decoded(notes)
        before = known.get(host, Varying(host))
        found = before.learned(first, second, is_known)
        if found != before and (host in known or len(known) < MOST_HOSTS):
            known[host] = found
        return _encoded(known)

    change_note(state.store, NOTE, dict[str, _VaryingNote], learned)
    return found


def forget_varying(state: State, host: str) -> Varying | None:
    """Leave nothing out of a host's links any more; return what was known, None for nothing."""
    found = read_varying(state).get(host)

    def forgotten(notes: dict[str, _VaryingNote] | None) -> Any:
        known = _decoded(notes)
        known.pop(host, None)
        return _encoded(known)

    if found is not None:
        change_note(state.store, NOTE, dict[str, _VaryingNote], forgotten)
    return found


def _encoded(known: Mapping[str, Varying]) -> Any:
    return {host: one.to_json() for host, one in known.items()} or None
