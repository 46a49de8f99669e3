"""Requests the captures of pages from an archive's index, for each kind of index.

A CDX server returns rows in chunks (`harvest.query`); Common Crawl has a server for each crawl,
and a list of them. A TimeMap names the mementos of one page, without digests; a TimeGate or
aggregator names the TimeMap in its Link header (RFC 7089).
"""

import json
from collections import deque
from typing import Any, Final
from urllib.parse import urljoin

from scrapy.http import Response

from hacs_crawler.archive import (
    ArchiveError,
    ArchiveKind,
    Capture,
    Cleaning,
    key_of,
    parts_of,
    raw_uri,
    read_timemap,
    timemaps_in,
)
from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.asking import CDX_SLOT, Asker, StoppedError, TooMuchError, UnansweredError
from hacs_crawler.harvest.memento import BlockedError, first_line, is_blocked
from hacs_crawler.harvest.query import IndexAnswer, Site, Span, answer_of, query_url, read_answer
from hacs_crawler.links import check_url
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import parse_iso

logger = safe_logger(__name__)

# Names of Scrapy's and Twisted's exceptions for a missing host or network.
NO_HOST: Final = frozenset({"CannotResolveHostError", "DNSLookupError"})
# How many parts of a TimeMap are requested.
MOST_PARTS: Final = 100
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


async def cdx_answer(asker: Asker, site: Site, span: Span, limit: int) -> IndexAnswer:
    """Request up to `limit` rows from a CDX server.

    Raises BlockedError, UnansweredError, and as `Asker.get`.
    """
    address = asker.address
    url = query_url(span.index or address.index_url, site, span, limit)
    body = _cdx_rows(await _requested(asker, url, is_whole=False))
    warc_url = address.memento_url if address.kind is ArchiveKind.COLLINFO else ""
    try:
        return await asker.in_thread(read_answer, body, url, site, span, warc_url)
    except ArchiveError as error:
        raise UnansweredError(str(error)) from error


async def crawl_indexes(asker: Asker) -> list[Span]:
    """Return the span and the index of each of Common Crawl's crawls, the oldest first.

    Raises UnansweredError, and as `Asker.get`.
    """
    url = asker.address.index_url
    response = await _requested(asker, url)
    if response.status != 200:
        raise UnansweredError(_unanswered(response))
    try:
        indexes = []
        for entry in json.loads(response.body):
            # without a time, the captures may be of any time
            since, until = (parse_iso(str(entry.get(key, ""))) for key in ("from", "to"))
            indexes.append(Span(since or 0, until or 2**32 - 1, index=str(entry["cdx-api"])))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        msg = f"{url} is not a list of crawls like Common Crawl's collinfo.json: {error!r}"
        raise UnansweredError(msg) from error
    return sorted(indexes, key=lambda span: (span.since, span.index))


async def timemap_answer(asker: Asker, url: str, site: Site, span: Span) -> IndexAnswer:
    """Request a TimeMap, with all its parts.

    Raises BlockedError, UnansweredError, and as `Asker.get`.
    """
    left, asked, captures_listed, dropped = deque([url]), {url}, list[Capture](), Cleaning()
    while left:
        if len(asked) > MOST_PARTS:
            logger.warning("%s: more than %d parts; the others are left out", url, MOST_PARTS)
            break
        part = left.popleft()
        body = _timemap(await _requested(asker, part))
        if not body:
            continue
        try:
            captures, more = await asker.in_thread(_read_part, body, part, dropped)
        except ArchiveError as error:
            raise UnansweredError(str(error)) from error
        captures_listed += captures
        left.extend(url_left for url_left in dict.fromkeys(more) if url_left not in asked)
        asked.update(more)
    return await asker.in_thread(answer_of, captures_listed, site, span, dropped)


async def timegate_answer(asker: Asker, site: Site, span: Span) -> IndexAnswer:
    """Request a page's TimeMap through a TimeGate.

    If it does not name a TimeMap, the mementos that it names are returned. Raises as `timemap_answer`.
    """
    url = f"{asker.address.index_url}{site.homepage}"
    response = await _requested(asker, url, dont_redirect=True)
    links = b", ".join(response.headers.getlist(b"Link"))
    if response.status not in {200, *_REDIRECTS}:
        # raises for an error; returns if the archive does not know the page
        _timemap(response)
        return answer_of([], site, span, Cleaning())
    try:
        timemaps = timemaps_in(links)
        if timemaps and check_url(timemap := urljoin(url, timemaps[0])) is None:
            return await timemap_answer(asker, timemap, site, span)
        dropped = Cleaning()
        return answer_of(_captures(links, url, dropped), site, span, dropped)
    except ArchiveError as error:
        raise UnansweredError(f"{url} is not a TimeGate: {error}") from error


async def _requested(asker: Asker, url: str, *, is_whole: bool = True, **meta: Any) -> Response:
    """Return an answer; Scrapy retries only requests that cannot be made smaller (`is_whole`)."""
    try:
        response = await asker.get(url, CDX_SLOT, **meta, dont_retry=not is_whole)
    except HacsError:
        raise
    except Exception as error:
        kind = UnansweredError if is_whole or type(error).__name__ in NO_HOST else TooMuchError
        raise kind(f"{url}: {type(error).__name__}: {error}") from error
    if asker.is_stopped:
        raise StoppedError
    return response


def _cdx_rows(response: Response) -> bytes:
    """Return the rows of a CDX server's answer; raises if it is an error."""
    body: bytes = response.body.strip()
    is_json = body[:1] in {b"[", b"{"}
    if (not is_json or len(body) < 1_000) and is_blocked(response):
        raise BlockedError(f"{response.url}: {first_line(response)}")
    if response.status == 404 and b"no captures" in body[:2_000].lower():
        return b""
    if response.status != 200:
        is_much = response.status >= 500 or response.status in {408, 413}
        raise (TooMuchError if is_much else UnansweredError)(_unanswered(response))
    if body[:1] == b"<":
        raise TooMuchError(f"{response.url} answered with HTML")
    if body[:1] == b"[" and body[-1:] != b"]":
        raise TooMuchError(f"{response.url}: the answer is cut off")
    return response.body


def _unanswered(response: Response) -> str:
    return f"{response.url} answered {response.status}: {first_line(response)}"


def _timemap(response: Response) -> bytes:
    """Return a TimeMap, b"" if it is missing; raises if the answer is an error."""
    if is_blocked(response):
        raise BlockedError(f"{response.url}: {first_line(response)}")
    if response.status == 404:
        return b""
    if response.status != 200:
        raise UnansweredError(_unanswered(response))
    return response.body


def _read_part(body: bytes, url: str, dropped: Cleaning) -> tuple[list[Capture], list[str]]:
    """Return the captures in a part of a TimeMap, and the URLs of other parts."""
    parts = [urljoin(url, part) for part in parts_of(body)]
    return _captures(body, url, dropped), [part for part in parts if check_url(part) is None]


def _captures(timemap: bytes, name: str, dropped: Cleaning) -> list[Capture]:
    """Return the captures in a TimeMap, except those with unusable URLs."""
    listed = []
    for entry in read_timemap(timemap, name, dropped):
        address = raw_uri(urljoin(name, entry.uri))
        if check_url(address) is None:
            key = key_of(entry.url)[0]
            listed.append(Capture(key, entry.url, entry.at, None, "text/html", "", address))
        else:
            dropped["not_http"] += 1
    return listed
