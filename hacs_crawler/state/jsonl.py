"""Pages as lines of JSON, one page a line: what `hacs export` writes and `hacs import` reads back.

The layout is described in docs/state.md. What follows from the rest (`surt`, `churn`, `last_visit`,
`last_update`, `gone`, and of each visit `updated` and `new_links`) is written for other readers, and
not read.
"""

from __future__ import annotations

import json
import math
import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import Any, Final, TypeVar

from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import check_url, page_id_of, page_surt, without_login
from hacs_crawler.state import digests
from hacs_crawler.state.link_sample import COARSEST, kept, new_array
from hacs_crawler.state.page import RECENT_VISITS, Harvest, Page, merge_pages
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import parse_iso

logger = safe_logger(__name__)

T = TypeVar("T")

LAYOUT: Final = 1
NARROW_LAYOUT: Final = 2
"""Of pages that do not keep everything of their links, so that older versions refuse them."""
DIGEST_LAYOUT: Final = 3
"""Of pages of which digests are known; these may keep less of their links too."""
LAST_LAYOUT: Final = 4
"""Of pages of which it is known when links were last seen, and by which rules they were taken; else as
the layout before. It is the one that is written."""
LONGEST_LINE_BYTES: Final = 1 << 28
"""A longer line is refused; 14 million links fit. It bounds the memory that a damaged file takes."""
REFUSALS_SHOWN: Final = 10
"""So many lines of a file are named that are passed over; the others are counted."""

