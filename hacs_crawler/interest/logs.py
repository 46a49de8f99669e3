"""Access logs: which pages people viewed, each visitor once a page and day."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import numpy as np

from hacs_crawler.exceptions import HacsError
from hacs_crawler.interest.clock import EARLIEST_HOUR
from hacs_crawler.interest.problems import Problems
from hacs_crawler.interest.views import HOURS, Views, gathered
from hacs_crawler.links import canonical_url
from hacs_crawler.utils.arrays import IndexArray

if TYPE_CHECKING:
    from apachelogs import LogEntry, LogParser

LINES_TO_TELL: Final = 50
"""A file is an access log if one of so many lines at its beginning is a line of one."""
BUSY_PAGES: Final = 300
"""Pages a day that hardly a person views, but a robot in a browser's clothes does."""
_ASSET: Final = re.compile(
    r"\.(?:css|js|mjs|map|json|xml|rss|atom|txt|ico|png|jpe?g|gif|svg|webp|avif|bmp|tiff?|woff2?|ttf"
    r"|otf|eot|mp[34]|webm|ogg|wav|avi|mov|zip|gz|bz2|xz|7z|rar|tar|exe|dmg|iso|bin|wasm)$",
    re.IGNORECASE,
).search
_TIME_AND_REQUEST: Final = re.compile(
    rb'\[\d\d/[A-Z][a-z]{2}/\d{4}(?::\d\d){3} [+-]\d{4}\] "'
).search
_ANSWERED: Final = frozenset({200, 203, 206, 304})
"""Status codes with which a page was seen; 304 is one seen again from the browser's cache."""
_NOWHERE: Final = "http://nowhere.invalid"


def is_log(lines: Iterable[bytes]) -> bool:
    """Whether these lines, a file's first, are of an access log: one has its time and a request."""
    return any(map(_TIME_AND_REQUEST, lines))


