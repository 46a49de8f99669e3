"""The newest things that each page showed, as readable text rather than fingerprints."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from hacs_crawler.state.store import Store, change_annotations
from hacs_crawler.utils.text import printable

KIND: Final = "findings"
# Kind of a page's only text at its first visit: not news, but the `was` of the text that replaces it.
FIRST: Final = "first"
# Kind of the line that says how much has gone, if an update brought nothing.
GONE: Final = "gone"
# Length of one text, in UTF-8.
MOST_BYTES: Final = 200


class Finding(NamedTuple):
    """A new thing and the second since 1970 UTC of the visit that showed it.

    `kind` is "link", "item", "text", `GONE` or `FIRST`. `text` is a link's text, the texts and numbers
    of an item, or a text; `was` is the text that it replaced, "" if unknown. `url` is the address of a
    link or item, "" without one.
    """

    at: Annotated[int, Meta(ge=0)]
    kind: str
    text: str
    url: str = ""
    was: str = ""


class Findings(NamedTuple):
    """A page's title, and its newest things, the newest first."""

    title: str = ""
    things: tuple[Finding, ...] = ()

    def joined(self, other: "Findings", most: int) -> "Findings":
        """Return at most `most` of the newest things of both; the order of joining does not matter."""
        things = sorted(dict.fromkeys((*self.things, *other.things)), key=lambda thing: -thing.at)
        return Findings(self.title or other.title, tuple(things[:most]))


_decode: Final = msgspec.json.Decoder(Findings).decode
_encode: Final = msgspec.json.Encoder().encode


def findings_text(text: str) -> str:
    """Return a text as it is kept: on one line, without logins, cut to `MOST_BYTES`."""
    plain = printable(" ".join(text.split())).encode()
    if len(plain) <= MOST_BYTES:
        return plain.decode()
    return plain[: MOST_BYTES - 3].decode("utf-8", "ignore") + "…"


def read_findings(store: Store, page_ids: Sequence[int]) -> dict[int, Findings]:
    """Return the findings of pages; damaged entries are left out. Raises StateError."""
    return _undamaged(store.annotations(KIND, page_ids))


def all_findings(store: Store) -> Iterator[tuple[int, Findings]]:
    """Yield the findings of each page, by page id; damaged entries are left out. Raises StateError."""
    for batch in store.all_annotations(KIND):
        yield from _undamaged(batch).items()


def write_findings(store: Store, findings: Mapping[int, Findings], most: int) -> None:
    """Keep at most `most` of the newest things of pages, by page id; raises StateError."""

    def joined(page_id: int, before: bytes) -> bytes:
        return _encode(findings[page_id].joined(_decoded(before), most))

    change_annotations(store, KIND, findings, joined)


def _undamaged(values: Mapping[int, bytes]) -> dict[int, Findings]:
    decoded = {page_id: _decoded(value) for page_id, value in values.items()}
    return {page_id: findings for page_id, findings in decoded.items() if findings.things}


def _decoded(value: bytes) -> Findings:
    try:
        return _decode(value) if value else Findings()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Findings()
