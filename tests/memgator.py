"""MemGator, a Memento aggregator, played by a local server: a double, because it is a program in Go.

Its answers have the form that its source writes (github.com/oduwsdl/MemGator, main.go, `serializeLinks`
and `memgatorService`): TimeMaps in link format, a TimeGate that redirects with a Link header, and 404
where no archive has anything. Its JSON and CDXJ are in tests/archive/test_timemap.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Self

from servers import Site


@dataclass
class MemGator:
    """Aggregates the mementos (second, URI) that a test gives it for each page."""

    site: Site = field(default_factory=Site)

    @property
    def timegate_url(self) -> str:
        return f"{self.site.url}/timegate/"

    @property
    def timemap_url(self) -> str:
        return f"{self.site.url}/timemap/link/"

    def know(self, page: str, mementos: Sequence[tuple[int, str]]) -> None:
        found = sorted(mementos)
        self.know_in_parts(page, found)
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
            f'<{self.timemap_url}{page}>; rel="self"; type="application/link-format"',
            *(f'<{uri}>; rel="memento"; datetime="{_http_date(at)}"' for at, uri in found),
            f'<{self.timemap_url}{page}>; rel="timemap"; type="application/link-format"',
            f'<{self.site.url}/timemap/json/{page}>; rel="timemap"; type="application/json"',
            f'<{self.timegate_url}{page}>; rel="timegate"',
        ]
        return (",\n".join(lines) + "\n").encode()


def _http_date(at: int) -> str:
    return format_datetime(datetime.fromtimestamp(at, UTC), usegmt=True)
