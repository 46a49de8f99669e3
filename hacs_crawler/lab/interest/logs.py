"""Access logs: which pages people viewed, each visitor once a page and day."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import numpy as np

from hacs_crawler.exceptions import HacsError, needing
from hacs_crawler.lab.interest.views import HOURS, Views, gathered
from hacs_crawler.links import canonical_url

if TYPE_CHECKING:
    from apachelogs import LogEntry, LogParser

# Formats that have a name; any other is written as Apache's LogFormat has it.
FORMATS: Final = {
    "combined": '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"',
    "common": '%h %l %u %t "%r" %>s %b',
    "vhost": '%v:%p %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"',
}
_NEEDED: Final = ("%h", "%t", '"%r"', "%>s")
_ASSET: Final = re.compile(
    r"\.(?:css|js|mjs|map|json|xml|rss|atom|txt|ico|png|jpe?g|gif|svg|webp|avif|bmp|tiff?|woff2?|ttf"
    r"|otf|eot|mp[34]|webm|ogg|wav|avi|mov|zip|gz|bz2|xz|7z|rar|tar|exe|dmg|iso|bin|wasm)$",
    re.IGNORECASE,
).search
# Of 2,123 user agents of robots, as the list `crawler-user-agents` has them, this finds 94 %.
_ROBOT: Final = re.compile(r"bot|crawl|spider|https?:|@|^(?!Mozilla/|Opera/)", re.IGNORECASE)
_is_robot: Final = lru_cache(maxsize=65_536)(_ROBOT.search)
# Status codes with which a page was seen; 304 is one seen again from the browser's cache.
_ANSWERED: Final = frozenset({200, 203, 206, 304})
# 1995: an earlier date comes from a wrong clock.
_EARLIEST: Final = 788_918_400.0
_NOWHERE: Final = "http://nowhere.invalid"


@dataclass(slots=True)
class LogReader:
    """Gathers views from access logs of one format (a name of `FORMATS`, or Apache's notation).

    It counts answered GET requests of people, except for assets. A visitor is an address and a
    user agent, and counts once a page and day (UTC). Robots are left out: by their user agent, and those
    that asked for robots.txt. `site` (https://host) is put before paths; without it, and without virtual
    hosts in the log, pages are paths. Lines later than `latest` (seconds UTC) are wrong.

    Raises HacsError if the format cannot be used, or `apachelogs` is not installed.
    """

    site: str | None
    format: str
    latest: float
    requests: int = 0
    robots: int = 0
    _parser: LogParser = field(init=False)
    _pages: dict[str, int] = field(default_factory=dict)
    _page: array[int] = field(default_factory=lambda: array("q"))
    _hour: array[int] = field(default_factory=lambda: array("q"))
    _visitor: array[int] = field(default_factory=lambda: array("q"))
    _honest: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._parser = _parser(FORMATS.get(self.format, self.format))

    def read(self, lines: Iterable[bytes]) -> int:
        """Read the lines of a log; return how many have another format, or a wrong date."""
        from apachelogs import InvalidEntryError  # noqa: PLC0415 - an extra

        bad = 0
        for line in lines:
            text = line.decode("latin-1")
            if not text.strip():
                continue
            try:
                entry = self._parser.parse(text)
                moment = entry.request_time.timestamp()
            except (InvalidEntryError, ValueError, OverflowError, AttributeError):
                moment = -1.0
            if _EARLIEST <= moment <= self.latest:
                self._add(entry, int(moment // 3600))
            else:
                bad += 1
        return bad

    def views(self, *, hourly: bool = False) -> Views:
        """Return the views by day, or by the hour of each visitor's first request that day."""
        page, hour, visitor = (
            np.array(values, dtype=np.int64) for values in (self._page, self._hour, self._visitor)
        )
        is_robot = np.isin(visitor, np.array(list(self._honest), dtype=np.int64))
        self.robots += int(is_robot.sum())
        page, hour, visitor = page[~is_robot], hour[~is_robot], visitor[~is_robot]
        # of a visitor's requests for a page on a day the first
        order = np.lexsort((hour, hour // HOURS, page, visitor))
        keys = np.stack([visitor, page, hour // HOURS])[:, order]
        first = order[(np.diff(keys, axis=1, prepend=-1) != 0).any(axis=0)]
        page, hour = page[first], hour[first]
        used, page = np.unique(page, return_inverse=True)
        names = list(self._pages)
        pages = [names[index] for index in used.tolist()]
        bins, k = (hour, HOURS) if hourly else (hour // HOURS, 1)
        return gathered(pages, page.astype(np.int64), bins, np.ones(page.size), k)

    def _add(self, entry: LogEntry, hour: int) -> None:
        method, _, rest = (entry.request_line or "").partition(" ")
        target = rest.rpartition(" ")[0] or rest
        headers = getattr(entry, "headers_in", None)
        agent = None if headers is None else headers["User-Agent"] or ""
        visitor = hash((entry.remote_host, agent))
        if target.partition("?")[0] == "/robots.txt":
            self._honest.add(visitor)
        if method != "GET" or entry.final_status not in _ANSWERED:
            return
        base, host = self.site, getattr(entry, "virtual_host", None)
        if base is None and host:
            base = f"{'http' if getattr(entry, 'server_port', 443) == 80 else 'https'}://{host}"
        url = _page_of(base or _NOWHERE, target)
        if url is None:
            return
        self.requests += 1
        if agent is not None and _is_robot(agent):
            self.robots += 1
            return
        self._page.append(self._pages.setdefault(url, len(self._pages)))
        self._hour.append(hour)
        self._visitor.append(visitor)


def check_site(site: str) -> str:
    """Return a site as https://host, without a slash at its end; raises HacsError if it is invalid."""
    url = canonical_url(site if "://" in site else f"https://{site}")
    if url is None or urlsplit(url).query:
        raise HacsError(f"--site {site!r}: must be a site such as https://news.example")
    return url.rstrip("/")


def _parser(log_format: str) -> LogParser:
    with needing("interest", "access logs need a library", HacsError):
        import apachelogs  # noqa: PLC0415 - an extra
    try:
        parser = apachelogs.LogParser(log_format)
    except (apachelogs.Error, ValueError) as error:
        raise HacsError(f"--format {log_format!r}: {error}") from error
    if missing := [directive for directive in _NEEDED if directive not in log_format]:
        raise HacsError(
            f"--format {log_format!r}: must be one of {', '.join(FORMATS)}, or what Apache calls a "
            f"LogFormat, with {' '.join(missing)} in it"
        )
    return parser


@lru_cache(maxsize=65_536)
def _page_of(base: str, target: str) -> str | None:
    """Return the page of a request, None for an asset or an invalid URL."""
    if _ASSET(target.partition("?")[0]):
        return None
    url = canonical_url(target if target.startswith(("http://", "https://")) else base + target)
    if url is None or len(url) > 2000:
        return None
    return url.removeprefix(_NOWHERE)
