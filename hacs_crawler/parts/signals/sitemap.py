"""Lists of changed pages: sitemaps, which Scrapy's own reader reads, and a user's own lines."""

from __future__ import annotations

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

# A larger file is not read, packed or unpacked.
MOST_BYTES: Final = 10 * 1024 * 1024
# The most that the protocol allows in a file; later entries are not read.
MOST_ENTRIES: Final = 50_000
# An unescaped ampersand, as in many addresses with a query; a parser would drop the rest.
_BARE_AMPERSAND: Final = re.compile(rb"&(?!#?[0-9A-Za-z]{1,31};)")
_GZIP_MAGIC: Final = b"\x1f\x8b"
# Whether the reader of Scrapy takes the bytes of a robots.txt, and no text.
_TAKES_BYTES: Final = version_info >= (2, 15)


def read_sitemap(body: bytes, url: str, now: int) -> Listing:
    """Return the signals of a sitemap, or the files of an index of sitemaps, for its own host's pages.

    The files of an index come newest first, those without a time last. `now` is in seconds since 1970
    UTC. Damaged XML is read as far as it goes. Raises SignalError if it is not a sitemap, declares
    entities, or is larger than `MOST_BYTES`.
    """
    listing = Listing()
    files: list[tuple[int, str]] = []
    body = _unpacked(body)
    # in the latter, & may not be a byte of its own
    if b"<![CDATA[" not in body and b"\0" not in body:
        body = _BARE_AMPERSAND.sub(b"&amp;", body)
    try:
        _, root = next(
            etree.iterparse(BytesIO(body), ("start",), recover=True, resolve_entities=False)
        )
        declared = root.getroottree().docinfo.internalDTD
        if declared is not None and next(declared.iterentities(), None) is not None:
            # which take Scrapy's reader quadratic time
            raise SignalError(f"{url}: it declares entities")
        sitemap = Sitemap(body)
        if sitemap.type not in {"urlset", "sitemapindex"}:
            raise SignalError(f"{url}: no sitemap, its root is <{sitemap.type[:40]}>")
        for entry in islice(sitemap, MOST_ENTRIES):
            url_of_entry = same_host(entry.get("loc", ""), url)
            if url_of_entry is None:
                listing.unread += 1
            elif sitemap.type == "sitemapindex":
                files.append((second_of(entry.get("lastmod", ""), now) or 0, url_of_entry))
            else:
                listing.add(url_of_entry, second_of(entry.get("lastmod", ""), now))
    except (etree.LxmlError, StopIteration, ValueError) as error:
        raise SignalError(f"{url}: no sitemap: {error or 'it is empty'}") from error
    listing.files = [file for _, file in sorted(files, key=lambda entry_of_file: -entry_of_file[0])]
    return listing


def sitemaps_of_robots(body: bytes, url: str) -> list[str]:
    """Return the sitemaps on its own host that a robots.txt names, each once."""
    robots: Any = body if _TAKES_BYTES else body.decode("utf-8", "surrogateescape")
    named = (same_host(sitemap, url) for sitemap in islice(sitemap_urls_from_robots(robots), 1000))
    return list(dict.fromkeys(sitemap for sitemap in named if sitemap is not None))


def same_host(url: str, base: str) -> str | None:
    """Return a URL as it is asked for, None if it is unusable or of another host than the base."""
    try:
        joined = urljoin(base, url.strip())
        is_same = bool(url) and urlsplit(joined).netloc.lower() == urlsplit(base).netloc.lower()
    except ValueError:
        return None
    return joined if is_same and check_url(joined) is None else None


def _unpacked(body: bytes) -> bytes:
    try:
        unpacked = gunzip(body, max_size=MOST_BYTES) if body.startswith(_GZIP_MAGIC) else body
    except Exception as error:  # Scrapy's error for too much data is private
        raise SignalError(f"cannot be unpacked: {error}") from error
    if len(unpacked) > MOST_BYTES:
        raise SignalError(f"larger than {MOST_BYTES} bytes")
    return unpacked


class SignalError(HacsError):
    """A source of signals cannot be read; the message says why."""


@dataclass(slots=True)
class Listing:
    """The content of a source's file: pages, and the second since 1970 UTC of each one's last signal.

    `files` are further files that it names. `unread` is the number of unusable entries:
    without a valid time, or for pages of other hosts.
    """

    pages: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    unread: int = 0

    def add(self, url: str, second: int | None) -> None:
        """Add an entry; of several for one page the latest counts."""
        if second is None:
            self.unread += 1
        else:
            self.pages[url] = max(second, self.pages.get(url, 0))


def second_of(text: str, now: int) -> int | None:
    """Return the second since 1970 UTC of a time in ISO 8601; None for what can be no signal.

    A day stands for its end: the page may have changed at any time of it. What lies more than a day
    after `now` is wrong.
    """
    second = parse_iso(text.strip())
    if second is None:
        return None
    with suppress(ValueError):
        date.fromisoformat(text.strip())
        second += DAY - 1
    return second if 0 < second <= min(now + DAY, MAX_SECOND) else None


# What may stand in the first line above the pages.
HEADERS: Final = {"url", "page", "loc"}


def read_pings(lines: Iterable[str], name: str, now: int) -> Iterator[tuple[str, int]]:
    """Yield pages and seconds since 1970 UTC from lines `url,time`.

    A time is in ISO 8601 or in seconds; without one it is `now`. Empty lines, and a first line of names,
    are passed over. Raises SignalError that names the line.
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
