"""The register of signal sources in the state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from hacs_crawler.state import Store, change_annotations, source_id, source_kind

# How many sites a source keeps whose pages it lists.
MOST_SITES: Final = 5_000


@dataclass(frozen=True, slots=True)
class SignalSource:
    """A host's sitemaps, or its feeds.

    `origin` is scheme and host. `tried` and `read` are the times of the last request and of the
    last answer, in seconds since 1970 UTC, 0 for never; `failures` counts consecutive failed
    requests. `files` are the files read last, each with its ETag and Last-Modified, or "". `sites`
    are the numbers of the sites whose pages they list.
    """

    origin: str
    tried: int = 0
    read: int = 0
    failures: int = 0
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sites: tuple[int, ...] = ()


_SOURCES: Final = msgspec.json.Decoder(SignalSource)


def read_sources(store: Store, kind: str, origins: Sequence[str]) -> list[SignalSource]:
    """Return the sources of hosts in the order of `origins`; new ones for unknown hosts."""
    entries = store.annotations(source_kind(kind), [*map(source_id, origins)])
    sources = ((origin, _source_of(entries.get(source_id(origin), b""))) for origin in origins)
    return [source or SignalSource(origin) for origin, source in sources]


def known_sources(store: Store, kind: str, most: int) -> list[SignalSource]:
    """Return up to `most` known sources, those tried longest ago first."""
    sources = []
    for batch in store.all_annotations(source_kind(kind)):
        sources += [source for body in batch.values() if (source := _source_of(body)) is not None]
        sources = sorted(sources, key=lambda source: (source.tried, source.origin))[:most]
    return sources


def write_sources(store: Store, kind: str, sources: Sequence[SignalSource]) -> None:
    """Write sources, replacing their earlier entries."""
    given = {source_id(source.origin): source for source in sources}
    change_sources(store, kind, list(given), lambda key, _: given[key])


def change_sources(
    store: Store,
    kind: str,
    keys: Sequence[int],
    change: Callable[[int, SignalSource | None], SignalSource | None],
) -> list[SignalSource]:
    """Change sources atomically; return the changed sources.

    `change` gets a source's number and entry, and returns the new entry, or None to keep the old
    one. If two crawlers change a source at the same time, the second gets the entry of the first.
    """
    written: dict[int, SignalSource] = {}

    def changed(key: int, now: bytes) -> bytes:
        written.pop(key, None)
        new = change(key, _source_of(now))
        if new is None:
            return now
        written[key] = new
        return msgspec.json.encode(replace(new, sites=new.sites[:MOST_SITES]))

    change_annotations(store, source_kind(kind), keys, changed)
    return list(written.values())


def claim_source(store: Store, kind: str, source: SignalSource, at: int) -> bool:
    """Claim a due source for reading; False if another crawl has claimed it since `source` was read.

    `at` is in seconds since 1970 UTC.
    """

    def claimed(_: int, now: SignalSource | None) -> SignalSource | None:
        now = now or SignalSource(source.origin)
        return replace(now, tried=at) if now.tried == source.tried else None

    return bool(change_sources(store, kind, [source_id(source.origin)], claimed))


def _source_of(body: bytes) -> SignalSource | None:
    try:
        return _SOURCES.decode(body)
    except (ValueError, RecursionError):
        return None  # damaged: the source will be discovered again
