"""A page as bytes, and the row of numbers that ranking needs of it.

Both stores keep these bytes. Layout 1, little-endian: a header, the texts in UTF-8, then the visits'
times (4 bytes each), the times of content changes (4), the runs of links (8), the links (8 each) and
the harvests (16 each). Layout 2 is that of pages that keep less of their links: the header names the
level, and links take 4 or 2 bytes each. Layout 3 is either, with the number of pairs of digests, these
(8 bytes each), and contents (4 bytes each) at the end. Layout 4 is as layout 3 with the rate's log_sd
after the rate. Layout 5, the one that is written, has the page's churn and churning after that. Behind
the harvests it has the number of changes of link rules, and these (8 bytes each), the numbers of pairs
of digests and of contents, twice that of echoes (one more where the page is in its site's memory), these
lists (4 bytes each), and the times at which links were last seen: the latest of these times, and the
places and the times of the links with other ones. Versions that know only earlier layouts refuse it.
A page of 100 links and 50 visits with 10 updates takes about 1.2 KB.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from operator import lt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import site_id
from hacs_crawler.state.link_sample import COARSEST, new_array
from hacs_crawler.state.page import Harvest, Page, Updates
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

LAYOUTS: Final = 1, 2, 3, 4, 5
_HEADER: Final = struct.Struct("<BBBBIIIIdfffHHHHIIII")
_HEADER_OF_4: Final = struct.Struct("<BBBBIIIIdfHHHHIIII")
_HEADER_UP_TO_3: Final = struct.Struct("<BBBBIIIIdHHHHIIII")
_HEADERS: Final = {5: _HEADER, 4: _HEADER_OF_4}
_HARVEST: Final = struct.Struct("<IIq")
VERSION_OFFSET: Final = 4
"""Where the four bytes of a page's version stand in its bytes; the Redis script compares them."""
_LAST_VERSION: Final = 2**32 - 1
_LONGEST_TEXT: Final = 65_535
_BELOW_INF: Final = np.finfo(np.float64).max

ROW: Final = np.dtype(
    [
        ("rate", "<f8"),
        ("last_visit", "<u4"),
        ("last_update", "<u4"),
        ("not_before", "<u4"),
        ("visits", "<u2"),
        ("updates", "<u2"),
        ("failures", "u1"),
        ("before_update", "<u4"),
        ("site", "<u4"),
        ("log_sd", "<f4"),
        ("churn", "<f2"),
        ("churning", "<f2"),
        ("is_baseline", "u1"),
    ]
)
"""What ranking needs of a page: rate in 1/day and its log_sd, churn and churning (see `model.Rates`),
times in seconds since 1970 UTC, counts.

`last_visit` is 0 where the page was never seen. `last_update` is, where no update is known (`updates` is
0), the first visit or the last baseline: from then on the page is known not to have changed.
`before_update` is the visit before the last one that found an update, 0 where there is none; `site` is
`site_id` of the page's URL. `failures` counts the 404s and 410s, too, of a page that was never seen.
`is_baseline` is 1 where the last visit is one (`Page.baselines`).
"""
UNKNOWN_ROW: Final = np.zeros(1, ROW)


