"""Reads an archive's answer to a request for a memento: the marks, or why they are missing."""

import io
from dataclasses import dataclass
from typing import Final, Self
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

# Problems of captures by the kind of a dropped record.
_PROBLEMS: Final = {"bad_status": "status", "not_html": "not_html"}
# Wayback software puts this before the names of archived headers.
_ORIGINAL_HEADERS: Final = b"x-archive-orig-"


class BlockedError(HacsError):
    """The archive will never show this URL."""


@dataclass(frozen=True, slots=True)
class Memento:
    """The answer to the request for a capture's memento.

    `marks` are the page's marks at second `at`, by the rules with the fingerprint `rules`; if they
    are None, `problem` says why. `reason` is set, for the log, if a later request may succeed.
    """

    at: int
    marks: frozenset[int] | None = None
    problem: str = ""
    reason: str = ""
    rules: int = 0

    @classmethod
    def failed(cls, capture: Capture, reason: str, problem: str = "error") -> Self:
        """Return the answer for a capture that may be shown another time."""
        return cls(capture.at, problem=problem, reason=reason)


def other_capture(response: Response) -> str:
    """Return the URL of the memento to which the archive itself redirects, else ""."""
    location = response.headers.get(b"Location")
    is_archived = header_of(response, "Memento-Datetime") is not None
    if not 300 <= response.status < 400 or location is None or is_archived:
        return ""
    url = urljoin(response.url, location.decode("latin-1"))
    is_inside = urlsplit(url).netloc == urlsplit(response.url).netloc
    return url if is_inside and original_of(url) else ""


def read_memento(response: Response, capture: Capture, rules: Rules) -> Memento:
    """Read an answer; raises BlockedError if it says that the archive will never show the page.

    A memento has a Memento-Datetime (RFC 7089), headers that only replay adds, or the digest in the
    index; otherwise, the page is the archive's own, whatever its status.
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

    # from here on, the headers describe the archived body
    def header(name: str) -> str | None:
        return None if name == "Transfer-Encoding" else header_of(response, name)

    rewriting = Rewriting(response.url)
    links = payload_links(response.body, header, capture.url, rules, rewriting)
    problem = "" if links is not None else "unreadable"
    return Memento(at, links, problem, rules=rules.fingerprint)


def read_range(response: Response, capture: Capture, rules: Rules) -> Memento:
    """Read a capture's part of a WARC file: one gzipped record."""
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
    """Whether the archive itself says that it will never show the page.

    The whole body is searched: the Wayback Machine says so after 56,000 bytes.
    """
    error = response.headers.get(b"X-Archive-Wayback-Runtime-Error") or b""
    return BLOCKED.search(error) is not None or BLOCKED.search(response.body) is not None


def header_of(response: Response, name: str) -> str | None:
    """Return a header's last value, for Content-Encoding and Content-Type all; None if missing."""
    values = response.headers.getlist(name)
    if not values:
        return None
    counts_all = name in {"Content-Encoding", "Content-Type"}
    value = b", ".join(values) if counts_all else values[-1]
    # "Content-Encoding: , gzip" (edgi web-monitoring-db issue 433)
    return str(value.decode("latin-1")).strip(" ,")


def first_line(response: Response) -> str:
    """Return the beginning of an answer as printable text."""
    text = response.body[:2_000].decode("utf-8", "replace").strip()
    return repr(text.partition("\n")[0][:200])


def _is_replayed(response: Response, capture: Capture) -> bool:
    """Whether an answer without Memento-Datetime is the capture nevertheless."""
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
    """Whether a URL names another page than the capture; archives ignore case in their keys."""
    key, problem = key_of(url)
    if problem or key == capture.page_key:
        return False
    return page_surt(url) != page_surt(capture.url)
