"""Reads lists of changed pages: sitemaps, with Scrapy's parser, and lines from users."""

import csv
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from io import BytesIO
from itertools import islice
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from lxml import etree
from scrapy import version_info
from scrapy.utils.gz import gunzip
from scrapy.utils.sitemap import Sitemap, sitemap_urls_from_robots

from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import check_url, page_id_of
from hacs_crawler.utils.times import DAY, MAX_SECOND, parse_iso

# Larger files are not read, compressed or not.
MOST_BYTES: Final = 10 * 1024 * 1024
# The protocol's limit for one file; later entries are not read.
MOST_ENTRIES: Final = 50_000
# An unescaped ampersand, common in URLs with a query; a parser would drop the rest.
_BARE_AMPERSAND: Final = re.compile(rb"&(?!#?[0-9A-Za-z]{1,31};)")
_GZIP_MAGIC: Final = b"\x1f\x8b"
# Whether Scrapy's parser takes robots.txt as bytes, not as text.
_TAKES_BYTES: Final = version_info >= (2, 15)


def read_sitemap(body: bytes, url: str, now: int) -> "Listing":
    """Return the signals of a sitemap for pages of its own host, or the files of a sitemap index.

    The files are sorted newest first, then those without a time. `now` is in seconds since 1970
    UTC. Damaged XML is read as far as possible. Raises SignalError if this is not a sitemap,
    declares entities, or is larger than `MOST_BYTES`.
    """
    listing = Listing()
    files: list[tuple[int, str]] = []
    body = _unpacked(body)
    # CDATA needs no escaping, and in UTF-16, which has null bytes, & is not one byte
    if b"<![CDATA[" not in body and b"\0" not in body:
        body = _BARE_AMPERSAND.sub(b"&amp;", body)
    try:
        _, root = next(
            etree.iterparse(BytesIO(body), ("start",), recover=True, resolve_entities=False)
        )
        declared = root.getroottree().docinfo.internalDTD
        if declared is not None and next(declared.iterentities(), None) is not None:
            # Scrapy's parser takes quadratic time for entities
            raise SignalError(f"{url}: it declares entities")
        sitemap = Sitemap(body)
        if sitemap.type not in {"urlset", "sitemapindex"}:
            raise SignalError(f"{url}: not a sitemap, its root is <{sitemap.type[:40]}>")
        for entry in islice(sitemap, MOST_ENTRIES):
            url_of_entry = same_host(entry.get("loc", ""), url)
            second = second_of(entry.get("lastmod", ""), now)
            if sitemap.type == "sitemapindex" and url_of_entry is not None:
                files.append((second or 0, url_of_entry))
            else:
                listing.add(url_of_entry, second)
    except (etree.LxmlError, StopIteration, ValueError) as error:
        raise SignalError(f"{url}: not a sitemap: {error or 'it is empty'}") from error
    listing.files = [file for _, file in sorted(files, key=lambda entry_of_file: -entry_of_file[0])]
    return listing


def sitemaps_of_robots(body: bytes, url: str) -> list[str]:
    """Return the sitemaps that a robots.txt names on its own host, without duplicates."""
    robots: Any = body if _TAKES_BYTES else body.decode("utf-8", "surrogateescape")
    named = (same_host(sitemap, url) for sitemap in islice(sitemap_urls_from_robots(robots), 1000))
    return list(dict.fromkeys(sitemap for sitemap in named if sitemap is not None))


def same_host(url: str, base: str) -> str | None:
    """Return an absolute URL; None if it is unusable or on another host than the base."""
    try:
        joined = urljoin(base, url.strip())
        is_same = bool(url) and urlsplit(joined).netloc.lower() == urlsplit(base).netloc.lower()
    except ValueError:
        return None
    return joined if is_same and check_url(joined) is None else None


def _unpacked(body: bytes) -> bytes:
    try:
        unpacked = gunzip(body, max_size=MOST_BYTES) if body.startswith(_GZIP_MAGIC) else body
    except Exception as error:  # Scrapy's exception for too much data is private
        raise SignalError(f"cannot be unpacked: {error}") from error
    if len(unpacked) > MOST_BYTES:
        raise SignalError(f"larger than {MOST_BYTES} bytes")
    return unpacked


class SignalError(HacsError):
    """A source of signals cannot be read; the message says why."""


@dataclass(slots=True)
class Listing:
    """The content of a source's file: its pages with their times in seconds since 1970 UTC.

    `files` are further files that it names. `unread` counts unusable entries: without a valid time,
    or for pages of other hosts.
    """

    pages: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    unread: int = 0

    def add(self, url: str | None, second: int | None) -> None:
        """Add an entry, unusable if it lacks URL or time; the latest time of a page counts."""
        if url is None or second is None:
            self.unread += 1
        else:
            self.pages[url] = max(second, self.pages.get(url, 0))


def second_of(text: str, now: int) -> int | None:
    """Convert ISO 8601 to seconds since 1970 UTC; None if invalid, or over a day later than `now`.

    A date means the end of that day: the page may have changed at any time in it.
    """
    second = parse_iso(text.strip())
    if second is None:
        return None
    with suppress(ValueError):
        date.fromisoformat(text.strip())
        second += DAY - 1
    return second if 0 < second <= min(now + DAY, MAX_SECOND) else None


# Possible headings of the first column.
HEADERS: Final = {"url", "page", "loc"}


def read_pings(lines: Iterable[str], name: str, now: int) -> Iterator[tuple[str, int]]:
    """Yield pages and seconds since 1970 UTC from lines `url,time`.

    The time is in ISO 8601 or in seconds, by default `now`. Empty lines and a header are skipped.
    Raises SignalError that names the line.
    """
    rows = csv.reader(lines)
    try:
        for row in rows:
            url, time = (cell.strip() for cell in [*row, "", ""][:2])
            if not any(map(str.strip, row)) or (rows.line_num == 1 and url.lower() in HEADERS):
                continue
            line = f"{name}, line {rows.line_num}"
            problem = check_url(url)
            if problem is not None:
                raise SignalError(f"{line}: {url[:200]!r}: {problem}")
            second = _second(time, now)
            if second is None:
                raise SignalError(
                    f"{line}: {time[:100]!r}: must be a time in ISO 8601, or in seconds since 1970 "
                    "UTC, at most a day ahead"
                )
            page_id_of(url)
            yield url, second
    except csv.Error as error:
        raise SignalError(f"{name}, line {rows.line_num}: {error}") from error


def _second(text: str, now: int) -> int | None:
    if not text:
        return now
    try:
        seconds = float(text)
    except ValueError:
        return second_of(text, now)
    is_time = math.isfinite(seconds) and 0 < seconds <= now + DAY
    return int(seconds) if is_time else None
