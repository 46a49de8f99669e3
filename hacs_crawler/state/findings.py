"""What each page's last update brought, as text: for people, who cannot read fingerprints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from hacs_crawler.state.store import Store, change_annotations
from hacs_crawler.utils.text import printable

KIND: Final = "findings"
MOST_BYTES: Final = 200
"""Of one text, in UTF-8."""


class Findings(NamedTuple):
    """The update of a second since 1970 UTC, and texts of what was new then, as the page shows them."""

    at: Annotated[int, Meta(ge=0)] = 0
    things: tuple[str, ...] = ()


_decode: Final = msgspec.json.Decoder(Findings).decode
_encode: Final = msgspec.json.Encoder().encode


def findings_text(text: str) -> str:
    """Return a text as it is kept: on one line, without logins, cut at a character."""
    plain = printable(" ".join(text.split())).encode()
    if len(plain) <= MOST_BYTES:
        return plain.decode()
    return plain[: MOST_BYTES - 3].decode("utf-8", "ignore") + "…"


def read_findings(store: Store, page_ids: Sequence[int]) -> dict[int, Findings]:
    """Return what is kept of pages; damaged entries are left out. Raises StateError."""
    found = {}
    for page_id, value in store.annotations(KIND, page_ids).items():
        if (findings := _decoded(value)).things:
            found[page_id] = findings
    return found


def write_findings(store: Store, found: Mapping[int, Findings]) -> None:
    """Keep what the last update of pages brought, by page id; raises StateError."""

    def later(page_id: int, before: bytes) -> bytes:
        new = found[page_id]
        return _encode(new) if new.at >= _decoded(before).at else before

    change_annotations(store, KIND, found, later)


def _decoded(value: bytes) -> Findings:
    try:
        return _decode(value) if value else Findings()
    except msgspec.DecodeError:
        return Findings()