@dataclass(slots=True)
class LogReader:
    """Gathers views from access logs in the Common or Combined format, with the virtual host or not.

    Counted are answered GET requests of people, for what is no asset. A visitor is an address and a
    user agent, and counts once a page and day. Left out are robots: by their user agent, and those that
    asked for robots.txt. `site` (https://host) is put before paths; without it, and without virtual
    hosts in the log, pages are paths. `hour_of` gives the hour since 1970 of a moment; lines later than
    `latest` (seconds UTC) are wrong.
    """

    site: str | None
    hour_of: Callable[[float], int]
    latest: float
    problems: Problems = field(default_factory=Problems)
    requests: int = 0
    robots: int = 0
    robots_in_disguise: int = 0
    without_agent: int = 0
    _places: dict[str, int] = field(default_factory=dict)
    _page: array[int] = field(default_factory=lambda: array("q"))
    _hour: array[int] = field(default_factory=lambda: array("q"))
    _visitor: array[int] = field(default_factory=lambda: array("q"))
    _honest: set[int] = field(default_factory=set)

    def read(self, lines: Iterable[bytes]) -> None:
        """Read the lines of a log; those that are none are counted in `problems`."""
        parsers = _parsers()
        for number, line in enumerate(lines, start=1):
            text = line.decode("latin-1")
            if not text.strip():
                continue
            entry = _parsed(text, parsers)
            if entry is None:
                self.problems.add("no line of an access log", number)
            else:
                self._add(entry, number)

    def views(self, *, hourly: bool = False) -> Views:
        """Return the views by day, or by the hour of each visitor's first request that day."""
        page, hour, visitor = (
            np.array(values, dtype=np.int64) for values in (self._page, self._hour, self._visitor)
        )
        if self._honest:
            is_robot = np.isin(visitor, np.fromiter(self._honest, dtype=np.int64))
            self.robots += int(is_robot.sum())
            page, hour, visitor = page[~is_robot], hour[~is_robot], visitor[~is_robot]
        first = _first_of_day(page, hour, visitor)
        page, hour, visitor = page[first], hour[first], visitor[first]
        self.robots_in_disguise = _busy(hour // HOURS, visitor)
        bins = hour if hourly else hour // HOURS
        pages, page = _used(list(self._places), page)
        return gathered(pages, page, bins, np.ones(page.size), HOURS if hourly else 1)[0]

    def _add(self, entry: LogEntry, number: int) -> None:
        method, _, rest = (entry.request_line or "").partition(" ")
        target = rest.rpartition(" ")[0] or rest
        agent = _agent(entry)
        visitor = hash((entry.remote_host, agent))
        moment = entry.request_time.timestamp()
        if not target or not method.isalpha():
            self.problems.add("no request", number)
            return
        if moment > self.latest:
            self.problems.add("a date in the future", number)
            return
        hour = self.hour_of(moment)
        if hour < EARLIEST_HOUR:
            self.problems.add("a date before 1995", number)
            return
        if target.partition("?")[0] == "/robots.txt":
            self._honest.add(visitor)
        if method != "GET" or entry.final_status not in _ANSWERED:
            return
        url = _page_of(self._base(entry), target)
        if url is None:
            return
        self.requests += 1
        if agent is None:
            self.without_agent += 1
        elif _is_robot(agent):
            self.robots += 1
            return
        self._page.append(self._places.setdefault(url, len(self._places)))
        self._hour.append(hour)
        self._visitor.append(visitor)

    def _base(self, entry: LogEntry) -> str:
        host = getattr(entry, "virtual_host", None)
        if self.site is None and host:
            return f"{'http' if getattr(entry, 'server_port', 443) == 80 else 'https'}://{host}"
        return self.site or _NOWHERE


def _agent(entry: LogEntry) -> str | None:
    """Return the user agent, "" where the request named none, None where the log does not say."""
    headers = getattr(entry, "headers_in", None)
    return None if headers is None else headers["User-Agent"] or ""


@lru_cache(maxsize=65_536)
def _page_of(base: str, target: str) -> str | None:
    """Return the page of a request, None of an asset, or of what is no URL."""
    if _ASSET(target.partition("?")[0]):
        return None
    url = canonical_url(target if target.startswith(("http://", "https://")) else base + target)
    if url is None or len(url) > 2000:
        return None
    return url.removeprefix(_NOWHERE)


@lru_cache(maxsize=65_536)
def _is_robot(agent: str) -> bool:
    """Whether a user agent is a robot's: known as one, or none at all."""
    from crawleruseragents import is_crawler  # noqa: PLC0415 - an extra

    return not agent.strip() or bool(is_crawler(agent))


def _parsers() -> list[LogParser]:
    try:
        import apachelogs  # noqa: PLC0415 - an extra
        import crawleruseragents  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise HacsError(
            f"access logs need two libraries: pip install 'hacs-crawler[interest]' ({error})"
        ) from error
    # the longest first: a user's name may have spaces, so a shorter one fits a line of a longer
    formats = (apachelogs.VHOST_COMBINED, apachelogs.COMBINED, apachelogs.COMMON)
    return [apachelogs.LogParser(one) for one in formats]


def _parsed(text: str, parsers: list[Any]) -> Any | None:
    """Return the entry of a line; the format that fits is tried first from then on."""
    from apachelogs import InvalidEntryError  # noqa: PLC0415 - an extra

    for place, parser in enumerate(parsers):
        try:
            entry = parser.parse(text)
        except (InvalidEntryError, ValueError, OverflowError):
            continue
        if entry.request_time is None:
            continue
        if place:
            parsers.insert(0, parsers.pop(place))
        return entry
    return None


def _first_of_day(page: IndexArray, hour: IndexArray, visitor: IndexArray) -> IndexArray:
    """Return which requests are their visitor's first of their page on their day."""
    order = np.lexsort((hour, hour // HOURS, page, visitor))
    same = np.ones(max(order.size - 1, 0), dtype=np.bool_)
    for key in (hour // HOURS, page, visitor):
        same &= key[order][1:] == key[order][:-1]
    return order[np.r_[True, ~same]] if order.size else order


def _busy(day: IndexArray, visitor: IndexArray) -> int:
    """Count the views of visitors that saw more pages on a day than a person does."""
    if not day.size:
        return 0
    order = np.lexsort((day, visitor))
    is_first = np.r_[True, (np.diff(day[order]) != 0) | (np.diff(visitor[order]) != 0)]
    counts = np.diff(np.r_[np.flatnonzero(is_first), day.size])
    return int(counts[counts > BUSY_PAGES].sum())


def _used(pages: list[str], page: IndexArray) -> tuple[list[str], IndexArray]:
    """Leave out pages that no row names."""
    kept, places = np.unique(page, return_inverse=True)
    return [pages[place] for place in kept.tolist()], places.astype(np.int64)


def check_site(site: str) -> str:
    """Return a site as https://host, without a slash at its end; raises HacsError where it is none."""
    url = canonical_url(site if "://" in site else f"https://{site}")
    if url is None or urlsplit(url).query:
        raise HacsError(f"--site {site!r}: allowed is a site such as https://news.example")
    return url.rstrip("/")
