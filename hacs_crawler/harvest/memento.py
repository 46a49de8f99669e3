"""Reads an archive's answer to a request for a memento: the page's marks, or why it shows none."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit

from scrapy.http import Response

from hacs_crawler.archive import (
    ArchiveError,
    Capture,
    Cleaning,
    Rewriting,
    has_digest,
    is_html,
    key_of,
    original_of,
    payload_links,
    read_warc,
    source_of,
    timestamp_of,
)
from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.query import BLOCKED
from hacs_crawler.links import page_surt
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import parse_http_date
from hacs_crawler.watch import Rules

logger = safe_logger(__name__)

# What it means for a capture that its record is dropped.
_PROBLEMS: Final = {"bad_status": "status", "not_html": "not_html"}
# Wayback software puts this before the names of the headers that were archived.
_ORIGINAL_HEADERS: Final = b"x-archive-orig-"


class BlockedError(HacsError):
    """The archive will never show this URL."""


@dataclass(frozen=True, slots=True)
class Memento:
    """The answer to the request for a capture's memento.

    `marks` are the fingerprints of the page's links, or other marks, at second `at`, or None and
    `problem` says why; `rules` is the fingerprint of the rules by which they were
    taken. `reason` says, for the log, why a request on another day may help, "" if none would.
    """

    at: int
    marks: frozenset[int] | None = None
    problem: str = ""
    reason: str = ""
    rules: int = 0

    @classmethod
    def failed(cls, capture: Capture, reason: str, problem: str = "error") -> Memento:
        """Return the answer that a capture is not shown today."""
        return cls(capture.at, problem=problem, reason=reason)


def other_capture(response: Response) -> str:
    """Return the memento to which the archive itself redirects, "" if it does not."""
    location = response.headers.get(b"Location")
    is_archived = header_of(response, "Memento-Datetime") is not None
    if not 300 <= response.status < 400 or location is None or is_archived:
        return ""
    url = urljoin(response.url, location.decode("latin-1"))
    is_inside = urlsplit(url).netloc == urlsplit(response.url).netloc
    return url if is_inside and original_of(url) else ""


def read_memento(response: Response, capture: Capture, rules: Rules) -> Memento:
    """Read an answer; raises BlockedError if it says that the archive will never show the page.

    An archive's own page is not a memento, whatever its status is: a memento has a
    Memento-Datetime (RFC 7089), headers that only replay adds, or the digest that the index names.
    """
    named = header_of(response, "Memento-Datetime")
    at = parse_http_date(named) if named else timestamp_of(response.url)
    if at is None or not (named or _is_replayed(response, capture)):
        # the answer is the archive's own
        if is_blocked(response):
            raise BlockedError(f"{response.url}: {first_line(response)}")
        is_failure = response.status >= 500 or response.status in {200, 401, 403, 408, 429}
        status = "no Memento-Datetime" if response.status == 200 else str(response.status)
        problem = "error" if is_failure else "missing"
        return Memento.failed(capture, status, problem)
    problem = _problem(response, capture)
    if problem:
        return Memento(at, problem=problem)

    # the rest is about the body as it was archived
    def header(name: str) -> str | None:
        return None if name == "Transfer-Encoding" else header_of(response, name)

    rewriting = Rewriting(response.url)
    links = payload_links(response.body, header, capture.url, rules, rewriting)
    problem = "" if links is not None else "unreadable"
    return Memento(at, links, problem, rules=rules.fingerprint)


def read_range(response: Response, capture: Capture, rules: Rules) -> Memento:
    """Read the part of a WARC file that a capture is: one record, gzipped by itself."""
    if response.status != 206:
        status = "all of a WARC file" if response.status == 200 else str(response.status)
        return Memento.failed(capture, status)
    dropped = Cleaning()
    file = io.BufferedReader(io.BytesIO(response.body))
    try:
        visits = list(read_warc(source_of(file, response.url), dropped, rules))
    except (ArchiveError, ValueError) as error:
        logger.debug("%s: %s", response.url, error)
        return Memento.failed(capture, "a damaged record")
    if not visits:
        kind = next(iter(dropped), "")
        return Memento(capture.at, problem=_PROBLEMS.get(kind, "unreadable"))
    (visit, *_) = visits
    if _is_elsewhere(visit.url, capture):
        return Memento(visit.at, problem="moved")
    problem = "" if visit.marks is not None else "unreadable"
    return Memento(visit.at, visit.marks, problem, rules=visit.rules)


def is_blocked(response: Response) -> bool:
    """Whether an answer of the archive's own says that it will never show the page.

    The whole body is searched: the Wayback Machine says so behind 56,000 bytes of its own page.
    """
    error = response.headers.get(b"X-Archive-Wayback-Runtime-Error") or b""
    return BLOCKED.search(error) is not None or BLOCKED.search(response.body) is not None


def header_of(response: Response, name: str) -> str | None:
    """Return a header's value, of a repeated Content-Encoding all values; None if it is missing."""
    values = response.headers.getlist(name)
    if not values:
        return None
    counts_all = name in {"Content-Encoding", "Content-Type"}
    value = b", ".join(values) if counts_all else values[-1]
    # "Content-Encoding: , gzip" (edgi web-monitoring-db issue 433)
    return str(value.decode("latin-1")).strip(" ,")


def first_line(response: Response) -> str:
    """Return the beginning of an answer as text that can be shown."""
    text = response.body[:2_000].decode("utf-8", "replace").strip()
    return repr(text.partition("\n")[0][:200])


def _is_replayed(response: Response, capture: Capture) -> bool:
    """Whether an answer without Memento-Datetime is the capture all the same."""
    if response.status != 200:
        return False
    has_headers = any(name.lower().startswith(_ORIGINAL_HEADERS) for name in response.headers)
    return has_headers or has_digest(response.body, capture.digest)


def _problem(response: Response, capture: Capture) -> str:
    if not 200 <= response.status < 300:
        return "status"
    original = original_of(response.url)
    if original and _is_elsewhere(original, capture):
        return "moved"
    return "" if is_html(header_of(response, "Content-Type") or "") else "not_html"


def _is_elsewhere(url: str, capture: Capture) -> bool:
    """Whether an archive shows another page; archives ignore case, so it may differ."""
    key, problem = key_of(url)
    if problem or key == capture.page_key:
        return False
    return page_surt(url) != page_surt(capture.url)
