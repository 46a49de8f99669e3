"""A local web archive of the demonstration's web: an index of captures, and mementos.

It speaks the part of the Wayback Machine's dialect that the spider `wayback` uses: CDX as JSON with
resume keys, and mementos as they were archived.
"""

from __future__ import annotations

import json
from base64 import b32encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import sha1
from typing import Final
from urllib.parse import unquote, urlsplit

from hacs_crawler.demo.pages import GONE
from hacs_crawler.demo.web import Web, WebPage
from hacs_crawler.links import page_surt

NAMES: Final = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
MOST_ROWS: Final = 150_000
HTML: Final = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reply:
    """A status, a body and headers."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Archive:
    """Captures of a web's pages, under the URLs that begin with `base`.

    `show` returns the HTML of a page at a second.
    """

    def __init__(self, web: Web, base: str, show: Callable[[WebPage, float], bytes]) -> None:
        self._base = base
        self._show = show
        self._captures = sorted(
            (page_surt(base + page.path), stamp(at), at, page)
            for page in web.pages
            for at in page.captures
        )
        self._pages = {page.path: page for page in web.pages}

    def index(self, query: Mapping[str, str], now: float) -> Reply:
        """Reply a query of the index: rows of one page, or of all whose URL begins so."""
        if not query.get("url"):
            return Reply(400, b"url parameter is required\n", {"Content-Type": "text/plain"})
        key, is_prefix = page_surt(query["url"]), query.get("matchType") == "prefix"
        since, until = query.get("from", ""), min(query.get("to") or "9", stamp(now))
        limit = int(query.get("limit", MOST_ROWS))
        rows: list[list[str]] = []
        for place in range(int(query.get("resumeKey", 0)), len(self._captures)):
            surt, timestamp, at, page = self._captures[place]
            if not (surt.startswith(key) if is_prefix else surt == key):
                continue
            if not since <= timestamp <= until:
                continue
            if len(rows) == limit:
                return _index(rows, place if query.get("showResumeKey") == "true" else None)
            rows.append(self._row(surt, timestamp, at, page))
        return _index(rows, None)

    def memento(self, place: str, now: float) -> Reply:
        """Reply a request for a memento; `place` is `{timestamp}id_/{url}`."""
        timestamp, _, url = place.partition("/")
        page = self._pages.get(unquote(urlsplit(url).path))
        at = second_of(timestamp.removesuffix("id_"))
        if page is None or at is None or at > now or at not in page.captures:
            return Reply(404, b"<p>not archived\n", {"Content-Type": HTML})
        status, body = self._archived(page, at)
        moment = format_datetime(datetime.fromtimestamp(at, UTC), usegmt=True)
        return Reply(status, body, {"Content-Type": HTML, "Memento-Datetime": moment})

    def _row(self, surt: str, timestamp: str, at: int, page: WebPage) -> list[str]:
        status, body = self._archived(page, at)
        digest = b32encode(sha1(body, usedforsecurity=False).digest()).decode()
        original = self._base + page.path
        return [surt, timestamp, original, "text/html", str(status), digest, str(len(body))]

    def _archived(self, page: WebPage, at: int) -> tuple[int, bytes]:
        return (404, GONE) if page.is_gone(at) else (200, self._show(page, at))


def stamp(second: float) -> str:
    """Return a time as archives write it, `YYYYMMDDhhmmss`."""
    return f"{datetime.fromtimestamp(second, UTC):%Y%m%d%H%M%S}"


def second_of(timestamp: str) -> int | None:
    """Return the second of an archive's timestamp, None if it is none."""
    try:
        moment = datetime.strptime(timestamp, "%Y%m%d%H%M%S")
    except ValueError:
        return None
    return int(moment.replace(tzinfo=UTC).timestamp())


def _index(rows: list[list[str]], resume_at: int | None) -> Reply:
    answer: list[list[str]] = [list(NAMES), *rows] if rows else []
    if resume_at is not None:
        answer += [[], [str(resume_at)]]
    # a row a line, as the Wayback Machine writes it
    text = ",\n".join(json.dumps(row) for row in answer)
    return Reply(200, f"[{text}]\n".encode(), {"Content-Type": "application/json"})
