"""Queries to a CDX server for the captures of a page, or of all pages of a site, in chunks.

A query covers one span of time after the other. Within a span, a server with resume keys (the
Wayback Machine) continues from its last key. For other servers (pywb), a span is halved if the
answer reaches the limit. It is also halved if a server cannot answer in time.

Some parameters must not be used: `filter=statuscode:200` loses revisit records, `collapse=digest` loses
unchanged captures, `page=` skips rows (internetarchive/wayback issues), and `fl` needs different names
for the two kinds of server; without `urlkey`, which is in the default fields, there are no resume keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from json import loads
from operator import attrgetter
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from hacs_crawler.archive import Capture, Cleaning, names_other_file, read_cdx
from hacs_crawler.links import DEEPEST, fingerprint, page_key

# The Wayback Machine's messages, in a header or a body, for URLs that it will never show.
BLOCKED: Final = re.compile(
    rb"(?:Administrative|Robot)AccessControlException|URL has been excluded"
)

_JSON_KEY = re.compile(rb',?\s*\[\s*\]\s*,\s*\[\s*("(?:[^"\\]|\\.)*")\s*\]\s*,?\s*\]\s*\Z')
_TEXT_KEY = re.compile(rb"(?:\A|\n)[ \t]*\r?\n([^\s\[{]+)\s*\Z")


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time to query, in seconds since 1970 UTC, both ends included.

    `resume_key` says after which row to continue, "" to begin. `index` is the CDX server if an
    archive has several.
    """

    since: int
    until: int
    resume_key: str = ""
    index: str = ""

    def halves(self) -> list[Span]:
        """Split the span into two; a span of one second stays."""
        if self.since >= self.until:
            return [self]
        middle = (self.since + self.until) // 2
        return [replace(self, until=middle), replace(self, since=middle + 1)]


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """A chunk of an index, and how to continue after it.

    `pages` are keys of pages with their captures in time order. `rows` counts all rows, including those
    that are not captures; `resume_key` is "" at the end, or if the server does not have such keys.
    """

    pages: Sequence[tuple[str, list[Capture]]]
    rows: int
    resume_key: str
    dropped: Cleaning


def timestamp(second: int) -> str:
    """Return a time in the format of archives, `YYYYMMDDhhmmss`."""
    return f"{datetime.fromtimestamp(second, UTC):%Y%m%d%H%M%S}"


def query_url(server: str, site: Site, span: Span, limit: int) -> str:
    """Return the URL that requests the next rows about a site from a CDX server.

    A prefix lacks its final slash, with which the homepage may be missing (`calc_search_range` of
    pywb). So the rows for `~bar` include those for `~barbara`.
    """
    parameters = {
        "url": site.prefix if site.has_subpages else site.homepage,
        "matchType": "prefix" if site.has_subpages else "exact",
        "output": "json",
        "from": timestamp(span.since),
        "to": timestamp(span.until),
        "limit": str(limit),
        "showResumeKey": "true",
    }
    if span.resume_key:  # the server decodes it twice (CDXServer.java)
        parameters["resumeKey"] = span.resume_key
    return f"{server}{'&' if '?' in server else '?'}{urlencode(parameters)}"


def read_answer(body: bytes, name: str, site: Site, span: Span, warc_url: str = "") -> IndexAnswer:
    """Read a CDX server's answer about a site, in any dialect.

    With `warc_url`, the base URL of WARC files, captures have a place. Captures outside the span,
    which some servers ignore, are left out and counted as ``out_of_range``. Raises ArchiveError,
    with `name`, if there are rows but none is a row of an index.
    """
    body, resume_key = _cut_key(body)
    dropped = Cleaning()
    captures = list(read_cdx(body.splitlines(), name, dropped, warc_url=warc_url))
    return answer_of(captures, site, span, dropped, resume_key)


def answer_of(
    captures: Sequence[Capture], site: Site, span: Span, dropped: Cleaning, resume_key: str = ""
) -> IndexAnswer:
    """Group the captures of a span by page; count those outside as ``out_of_range``."""
    rows = len(captures) + dropped.total()
    inside = [capture for capture in captures if span.since <= capture.at <= span.until]
    if len(inside) < len(captures):
        dropped["out_of_range"] += len(captures) - len(inside)
    return IndexAnswer(list(site.pages(inside, dropped)), rows, resume_key, dropped)


