"""What a state has learned of the parts of links that change with every request, by host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from hacs_crawler.links import LinkPart, Varying
from hacs_crawler.state.database import State
from hacs_crawler.state.store import read_note

NOTE: Final = "varying"
MOST_HOSTS: Final = 10_000
"""They are read as a whole when a crawl opens the state; of more hosts nothing is learned."""


class _VaryingNote(Struct):
    parts: list[tuple[str, str]]
    suspected: list[tuple[str, str, int]]


def read_varying(state: State) -> dict[str, Varying]:
    """Return what is known of each host; raises StateError where the note of it is damaged."""
    kept = read_note(state.store, NOTE, dict[str, _VaryingNote]) or {}
    return {
        host: Varying(
            host,
            frozenset(LinkPart(*part) for part in one.parts),
            {LinkPart(folder, name): controls for folder, name, controls in one.suspected},
        )
        for host, one in kept.items()
    }


def learn_varying(
    state: State,
    host: str,
    first: Iterable[str],
    second: Iterable[str],
    is_known: Callable[[str], bool],
) -> Varying:
    """Compare two fetches of a page (see `Varying.learned`), and keep what that tells of its host."""
    known = read_varying(state)
    before = known.get(host, Varying(host))
    after = before.learned(first, second, is_known)
    if after != before and (host in known or len(known) < MOST_HOSTS):
        _write(state, {**known, host: after})
    return after


def forget_varying(state: State, host: str) -> Varying | None:
    """Leave nothing out of a host's links any more; return what was known, None for nothing."""
    known = read_varying(state)
    found = known.pop(host, None)
    if found is not None:
        _write(state, known)
    return found


def _write(state: State, known: Mapping[str, Varying]) -> None:
    state.store.write_meta(NOTE, {host: one.to_json() for host, one in known.items()})
