"""Common Crawl, played by a local server: a double, because the real one cannot be had in a test.

Its index servers are pywb, but with ZipNum indexes of a whole crawl and a list of crawls before them,
and its WARC files lie on Amazon's S3. Every answer has the form of a recorded one:

- collinfo.json, rows, "No Captures found", 504: recorded in September 2025,
  github.com/cocrawler/cdx_toolkit, tests/data/mock_responses
- SlowDown: docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
- robots.txt of both hosts, as quoted in public repositories in 2026: all but the lists is disallowed

The rows name true offsets and lengths in WARC files that warcio wrote.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from surt import surt

from pywb_archive import Archived, write_warc
from servers import LocalServer
from wayback_support import QUICK

INDEX_ROBOTS = (
    b"User-agent: *\nDisallow: /\n\nAllow: /$\nAllow: /index.html$\nAllow: /collinfo.json$\n"
)
DATA_ROBOTS = b"User-Agent: *\nDisallow: /\n"
SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)
GATEWAY_TIMEOUT = (
    b"<html>\r\n<head><title>504 Gateway Time-out</title></head>\r\n<body>\r\n"
    b"<center><h1>504 Gateway Time-out</h1></center>\r\n</body>\r\n</html>\r\n"
)
_INDEX, _DATA = "127.0.0.1", "127.0.0.2"


@dataclass(frozen=True)
class Asked:
    """One request; `range` is what its Range header names."""

    host: str
    path: str
    params: Mapping[str, str]
    range: str


@dataclass
class _Crawl:
    name: str
    since: int
    until: int
    rows: list[dict[str, str]]
    file: str
    data: bytes


@dataclass
class CommonCrawl(LocalServer):
    """Crawls that a test adds. `faults` are answers (status, body) for the next requests to a host.

    With `ignores_range` the files are sent whole.
    """

    folder: Path
    asked: list[Asked] = field(default_factory=list)
    faults: dict[str, list[tuple[int, bytes]]] = field(
        default_factory=lambda: {"index": [], "data": []}
    )
    ignores_range: bool = False
    _crawls: list[_Crawl] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__("0.0.0.0")

    def crawl(self, name: str, responses: Sequence[Archived]) -> None:
        from warcio.archiveiterator import ArchiveIterator

        path = write_warc(self.folder / f"{name}.warc.gz", responses)
        file = f"crawl-data/{name}/segments/1754151279781.29/warc/{path.name}"
        rows: list[dict[str, str]] = []
        with path.open("rb") as stream:
            records = ArchiveIterator(stream)
            for record in records:
                row = _row(record)
                records.read_to_end(record)
                offset, length = records.get_record_offset(), records.get_record_length()
                rows.append({**row, "length": str(length), "offset": str(offset), "filename": file})
        times = [response.at for response in responses]
        rows.sort(key=lambda row: (row["urlkey"], row["timestamp"]))
        crawl = _Crawl(name, min(times), max(times), rows, file, path.read_bytes())
        self._crawls.insert(0, crawl)  # the newest comes first

    @property
    def settings(self) -> dict[str, object]:
        return {
            "collinfo_url": f"http://{_INDEX}:{self.port}/collinfo.json",
            "warc_url": f"http://{_DATA}:{self.port}/",
            "robotstxt_obey": False,
            **QUICK,
        }

    def indexes_asked(self) -> list[str]:
        return [one.path.removesuffix("-index")[1:] for one in self.asked if "-index" in one.path]

    def ranges_asked(self) -> list[str]:
        return [one.range for one in self.asked if one.range]

    def _answer_to(self, asked: Asked) -> tuple[int, str, bytes]:
        self.asked.append(asked)
        kind = "index" if asked.host == _INDEX else "data"
        if asked.path == "/robots.txt":
            return 200, "text/plain", INDEX_ROBOTS if kind == "index" else DATA_ROBOTS
        if self.faults[kind]:
            status, body = self.faults[kind].pop(0)
            return status, "text/html", body
        if kind == "data":
            return self._data(asked)
        if asked.path == "/collinfo.json":
            return 200, "application/json", json.dumps(self._collinfo(), indent=2).encode()
        (crawl,) = [one for one in self._crawls if asked.path == f"/{one.name}-index"]
        return _index(crawl, asked.params)

    def _collinfo(self) -> list[dict[str, str]]:
        base = f"http://{_INDEX}:{self.port}"
        return [
            {
                "id": one.name,
                "name": f"{one.name} Index",
                "timegate": f"{base}/{one.name}/",
                "cdx-api": f"{base}/{one.name}-index",
                "from": f"{datetime.fromtimestamp(one.since, UTC):%Y-%m-%dT%H:%M:%S}",
                "to": f"{datetime.fromtimestamp(one.until, UTC):%Y-%m-%dT%H:%M:%S}",
            }
            for one in self._crawls
        ]

    def _data(self, asked: Asked) -> tuple[int, str, bytes]:
        (data,) = [one.data for one in self._crawls if asked.path == f"/{one.file}"]
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.range)
        if part is None or self.ignores_range:
            return 200, "application/octet-stream", data
        first, last = int(part[1]), int(part[2])
        return 206, "application/octet-stream", data[first : last + 1]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts, given = urlsplit(handler.path), handler.headers
        params = {name: values[0] for name, values in parse_qs(parts.query).items()}
        host = given["Host"].partition(":")[0]
        asked = Asked(host, parts.path, params, given.get("Range", ""))
        status, mime, body = self._answer_to(asked)
        self.send(handler, status, {"Content-Type": mime}, body)


def _row(record: Any) -> dict[str, str]:
    headers = record.rec_headers
    url = headers.get_header("WARC-Target-URI")
    mime = record.http_headers.get_header("Content-Type").partition(";")[0]
    return {
        "urlkey": surt(url),
        "timestamp": re.sub(r"\D", "", headers.get_header("WARC-Date"))[:14],
        "url": url,
        "mime": "warc/revisit" if record.rec_type == "revisit" else mime,
        "mime-detected": mime,
        "status": record.http_headers.get_statuscode(),
        "digest": headers.get_header("WARC-Payload-Digest").removeprefix("sha1:"),
    }


def _index(crawl: _Crawl, params: Mapping[str, str]) -> tuple[int, str, bytes]:
    """Answer as pywb's index server does, of which only the parameters that are sent are known."""
    key = surt(params["url"])
    is_prefix = params.get("matchType") == "prefix"
    since, until = params.get("from", ""), params.get("to", "9")
    rows = [
        row
        for row in crawl.rows
        if (row["urlkey"].startswith(key) if is_prefix else row["urlkey"] == key)
        and since <= row["timestamp"] <= until
    ][: int(params["limit"])]
    if not rows:
        message = f"No Captures found for: {params['url']}"
        return 404, "application/json; charset=utf-8", json.dumps({"message": message}).encode()
    body = "".join(f"{json.dumps(row)}\n" for row in rows)
    return 200, "text/x-ndjson; charset=utf-8", body.encode()
