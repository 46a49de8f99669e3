"""Pages as lines of JSON, one page a line: what `hacs export` writes and `hacs import` reads back.

The layout is described in docs/state.md. Derived fields (`surt`, `churn`, `last_visit`, `last_update`,
`gone`, and `updated`, `new_marks` and `is_page` of visits) are written for other programs, and not read
back.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct

from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import check_url, page_id_of, page_surt, without_login
from hacs_crawler.state import digests
from hacs_crawler.state.merging import RECENT_VISITS, merge_pages
from hacs_crawler.state.page import Byte, Harvest, Page, Updates
from hacs_crawler.state.spells import Spells
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import in_range, iso_text

logger = safe_logger(__name__)

T = TypeVar("T")

LAYOUT: Final = 4
# A longer line is refused, so that a damaged file cannot fill the memory; 14 million links fit.
LONGEST_LINE_BYTES: Final = 1 << 28
# How many of a file's skipped lines are logged; the others are counted.
REFUSALS_SHOWN: Final = 10

_LONGEST_TEXT_BYTES: Final = 65_535
_DIGITS: Final = 16
_HAS_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:").match
# ASCII: no character that a terminal acts on
to_json: Final = json.JSONEncoder(allow_nan=False).encode

Unsigned31 = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Unsigned32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
NotNegative = Annotated[float, Meta(ge=0)]


class _Visit(Struct):
    at: datetime


class _Digest(Struct):
    at: datetime
    number: Unsigned31
    repeats: bool


class _Rules(Struct):
    since: datetime
    fingerprint: Unsigned32


class _Spells(Struct):
    first_seen: datetime
    last_seen: datetime | None
    fingerprints: Annotated[list[str], Meta(min_length=1)]


class _Harvest(Struct):
    source: Unsigned32
    until: datetime | None
    digest: str


class _Line(Struct):
    hacs: Annotated[int, Meta(ge=LAYOUT, le=LAYOUT)]
    url: str
    rate_per_day: NotNegative
    gone_in_a_row: Byte
    failures: Byte
    last_news: datetime | None
    not_before: datetime | None
    etag: str
    last_modified: str
    visits: list[_Visit]
    digests: list[_Digest]
    contents: list[Unsigned31]
    rules: list[_Rules]
    marks: list[_Spells]
    harvests: list[_Harvest]
    updates: Updates
    echoes: list[datetime] = []
    unread: list[datetime] = []


_LINES: Final = msgspec.json.Decoder(_Line)


class UnvisitableError(ValueError):
    """A line is valid, but no crawl could visit its page."""


class ExportError(HacsError):
    """An export cannot be read; the message names file and line."""


def is_export(beginning: bytes, key: bytes = b"hacs") -> bool:
    """Whether a file that begins like this is an export: the first line is an object with that key."""
    pattern = rb'(?:\xef\xbb\xbf)?\s*\{(?:.*[{,])?\s*"%b"\s*:' % key
    return re.match(pattern, beginning.partition(b"\n")[0]) is not None


def page_lines(pages: Iterable[Page | None]) -> Iterator[bytes]:
    """Yield each page as a line of JSON, an empty line for a damaged page."""
    for page in pages:
        line = b""
        if page is not None:
            try:
                line = to_line(page)
            except ValueError as error:
                logger.error("the page %s cannot be exported: %s", page.url, error)
        yield line


def to_line(page: Page) -> bytes:
    """Return the page as a line of JSON; raises ValueError for an invalid URL or rate."""
    # damaged: an import would refuse the whole file
    if _HAS_SCHEME(page.url) is None:
        raise ValueError("it has no valid URL")
    sound = page.sound
    updated = {bisect_left(sound.visits, at) for at in sound.update_times} - {0}
    by_second = {
        at: {"updated": index in updated, "new_marks": number}
        for index, (at, number) in enumerate(
            zip(sound.visits, sound.new_marks_by_visit(), strict=True)
        )
    }
    visits = [{"at": iso_text(at), **by_second.get(at, {"is_page": False})} for at in page.visits]
    fields = {
        "hacs": LAYOUT,
        "url": page.url,
        "surt": page_surt(page.url),
        "rate_per_day": page.rate,
        "churn": page.churn,
        "last_visit": iso_text(page.last_visit),
        "updates": page.updates,
        "last_update": iso_text(sound.last_update),
        "gone": page.gone > 0,
        "gone_in_a_row": page.gone,
        "failures": page.failures,
        # an import refuses a page whose last_news is before its last visit
        "last_news": iso_text(max(page.last_news, page.last_visit or 0)),
        "not_before": iso_text(page.not_before),
        "etag": page.etag,
        "last_modified": page.last_modified,
        "visits": visits,
        "digests": [
            {"at": iso_text(at), "number": mark >> 1, "repeats": bool(mark & 1)}
            for at, mark in page.digests.items()
        ],
        "contents": page.contents,
        "echoes": [iso_text(at) for at in page.echoes],
        "unread": [iso_text(at) for at in page.unread],
        "rules": [
            {"since": iso_text(at), "fingerprint": rules} for at, rules in page.rule_changes.items()
        ],
        "marks": [
            {
                "first_seen": iso_text(first),
                "last_seen": iso_text(last),
                "fingerprints": to_hex(marks),
            }
            for first, last, marks in page.spells.each()
        ],
        "harvests": [
            {
                "source": number,
                "until": iso_text(harvest.until),
                "digest": to_hex([harvest.digest])[0],
            }
            for number, harvest in sorted(page.harvests.items())
        ],
    }
    return to_json(fields).encode() + b"\n"


def from_line(line: bytes) -> Page:
    """Return the page of a line; raises ValueError that names the fault."""
    fields = decoded(_LINES, line)
    for name in ("url", "etag", "last_modified"):
        if len(getattr(fields, name).encode()) > _LONGEST_TEXT_BYTES:
            raise ValueError(f"{name!r} is longer than {_LONGEST_TEXT_BYTES} bytes")
    since = _ascending("rules", [change.since for change in fields.rules])
    captures = {
        second_of("digests", digest.at): digest.number << 1 | digest.repeats
        for digest in fields.digests
    }
    page = Page(
        url=_url(fields.url),
        visits=array("I", _ascending("visits", [visit.at for visit in fields.visits])),
        rule_changes=dict(zip(since, [change.fingerprint for change in fields.rules], strict=True)),
        last_news=second_of("last_news", fields.last_news),
        gone=fields.gone_in_a_row,
        failures=fields.failures,
        not_before=second_of("not_before", fields.not_before),
        rate=fields.rate_per_day,
        etag=fields.etag,
        last_modified=fields.last_modified,
        harvests={
            one.source: Harvest(
                one.source, second_of("until", one.until), from_hex([one.digest])[0]
            )
            for one in fields.harvests
        },
        digests=dict(sorted(captures.items())),
        contents=digests.union_of_contents(fields.contents, []),
        echoes=_ascending("echoes", fields.echoes),
        unread=_ascending("unread", fields.unread),
        updates=fields.updates,
    )
    page.spells = _spells(fields.marks, page.shown_at)
    if page.visits and page.last_news < page.visits[-1]:
        raise ValueError("'last_news' is before the last of 'visits'")
    # merging thins visits
    return merge_pages(page, page) if len(page.visits) > RECENT_VISITS or page.digests else page


def decoded(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    """Return the value of a line; raises ValueError that names the fault and the field."""
    try:
        return decoder.decode(line)
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error
    except msgspec.ValidationError as error:
        if str(error).endswith(("$.hacs`", "$.hacs_outcome`")):
            raise ValueError(f"a layout that this version cannot read: {error}") from error
        raise


def read_export(lines: Iterable[bytes], name: str) -> Iterator[Page]:
    """Yield the pages of an export, see `read_lines_as`."""
    return read_lines_as(from_line, lines, name)


def read_lines_as(
    from_line: Callable[[bytes], T], lines: Iterable[bytes], name: str
) -> Iterator[T]:
    """Yield the result of `from_line` for each line that is not empty, reading lazily.

    Lines whose pages no crawl could visit are skipped; the first `REFUSALS_SHOWN` are logged, and the
    total. Raises ExportError, with `name` and the line number, at the first invalid line, and passes on
    read errors.
    """
    refused = 0
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
        if not text:
            continue
        try:
            if len(line) >= LONGEST_LINE_BYTES:
                raise ValueError(f"longer than {LONGEST_LINE_BYTES} bytes")  # noqa: TRY301
            yield from_line(text)
        except UnvisitableError as error:
            refused += 1
            if refused <= REFUSALS_SHOWN:
                logger.warning("%s, line %d: %s; skipped", name, number, error)
        except ValueError as error:
            raise ExportError(f"{name}, line {number}: {error}") from error
    if refused > REFUSALS_SHOWN:
        logger.warning("%s: %d lines are skipped, whose pages cannot be visited", name, refused)


def to_hex(fingerprints: Sequence[int]) -> list[str]:
    """Return fingerprints in hexadecimal, in the order of the hash's bytes."""
    return np.array(fingerprints, "<i8").tobytes().hex(" ", _DIGITS // 2).split()


def from_hex(texts: Sequence[str]) -> array[int]:
    """Return the fingerprints that `to_hex` wrote; raises ValueError for anything else."""
    packed = b""
    if all(len(text) == _DIGITS for text in texts):
        with suppress(ValueError):
            packed = bytes.fromhex("".join(texts))
    if len(packed) != _DIGITS // 2 * len(texts):  # fromhex ignores white space
        raise ValueError(f"fingerprints have to be texts of {_DIGITS} hexadecimal digits")
    return array("q", np.frombuffer(packed, "<i8").tolist())


def second_of(name: str, moment: datetime | None) -> int:
    """Return a time in seconds since 1970 UTC, 0 for None; raises ValueError with `name`."""
    if moment is None:
        return 0
    second = in_range(moment)
    if second is None:
        raise ValueError(f"{name!r} is not a time in 1970-2106: {moment.isoformat()}")
    return second


def _url(url: str) -> str:
    if _HAS_SCHEME(url) is None:
        raise ValueError(f"'url' is not a URL: {url[:200]!r}")
    try:
        page_id_of(url)
    except ValueError as error:
        raise ValueError(f"'url' is impossible: {url[:200]!r}: {error}") from error
    if problem := check_url(url):
        raise UnvisitableError(f"{problem}: {without_login(url)[:200]!r}")
    return url


def _spells(spells: list[_Spells], shown_at: array[int]) -> Spells:
    periods, marks, before = array("I"), array("q"), (0, 0)
    for spell in spells:
        first = second_of("first_seen", spell.first_seen)
        last = second_of("last_seen", spell.last_seen)
        if first not in shown_at or (last and last not in shown_at) or 0 < last < first:
            raise ValueError("an entry of 'marks' begins or ends at no visit that showed marks")
        if (first, last) <= before:
            raise ValueError("'marks' are not in ascending order of time")
        before = first, last
        periods.extend((first, last, len(spell.fingerprints)))
        marks.extend(sorted(from_hex(spell.fingerprints)))
    return Spells(periods, marks)


def _ascending(name: str, moments: Iterable[datetime]) -> list[int]:
    times = [second_of(name, moment) for moment in moments]
    if any(at >= following for at, following in pairwise(times)):
        raise ValueError(f"{name!r} is not in ascending order of time")
    return times