_LONGEST_TEXT_BYTES: Final = 65_535
_MOST_ATTEMPTS: Final = 255
_MAX_DIGEST: Final = 2**31 - 1
_MAX_SOURCE: Final = 2**32 - 1
_MAX_RULES: Final = 2**32 - 1
_BEGINNING: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{(?:.*[{,])?\s*"hacs"\s*:')
to_json: Final = json.JSONEncoder(allow_nan=False).encode
_HAS_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:").match


class UnvisitableError(ValueError):
    """A line is sound, but no crawl could visit its page."""


class ExportError(HacsError):
    """An export cannot be read to its end; the message names file and line."""


def is_export(beginning: bytes) -> bool:
    """Whether a file that begins like this is an export: JSON objects with the key `hacs`."""
    return _BEGINNING.match(beginning.partition(b"\n")[0]) is not None


def to_line(page: Page) -> bytes:
    """Return the page as a line of JSON; raises ValueError if its rate is no number."""
    updates = {bisect_left(page.visits, at) for at in page.update_times} - {0}
    numbers = page.new_links_by_visit()
    visits = [
        {"at": iso(at), "updated": index in updates, "new_links": numbers[index]}
        for index, at in enumerate(page.visits)
    ]
    fields = {
        "hacs": LAST_LAYOUT,
        "url": page.url,
        "surt": page_surt(page.url),
        "rate_per_day": page.rate,
        "churn": page.churn,
        "last_visit": iso(page.last_visit),
        "last_update": iso(page.last_update),
        "gone": page.gone > 0,
        "gone_in_a_row": page.gone,
        "failures": page.failures,
        "last_news": iso(page.last_news),
        "not_before": iso(page.not_before),
        "etag": page.etag,
        "last_modified": page.last_modified,
        "visits": visits,
        "content_changes": [iso(at) for at in page.content_changes],
        "digests": [
            {"at": iso(at), "number": mark >> 1, "repeats": bool(mark & 1)}
            for at, mark in digests.pairs(page.digests)
        ],
        "contents": list(page.contents),
        "echoes": [iso(at) for at in page.echoes],
        "links_since": iso(page.links_since),
        "link_rules": [
            {"since": iso(at), "fingerprint": rules}
            for at, rules in digests.pairs(page.rule_changes)
        ],
        "link_level": page.link_level,
        "links": [
            {
                "first_seen": iso(at),
                "fingerprints": to_hex(links, page.link_level),
                "last_seen": _times(last),
            }
            for at, links, last in _runs(page)
        ],
        "harvests": [
            {"source": one.source, "until": iso(one.until), "digest": to_hex([one.digest])[0]}
            for _, one in sorted(page.harvests.items())
        ],
    }
    return to_json(fields).encode() + b"\n"


def from_line(line: bytes) -> Page:
    """Return the page of a line; raises ValueError that says what is wrong with it."""
    fields = Fields(parsed(line))
    layout = fields.count("hacs", sys.maxsize)
    if not LAYOUT <= layout <= LAST_LAYOUT:
        raise ValueError(f"'hacs' is layout {layout}, this version of hacs-crawler knows 1 to 4")
    page = Page(
        url=_url(fields.text("url")),
        visits=_ascending("visits", [one.second("at") for one in fields.objects("visits")]),
        content_changes=_ascending("content_changes", fields.seconds("content_changes")),
        link_level=fields.count("link_level", COARSEST) if layout > LAYOUT else 0,
        links_since=fields.second_or_0("links_since"),
        last_news=fields.second_or_0("last_news"),
        gone=fields.count("gone_in_a_row", _MOST_ATTEMPTS),
        failures=fields.count("failures", _MOST_ATTEMPTS),
        not_before=fields.second_or_0("not_before"),
        rate=fields.rate("rate_per_day"),
        etag=fields.text("etag"),
        last_modified=fields.text("last_modified"),
        harvests=_harvests(fields),
        digests=_digests(fields) if layout >= DIGEST_LAYOUT else array("I"),
        contents=_contents(fields) if layout >= DIGEST_LAYOUT else array("I"),
        rule_changes=_rule_changes(fields) if layout >= LAST_LAYOUT else array("I"),
        echoes=_ascending("echoes", fields.seconds("echoes") if fields.has("echoes") else []),
    )
    _add_links(page, fields.objects("links"))
    if page.visits and page.last_news < page.visits[-1]:
        raise ValueError("'last_news' is before the last of 'visits'")
    is_long = max(len(page.visits), len(page.content_changes)) > RECENT_VISITS
    return merge_pages(page, page) if is_long or page.digests else page  # merging thins


def read_export(lines: Iterable[bytes], name: str) -> Iterator[Page]:
    """Yield the pages of an export, reading as they are asked for.

    A line whose page no crawl could visit is passed over; the first of these are logged, and how many
    there are. Raises ExportError, with `name` and a line number, at the first line that is no page, and
    passes on what reading raises.
    """
    number = refused = 0

    def numbered() -> Iterator[bytes]:
        nonlocal number
        for line in lines:
            number += 1
            yield line

    for found in read_objects(numbered(), name, _page_or_problem):
        if isinstance(found, Page):
            yield found
            continue
        refused += 1
        if refused <= REFUSALS_SHOWN:
            logger.warning("%s, line %d: %s; skipped", name, number, found)
    if refused > REFUSALS_SHOWN:
        logger.warning("%s: %d lines are skipped, whose pages cannot be visited", name, refused)


def _page_or_problem(line: bytes) -> Page | str:
    """Return the page of a line, or why no crawl could visit it."""
    try:
        return from_line(line)
    except UnvisitableError as error:
        return str(error)


def read_objects(lines: Iterable[bytes], name: str, from_line: Callable[[bytes], T]) -> Iterator[T]:
    """Yield what `from_line` makes of each line that is not empty; see `read_export`."""
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
        if not text:
            continue
        try:
            if len(line) >= LONGEST_LINE_BYTES:
                raise ValueError(f"longer than {LONGEST_LINE_BYTES} bytes")  # noqa: TRY301
            yield from_line(text)
        except ValueError as error:
            raise ExportError(f"{name}, line {number}: {error}") from error


def to_hex(fingerprints: Sequence[int], level: int = 0) -> list[str]:
    """Return fingerprints, or what a level keeps of them, in hexadecimal, as the hash's bytes come."""
    numbers = new_array(level)
    numbers.extend(fingerprints)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes().hex(" ", numbers.itemsize).split()


def from_hex(texts: Sequence[object], level: int = 0) -> array[int]:
    """Return the numbers that `to_hex` wrote; raises ValueError for anything else."""
    numbers = new_array(level)
    digits = 2 * numbers.itemsize
    packed = b""
    if all(isinstance(text, str) and len(text) == digits for text in texts):
        with suppress(ValueError):
            packed = bytes.fromhex("".join(map(str, texts)))
    if len(packed) != numbers.itemsize * len(texts):  # fromhex passes over white space
        raise ValueError(f"fingerprints have to be texts of {digits} hexadecimal digits")
    numbers.frombytes(packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def iso(second: int | None) -> str | None:
    """Return a second since 1970 UTC in ISO 8601, None for none."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:-6] + "Z" if second else None


def _runs(page: Page) -> Iterator[tuple[int, array[int], array[int]]]:
    start = 0
    for at, number in zip(page.runs[::2], page.runs[1::2], strict=True):
        end = start + number
        yield at, page.links[start:end], page.last_seen[start:end]
        start = end


def _times(seconds: array[int]) -> list[str | None] | str | None:
    """Return times in ISO 8601, null for one not known; a single one where all are the same."""
    return iso(seconds[0]) if len(set(seconds)) == 1 else [iso(second) for second in seconds]


def parsed(line: bytes) -> Any:
    """Return the JSON value of a line; raises ValueError that says why there is none."""
    try:
        return json.loads(line)
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from error


def _url(url: str) -> str:
    if _HAS_SCHEME(url) is None:
        raise ValueError(f"'url' is no URL: {url[:200]!r}")
    try:
        page_id_of(url)
    except ValueError as error:
        raise ValueError(f"'url' is impossible: {url[:200]!r}: {error}") from error
    if problem := check_url(url):
        raise UnvisitableError(f"{problem}: {without_login(url)[:200]!r}")
    return url


def _ascending(name: str, times: list[int]) -> array[int]:
    if any(at >= following for at, following in pairwise(times)):
        raise ValueError(f"{name!r} is not in ascending order of time")
    return array("I", times)


def _add_links(page: Page, runs: list[Fields]) -> None:
    page.links = new_array(page.link_level)
    times = _ascending("links", [run.second("first_seen") for run in runs])
    if times and not 0 < page.links_since <= times[0]:
        raise ValueError("'links_since' is not at or before the first of 'links'")
    for at, run in zip(times, runs, strict=True):
        links = from_hex(run.list_("fingerprints"), page.link_level)
        last = run.times("last_seen", len(links)) if run.has("last_seen") else [0] * len(links)
        if any(0 < second < at for second in last):
            raise ValueError("in an entry of 'links' a time of 'last_seen' is before 'first_seen'")
        if not links:
            raise ValueError("an entry of 'links' has no fingerprints")
        if len(kept(links, page.link_level)) < len(set(links)):
            raise ValueError("a fingerprint in 'links' is none that 'link_level' keeps")
        page.runs.extend((at, len(links)))
        pairs = sorted(zip(links, last, strict=True))
        page.links.extend(link for link, _ in pairs)
        page.last_seen.extend(0 if page.link_level else second for _, second in pairs)
    if len(set(page.links)) < len(page.links):
        raise ValueError("a fingerprint is twice in 'links'")


def _digests(fields: Fields) -> array[int]:
    found = array("I")
    for one in fields.objects("digests"):
        number = one.count("number", _MAX_DIGEST)
        digests.add(found, one.second("at"), number, repeats=one.switch("repeats"))
    return found


def _rule_changes(fields: Fields) -> array[int]:
    found = fields.objects("link_rules")
    times = _ascending("link_rules", [one.second("since") for one in found])
    rules = [one.count("fingerprint", _MAX_RULES) for one in found]
    return array("I", chain.from_iterable(zip(times, rules, strict=True)))


def _contents(fields: Fields) -> array[int]:
    found = fields.list_("contents")
    if not all(isinstance(one, int) and 0 <= one <= _MAX_DIGEST for one in found):
        raise ValueError(f"'contents' are no whole numbers from 0 to {_MAX_DIGEST}")
    return digests.union_of_contents(array("I", found), array("I"))


def _harvests(fields: Fields) -> dict[int, Harvest]:
    harvests: dict[int, Harvest] = {}
    for one in fields.objects("harvests"):
        source = one.count("source", _MAX_SOURCE)
        (digest,) = from_hex([one.text("digest")])
        harvests[source] = Harvest(source, one.second_or_0("until"), digest)
    return harvests


class Fields:
    """A JSON object whose values are checked as they are taken."""

    def __init__(self, values: Any, place: str = "") -> None:
        if not isinstance(values, dict):
            raise ValueError(f"{place or 'the line'} is no JSON object")  # noqa: TRY004
        self._values = values
        self._place = place

    def has(self, key: str) -> bool:
        """Return whether there is such a key."""
        return key in self._values

    def is_null(self, key: str) -> bool:
        """Whether there is null under a key."""
        return self._value(key) is None

    def text(self, key: str) -> str:
        """Return a text."""
        value = self._value(key)
        if not isinstance(value, str):
            raise self._wrong(key, "no text")
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise self._wrong(key, f"not Unicode ({error.reason})") from error
        if size > _LONGEST_TEXT_BYTES:
            raise self._wrong(key, f"longer than {_LONGEST_TEXT_BYTES} bytes")
        return value

    def text_or_null(self, key: str) -> str | None:
        """Return a text, None for null."""
        return None if self._value(key) is None else self.text(key)

    def count(self, key: str, at_most: int) -> int:
        """Return a whole number from 0 to the given one."""
        value = self._value(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= at_most:
            raise self._wrong(key, f"no whole number from 0 to {at_most}")
        return value

    def rate(self, key: str) -> float:
        """Return a number of at least 0."""
        value = self._value(key)
        is_number = isinstance(value, float | int) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= sys.float_info.max:  # nor NaN, which json reads too
            raise self._wrong(key, "no number of at least 0")
        return float(value)

    def rate_or_infinite(self, key: str) -> float:
        """Return a number of at least 0, infinite for null."""
        return math.inf if self._value(key) is None else self.rate(key)

    def switch(self, key: str) -> bool:
        """Return true or false."""
        value = self._value(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "neither true nor false")
        return value

    def second(self, key: str) -> int:
        """Return a time in ISO 8601 as a second since 1970 UTC."""
        return self._second(key, self._value(key))

    def second_or_0(self, key: str) -> int:
        """Return such a time, 0 for null."""
        value = self._value(key)
        return 0 if value is None else self._second(key, value)

    def seconds(self, key: str) -> list[int]:
        """Return a list of such times."""
        return [self._second(key, value) for value in self.list_(key)]

    def times(self, key: str, number: int) -> list[int]:
        """Return so many such times, 0 for null: of a list, or all the same."""
        value = self._value(key)
        if not isinstance(value, list):
            return [self.second_or_0(key)] * number
        if len(value) != number:
            raise self._wrong(key, f"no list of {number} times")
        return [0 if one is None else self._second(key, one) for one in value]

    def objects(self, key: str) -> list[Fields]:
        """Return a list of objects."""
        return [Fields(value, f"an entry of {key!r}") for value in self.list_(key)]

    def list_(self, key: str) -> list[Any]:
        """Return a list."""
        value = self._value(key)
        if not isinstance(value, list):
            raise self._wrong(key, "no list")
        return value

    def _value(self, key: str) -> Any:
        if key not in self._values:
            raise ValueError(f"{self._place + ' has ' if self._place else ''}no {key!r}")
        return self._values[key]

    def _second(self, key: str, value: Any) -> int:
        second = parse_iso(value) if isinstance(value, str) else None
        if second is None:
            raise ValueError(f"{key!r} is no ISO 8601 time in 1970-2106: {str(value)[:50]!r}")
        return second

    def _wrong(self, key: str, problem: str) -> ValueError:
        return ValueError(f"{key!r} is {problem}: {str(self._values[key])[:50]}")