def encode_page(page: Page) -> bytes:
    """Return the page's bytes."""
    url, etag, last_modified = (
        text.encode("utf-8", "replace")[:_LONGEST_TEXT]
        for text in (page.url, page.etag, page.last_modified)
    )
    header = _HEADER.pack(
        LAYOUTS[-1],
        page.gone,
        page.failures,
        page.link_level,
        page.version,
        page.links_since,
        page.last_news,
        page.not_before,
        page.rate,
        page.log_sd,
        page.churn,
        page.churning,
        len(url),
        len(etag),
        len(last_modified),
        len(page.harvests),
        len(page.visits),
        len(page.content_changes),
        len(page.runs) // 2,
        len(page.links),
    )
    numbers = (page.visits, page.content_changes, page.runs, page.links)
    harvests = [
        _HARVEST.pack(one.source, one.until, one.digest) for _, one in sorted(page.harvests.items())
    ]
    tail = array("I", [len(page.rule_changes) // 2])
    tail += page.rule_changes
    echoes = len(page.echoes) << 1 | page.is_in_site
    tail.extend((len(page.digests) // 2, len(page.contents), echoes))
    for times in (page.digests, page.contents, page.echoes):
        tail += times
    tail.extend(_packed_last_seen(page.last_seen))
    parts = [header, url, etag, last_modified, *map(_to_bytes, numbers), *harvests, _to_bytes(tail)]
    return b"".join(parts)


def decode_page(body: bytes) -> Page:
    """Return the page whose bytes these are.

    Raises StateError where they are damaged or of a layout that this version does not know.
    """
    if not body or body[0] not in LAYOUTS:
        found = f"layout {body[0]}" if body else "nothing"
        msg = f"a stored page is damaged or newer than this version: found {found}, not 1 to 5"
        raise StateError(msg)
    try:
        return _decode(memoryview(body))
    except (struct.error, ValueError, IndexError) as error:
        msg = f"a stored page of {len(body)} bytes is damaged: {error}"
        raise StateError(msg) from error


def decode_pages(bodies: Mapping[int, bytes]) -> dict[int, Page]:
    """Return pages by id without those that are damaged, which are logged."""
    pages: dict[int, Page] = {}
    for page_id, body in bodies.items():
        try:
            pages[page_id] = decode_page(body)
        except StateError as error:
            logger.error("the page with id %d cannot be read: %s", page_id, error)
    return pages


def _decode(body: memoryview) -> Page:
    header = _HEADERS.get(body[0], _HEADER_UP_TO_3)
    (layout, gone, failures, level, version, since, news, not_before, rate, *rest) = (
        header.unpack_from(body)
    )
    sizes = rest[-8:]
    log_sd, churn, churning = (*rest[:-8], 0.0, 0.0, 0.0)[:3]
    if (layout < 3 and (level > 0) != (layout > 1)) or level > COARSEST:
        msg = f"layout {layout} with level {level} of links"
        raise ValueError(msg)
    texts, harvests, counts = sizes[:3], sizes[3], sizes[4:]
    at = header.size
    parts: list[str] = []
    for size in texts:
        parts.append(str(body[at : at + size], "utf-8", "replace") if size else "")
        at += size
    arrays = []
    empty = (array("I"), array("I"), array("I"), new_array(level))
    for numbers, count in zip(empty, (counts[0], counts[1], 2 * counts[2], counts[3]), strict=True):
        end = at + count * numbers.itemsize
        numbers.frombytes(body[at:end])
        if sys.byteorder == "big":
            numbers.byteswap()
        arrays.append(numbers)
        at = end
    end = at + harvests * _HARVEST.size
    digests = contents = echoes = rule_changes = array("I")
    is_in_site = False
    last_seen = array("I", bytes(4 * counts[3]))
    if layout == 5:
        tail = _numbers(body[end:])
        rule_changes = _rule_changes(tail)
        after = 1 + len(rule_changes)
        digests, contents, echoes, is_in_site, last_seen = _after_links(tail, after, counts[3])
    elif layout >= 3:
        digests, contents = _digests(_numbers(body[end:]), may_be_none=layout > 3)
    elif end != len(body):
        msg = f"its counts ask for {end} bytes"
        raise ValueError(msg)
    visits, content_changes, runs, links = arrays
    is_rate = 0.0 <= rate < math.inf and 0.0 <= log_sd < math.inf
    is_rate = is_rate and 0.0 <= churn <= 1.0 and 0.0 <= churning <= 1.0
    if sum(runs[1::2]) != len(links) or not is_rate or version >= _LAST_VERSION:
        msg = (
            f"its numbers cannot be: {len(links)} links, rate {rate}, log_sd {log_sd}, "
            f"churn {churn}, churning {churning}, version {version}"
        )
        raise ValueError(msg)
    if not _is_ascending(visits):
        raise ValueError("its visits are not in the order of time")
    return Page(
        url=parts[0],
        visits=visits,
        runs=runs,
        links=links,
        last_seen=last_seen,
        content_changes=content_changes,
        link_level=level,
        links_since=since,
        last_news=news,
        gone=gone,
        failures=failures,
        not_before=not_before,
        rate=rate,
        log_sd=log_sd,
        churn=churn,
        churning=churning,
        version=version,
        etag=parts[1],
        last_modified=parts[2],
        harvests={
            source: Harvest(source, until, digest)
            for source, until, digest in _HARVEST.iter_unpack(body[at:end])
        },
        digests=digests,
        contents=contents,
        rule_changes=rule_changes,
        echoes=echoes,
        is_in_site=is_in_site,
    )


def encode_row(page: Page, updates: Updates = "page") -> bytes:
    """Return the page's ranking row, one element of dtype `ROW`."""
    visits = page.visits
    times = page.updates_of(updates)
    baselines = [bisect_left(visits, at) for at in page.baselines]
    no_gaps = {0, len(visits), *baselines}
    gaps_with_update = {bisect_left(visits, at) for at in times} - no_gaps
    first = visits[0] if visits else 0
    since = visits[baselines[-1]] if baselines and baselines[-1] < len(visits) else first
    row = (
        page.rate,
        visits[-1] if visits else 0,
        max(first, times[-1]) if times else since,
        page.not_before,
        min(len(visits), 65_535),
        min(len(gaps_with_update), 65_535),
        page.failures if visits else min(page.failures + page.gone, 255),
        _visit_before(visits, times[-1]) if times else 0,
        site_id(page.url),
        page.log_sd,
        page.churn,
        page.churning,
        since == visits[-1] > first if visits else False,
    )
    return _ROW.pack(*row)


def unsound(rows: NDArray[np.void]) -> NDArray[np.intp]:
    """Return the places of ranking rows whose rate is no rate, or its log_sd, churn or churning none."""
    is_sound = np.ones(len(rows), np.bool_)
    for name, most in (
        ("rate", _BELOW_INF),
        ("log_sd", _BELOW_INF),
        ("churn", 1.0),
        ("churning", 1.0),
    ):
        is_sound &= (rows[name] >= 0.0) & (rows[name] <= most)
    return np.flatnonzero(~is_sound)


def row_of(body: bytes) -> bytes:
    """Return the ranking row of a page's bytes, that of an unknown page where they are damaged."""
    try:
        return encode_row(decode_page(body))
    except StateError:
        return UNKNOWN_ROW.tobytes()


_ROW: Final = struct.Struct("<dIIIHHBIIfeeB")


def _visit_before(visits: array[int], at: int) -> int:
    place = bisect_left(visits, at)
    return visits[place - 1] if 0 < place < len(visits) else 0


def _packed_last_seen(last_seen: array[int]) -> list[int]:
    """Return the latest of the times, and the places and times of links with other ones, mostly few."""
    latest = max(last_seen, default=0)
    if last_seen.count(latest) == len(last_seen):
        return [latest, 0]
    places = [place for place, at in enumerate(last_seen) if at != latest]
    return [latest, len(places), *places, *[last_seen[place] for place in places]]


def _after_links(
    numbers: array[int], at: int, links: int
) -> tuple[array[int], array[int], array[int], bool, array[int]]:
    """Return digests, contents, echoes, `is_in_site`, and when so many links were last seen.

    They begin `at` a place in the numbers.
    """
    pairs, contents, echoes = numbers[at], numbers[at + 1], numbers[at + 2] >> 1
    is_in_site = bool(numbers[at + 2] & 1)
    start = at + 3
    end = start + 2 * pairs + contents + echoes
    if end == start:  # as of nearly all pages that no archive was asked for
        times, found = array("I"), (array("I"), array("I"))
    else:
        times = numbers[end - echoes : end]
        found = _digests(array("I", [pairs]) + numbers[start : end - echoes], may_be_none=True)
        if len(numbers) < end or not _is_ascending(times):
            raise ValueError("its echoes are cut, or not in the order of time")
    return (*found, times, is_in_site, _last_seen(numbers, end, links))


def _last_seen(numbers: array[int], at: int, links: int) -> array[int]:
    """Return when so many links were last seen, as `_packed_last_seen` wrote it at a place."""
    latest, number = numbers[at], numbers[at + 1]
    if len(numbers) != at + 2 + 2 * number:
        raise ValueError("the times at which its links were last seen are cut")
    last_seen = array("I", [latest]) * links
    for place in range(at + 2, at + 2 + number):
        last_seen[numbers[place]] = numbers[place + number]
    return last_seen


def _rule_changes(numbers: array[int]) -> array[int]:
    """Return the changes of link rules that numbers begin with."""
    changes = numbers[1 : 1 + 2 * numbers[0]]
    if len(changes) != 2 * numbers[0] or not _is_ascending(changes[::2]):
        raise ValueError("its changes of link rules are cut, or not in the order of time")
    return changes


def _digests(numbers: array[int], *, may_be_none: bool) -> tuple[array[int], array[int]]:
    end = 1 + 2 * numbers[0]
    digests, contents = numbers[1:end], numbers[end:]
    is_whole = (numbers[0] > 0 or may_be_none) and len(digests) == 2 * numbers[0]
    if not is_whole or not _is_ascending(digests[::2]):
        raise ValueError("its digests are cut, or not in the order of time")
    if not _is_ascending(contents):
        raise ValueError("its contents are not in order")
    return digests, contents


def _is_ascending(numbers: array[int]) -> bool:
    return len(numbers) < 2 or all(map(lt, numbers, numbers[1:]))


def _numbers(body: memoryview) -> array[int]:
    numbers = array("I")
    numbers.frombytes(body)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _to_bytes(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
