"""MemGator, a Memento aggregator, played by a local server: a double, because it is a program in Go.

Its answers have the form that its source writes (github.com/oduwsdl/MemGator, main.go, `serializeLinks`
and `memgatorService`): TimeMaps in link format, JSON and CDXJ, a TimeGate that redirects with a Link
header, and 404 where no archive has anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Self

from hacs_crawler.harvest.query import timestamp
from servers import Site


@dataclass
class MemGator:
    """Aggregates the mementos (second, URI) that a test gives it for each page."""

    site: Site = field(default_factory=Site)

    @property
    def timegate_url(self) -> str:
        return f"{self.site.url}/timegate/"

    def timemap_url(self, kind: str) -> str:
        return f"{self.site.url}/timemap/{kind}/"

    def know(self, page: str, mementos: Sequence[tuple[int, str]]) -> None:
        found = sorted(mementos)
        for kind, write in (("link", self._link), ("json", self._json), ("cdxj", self._cdxj)):
            mime = {"link": "application/link-format", "json": "application/json"}.get(kind, "")
            answer = (200, {"Content-Type": mime or "application/cdxj+ors"}, write(page, found))
            self.site.pages[f"/timemap/{kind}/{page}"] = answer
        nearest = found[-1][1]
        header = self._link(page, found[-1:]).decode().replace("\n", " ")
        self.site.pages[f"/timegate/{page}"] = (302, {"Location": nearest, "Link": header}, b"")

    def know_in_parts(self, page: str, *parts: Sequence[tuple[int, str]]) -> None:
        """Answer with a TimeMap in parts, each of which names the next (RFC 7089, 5.2)."""
        for number, part in enumerate(parts):
            path = f"/timemap/link/{page}" + (f"?page={number}" if number else "")
            body = self._link(page, part)
            if number + 1 < len(parts):
                since, until = (_http_date(parts[number + 1][end][0]) for end in (0, -1))
                body += (
                    f',<{self.site.url}/timemap/link/{page}?page={number + 1}>; rel="timemap"; '
                    f'type="application/link-format"; from="{since}"; until="{until}"\n'
                ).encode()
            self.site.pages[path] = (200, {"Content-Type": "application/link-format"}, body)

    def __enter__(self) -> Self:
        self.site.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.site.__exit__()

    def _link(self, page: str, found: Sequence[tuple[int, str]]) -> bytes:
        lines = [
            f'<{page}>; rel="original"',
            f'<{self.timemap_url("link")}{page}>; rel="self"; type="application/link-format"',
            *(f'<{uri}>; rel="memento"; datetime="{_http_date(at)}"' for at, uri in found),
            *(
                f'<{self.timemap_url(kind)}{page}>; rel="timemap"; type="{mime}"'
                for kind, mime in (
                    ("link", "application/link-format"),
                    ("json", "application/json"),
                    ("cdxj", "application/cdxj+ors"),
                )
            ),
            f'<{self.timegate_url}{page}>; rel="timegate"',
        ]
        return (",\n".join(lines) + "\n").encode()

    def _json(self, page: str, found: Sequence[tuple[int, str]]) -> bytes:
        rows = [{"datetime": _utc(at).isoformat(), "uri": uri} for at, uri in found]
        return json.dumps({"original_uri": page, "mementos": {"list": rows}}, indent=2).encode()

    def _cdxj(self, page: str, found: Sequence[tuple[int, str]]) -> bytes:
        lines = [
            '!context ["https://oduwsdl.github.io/contexts/memento"]',
            '!keys ["memento_datetime_YYYYMMDDhhmmss"]',
            f"!meta {json.dumps({'original_uri': page})}",
            *(f"{timestamp(at)} {json.dumps({'uri': uri, 'rel': 'memento'})}" for at, uri in found),
        ]
        return ("\n".join(lines) + "\n").encode()


def _http_date(at: int) -> str:
    return format_datetime(_utc(at), usegmt=True)


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(at, UTC)
