"""Queries to a CDX server for the captures of a page, or of all pages of a site, chunk by chunk.

`Site` decides which rows of an answer are about the pages of an author's site.

A query is asked for spans of time, one after the other. Within a span a server that knows resume keys is
read on from the key it gave (the Wayback Machine); with other servers (pywb) a span whose answer is as
long as the limit is halved and asked again. So is a span that a server cannot answer in time.

Some parameters must not be used: `filter=statuscode:200` loses revisit records, `collapse=digest` loses
unchanged captures, `page=` skips rows (internetarchive/wayback issues), and with `fl` the two kinds of
server know different names, so the default is best: it has the `urlkey` without which there are no
resume keys.
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

# The Wayback Machine's words, in a header or a body, for a URL that it will never show.
BLOCKED: Final = re.compile(
    rb"(?:Administrative|Robot)AccessControlException|URL has been excluded"
)

_JSON_KEY = re.compile(rb',?\s*\[\s*\]\s*,\s*\[\s*("(?:[^"\\]|\\.)*")\s*\]\s*,?\s*\]\s*\Z')
_TEXT_KEY = re.compile(rb"(?:\A|\n)[ \t]*\r?\n([^\s\[{]+)\s*\Z")


@dataclass(frozen=True, slots=True)
class Span:
    """What is still to be asked of a span of time; seconds since 1970 UTC, both ends included.

    `resume_key` says behind which row to go on, "" from the beginning. `index` is the CDX server to be
    asked if an archive has several.
    """

    since: int
    until: int
    resume_key: str = ""
    index: str = ""

    def halves(self) -> list[Span]:
        """Return the span as two, which together have the same rows left; itself if it is one second."""
        if self.since >= self.until:
            return [self]
        middle = (self.since + self.until) // 2
        return [replace(self, until=middle), replace(self, since=middle + 1)]


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """A chunk of an index, and how to go on behind it.

    `pages` are keys of pages, each with the page's captures in time order. `rows` counts all rows, also
    rows that are not captures; `resume_key` is "" at the end, or if the server knows no such key.
    """

    pages: Sequence[tuple[str, list[Capture]]]
    rows: int
    resume_key: str
    dropped: Cleaning


def timestamp(second: int) -> str:
    """Return a time as archives write it, `YYYYMMDDhhmmss`."""
    return f"{datetime.fromtimestamp(second, UTC):%Y%m%d%H%M%S}"


def query_url(server: str, site: Site, span: Span, limit: int) -> str:
    """Return the URL that asks a CDX server for the next rows about a site.

    A prefix is asked for without its slash at the end, for with it the homepage itself may be left out
    (`calc_search_range` of pywb). So pages of `~barbara` come with those of `~bar`.
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
    """Read a CDX server's answer about a site, in any of its dialects.

    If WARC files lie below `warc_url`, captures have a place there. Captures outside the span are left
    out and counted as ``out_of_range``: some servers ignore it. Raises ArchiveError, with `name`,
    if there are rows but none of them is a row of an index.
    """
    body, resume_key = _cut_key(body)
    dropped = Cleaning()
    captures = list(read_cdx(body.splitlines(), name, dropped, warc_url=warc_url))
    return answer_of(captures, site, span, dropped, resume_key)


def answer_of(
    captures: Sequence[Capture], site: Site, span: Span, dropped: Cleaning, resume_key: str = ""
) -> IndexAnswer:
    """Return the captures of a span by page; those outside are counted as ``out_of_range``."""
    rows = len(captures) + dropped.total()
    inside = [capture for capture in captures if span.since <= capture.at <= span.until]
    if len(inside) < len(captures):
        dropped["out_of_range"] += len(captures) - len(inside)
    return IndexAnswer(list(site.pages(inside, dropped)), rows, resume_key, dropped)


def _cut_key(body: bytes) -> tuple[bytes, str]:
    """Return an answer without its resume key, and the key, or ""."""
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
    """Return the URL of a capture's memento as it was archived, without the archive's own additions.

    `template` is where the archive's replay begins, or has `{timestamp}` and `{url}` in it.
    """
    # The fragment is cut off here, and spaces and the like would not survive being sent.
    url = quote(capture.url, safe="!$&'()*+,/:;=?@[]~%")
    time = timestamp(capture.at)
    if "{timestamp}" in template:
        return template.replace("{timestamp}", time).replace("{url}", url)
    return f"{template.rstrip('/')}/{time}id_/{url}"


_INDEX_FILE = re.compile(r"(?:index|default|home|welcome)\.[a-z]{3,5}|index").fullmatch
_DEFAULT_PORT = re.compile(r"^(http://[^/]*):80(?=/|$)|^(https://[^/]*):443(?=/|$)")


class Site:
    """A homepage, and with `has_subpages` also the pages below it, two levels deep.

    A homepage with a query stands alone. Raises ValueError if the homepage's URL lacks a key.
    """

    def __init__(self, homepage: str, *, has_subpages: bool) -> None:
        self.homepage = homepage
        self.page_key = page_key(homepage)
        self.has_subpages = has_subpages and "?" not in self.page_key
        self._folder = _without_index(self.page_key.partition("?")[0])

    @property
    def key(self) -> int:
        """One number for all spellings of the homepage, with and without index file."""
        return fingerprint(self._folder + "".join(self.page_key.partition("?")[1:]))

    @property
    def prefix(self) -> str:
        """The URL below which all its pages lie: the homepage's without index file, query and slash."""
        parts = urlsplit(self.homepage)
        return f"{parts.scheme}://{parts.netloc}{_without_index(parts.path)}"

    def url_of(self, capture: Capture) -> str:
        """Return the URL under which a capture is recorded: the homepage's own, or without its port."""
        if capture.page_key == self.page_key:
            return self.homepage
        return _DEFAULT_PORT.sub(r"\1\2", capture.url)

    def pages(
        self, captures: Iterable[Capture], dropped: Cleaning
    ) -> Iterator[tuple[str, list[Capture]]]:
        """Yield the keys of the site's pages and their captures in time order, from an index's rows.

        Captures of other pages, a second one in the same second, and revisits of other types than HTML
        are left out and counted (see `problem`; ``duplicate``, ``not_html``).
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
                # of those in one second the first with content of its own
                kept: dict[int, Capture] = {}
                for capture in sorted(of_page, key=lambda row: (row.at, row.is_revisit)):
                    kept.setdefault(capture.at, capture)
                if len(kept) < len(of_page):
                    dropped["duplicate"] += len(of_page) - len(kept)
                yield key, list(kept.values())

    def problem(self, key: str) -> str:
        """Return the kind under which a page is left out, "" if it belongs to the site.

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