def _cut_key(body: bytes) -> tuple[bytes, str]:
    """Split an answer into rows and resume key, or ""."""
    end = max(0, len(body) - 8_192)
    match = _JSON_KEY.search(body, end)
    if match is not None:
        try:
            return body[: match.start()] + b"]", str(loads(match[1]))
        except ValueError:
            return body, ""
    match = _TEXT_KEY.search(body, end)
    return (
        (body, "") if match is None else (body[: match.start()], match[1].decode(errors="replace"))
    )


def memento_url(template: str, capture: Capture) -> str:
    """Return the URL of a capture's memento without the archive's additions.

    `template` is the beginning of the archive's replay URLs, or contains `{timestamp}` and `{url}`.
    """
    # also escapes spaces, which could not be sent, and "#"
    url = quote(capture.url, safe="!$&'()*+,/:;=?@[]~%")
    time = timestamp(capture.at)
    if "{timestamp}" in template:
        return template.replace("{timestamp}", time).replace("{url}", url)
    return f"{template.rstrip('/')}/{time}id_/{url}"


_INDEX_FILE = re.compile(r"(?:index|default|home|welcome)\.[a-z]{3,5}|index").fullmatch
_DEFAULT_PORT = re.compile(r"^(http://[^/]*):80(?=/|$)|^(https://[^/]*):443(?=/|$)")


class Site:
    """A homepage, and with `has_subpages` the pages up to two levels below it.

    A homepage with a query lacks subpages. Raises ValueError if the homepage's URL lacks a key.
    """

    def __init__(self, homepage: str, *, has_subpages: bool) -> None:
        self.homepage = homepage
        self.page_key = page_key(homepage)
        self.has_subpages = has_subpages and "?" not in self.page_key
        self._folder = _without_index(self.page_key.partition("?")[0])

    @property
    def key(self) -> int:
        """The same number for all spellings of the homepage, with and without index file."""
        return fingerprint(self._folder + "".join(self.page_key.partition("?")[1:]))

    @property
    def prefix(self) -> str:
        """The common prefix of the pages' URLs: the homepage without index file, query and slash."""
        parts = urlsplit(self.homepage)
        return f"{parts.scheme}://{parts.netloc}{_without_index(parts.path)}"

    def url_of(self, capture: Capture) -> str:
        """Return the URL for recording a capture: the given homepage, else without default port."""
        if capture.page_key == self.page_key:
            return self.homepage
        return _DEFAULT_PORT.sub(r"\1\2", capture.url)

    def pages(
        self, captures: Iterable[Capture], dropped: Cleaning
    ) -> Iterator[tuple[str, list[Capture]]]:
        """Yield the keys of the site's pages and their captures in time order.

        Captures of other pages, further captures in the same second, and revisits of files that are
        not HTML are left out and counted (see `problem`; ``duplicate``, ``not_html``).
        """
        by_page: dict[str, list[Capture]] = {}
        for key, run in groupby(captures, key=attrgetter("page_key")):
            problem = self.problem(key)
            if problem:
                dropped[problem] += sum(1 for _ in run)
            else:
                by_page.setdefault(key, []).extend(run)
        for key, of_page in by_page.items():
            if names_other_file(key) and all(capture.is_revisit for capture in of_page):
                dropped["not_html"] += len(of_page)
            else:
                # of captures in one second, prefer one that is not a revisit record
                kept: dict[int, Capture] = {}
                for capture in sorted(of_page, key=lambda row: (row.at, row.is_revisit)):
                    kept.setdefault(capture.at, capture)
                if len(kept) < len(of_page):
                    dropped["duplicate"] += len(of_page) - len(kept)
                yield key, list(kept.values())

    def problem(self, key: str) -> str:
        """Return the kind of problem for which a page is left out, "" if it belongs to the site.

        ``outside``: another site, ``too_deep``: more than two levels below the homepage,
        ``second_homepage``: another URL of the homepage itself.
        """
        if key == self.page_key:
            return ""
        folder = key.partition("?")[0]
        if folder != self._folder and not folder.startswith(self._folder + "/"):
            return "outside"
        if _without_index(folder) == self._folder:
            return "second_homepage"
        below = folder[len(self._folder) :].strip("/")
        return "too_deep" if not self.has_subpages or below.count("/") >= DEEPEST else ""


def _without_index(address: str) -> str:
    folder, _, name = address.rpartition("/")
    return folder if not name or _INDEX_FILE(name.lower()) else address
