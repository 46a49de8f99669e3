"""Web archives by their addresses: what is asked there, and how fast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.links import check_url, without_login

SETTING: Final = "HACS_ARCHIVES"


class ArchiveKind(Enum):
    """How an archive is asked which captures it has, by the key that names where."""

    CDX = "cdx_url"
    """A CDX server: the Wayback Machine's, OpenWayback's or pywb's."""
    TIMEMAP = "timemap_url"
    """TimeMaps, to be had at this URL followed by the page's."""
    TIMEGATE = "timegate_url"
    """A TimeGate or Memento aggregator, asked at this URL followed by the page's for its TimeMap."""
    COLLINFO = "collinfo_url"
    """Common Crawl: a list of CDX servers, whose rows name parts of WARC files."""


@dataclass(frozen=True, slots=True)
class ArchiveAddress:
    """One archive: `index_url` says where captures are asked for, in the way of its `kind`.

    `memento_url` is where replay begins (CDX) or the WARC files lie (COLLINFO); TimeMaps name the
    mementos themselves. Rates are in requests a minute, 0 for no limit.
    """

    name: str
    kind: ArchiveKind
    index_url: str
    memento_url: str = ""
    cdx_per_minute: float = 24.0
    mementos_per_minute: float = 60.0
    pause_seconds: float = 60.0
    obeys_robots: bool = True

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that its address names."""
        urls = (self.index_url, self.memento_url)
        return frozenset(urlsplit(url).netloc for url in urls if url)

    @property
    def names_mementos(self) -> bool:
        """Whether its index says where mementos are, which may be in any archive."""
        return self.kind in {ArchiveKind.TIMEMAP, ArchiveKind.TIMEGATE}

    def setting_of(self, url: str) -> str:
        """Return where a person mends the address of which a URL is."""
        if self.name:
            return f"{SETTING}, {self.name!r}"
        is_index = urlsplit(url).netloc == urlsplit(self.index_url).netloc
        return "HACS_CDX_URL" if is_index else "HACS_MEMENTO_URL"

    @property
    def shown_as(self) -> str:
        """What log lines and items call it."""
        return self.name or urlsplit(self.index_url).netloc


_KINDS: Final = {kind.value: kind for kind in ArchiveKind}
_MEMENTO_KEYS: Final = {ArchiveKind.CDX: "memento_url", ArchiveKind.COLLINFO: "warc_url"}
_NUMBERS: Final = {
    "cdx_per_minute": 1e6,
    "mementos_per_minute": 1e6,
    "archive_pause_seconds": 86_400.0,
}
"""The keys that are numbers, and the highest that each may be."""
_ROBOTS: Final = "robotstxt_obey"


def addresses_of(value: object, one: ArchiveAddress) -> tuple[ArchiveAddress, ...]:
    """Return the archives that HACS_ARCHIVES names, in its order; `one` is that of HACS_CDX_URL.

    An entry without an address is that one. Raises ConfigError that names the first entry that is wrong.
    """
    if not isinstance(value, Mapping) or not value:
        allowed = 'archives by name, such as {"wayback": {}, "mine": {"timemap_url": "http://…/"}}'
        raise ConfigError(f"{SETTING} = {value!r}: allowed is {allowed}")
    found = tuple(_address(str(name), entry, one) for name, entry in value.items())
    names: dict[str, str] = {}
    for address in found:
        other = names.setdefault(address.index_url, address.name)
        if other != address.name:
            raise _wrong(address.name, "", address.index_url, f"another archive than {other!r}")
    return found


def _address(name: str, entry: object, one: ArchiveAddress) -> ArchiveAddress:
    if not isinstance(entry, Mapping) or not name:
        raise _wrong(name, "", entry, "a name, and an object with the archive's address")
    kinds = [_KINDS[key] for key in entry if key in _KINDS]
    if len(kinds) > 1:
        raise _wrong(name, "", dict(entry), f"one of {', '.join(_KINDS)}")
    base = replace(one, name=name)
    if kinds:
        url = _url(name, kinds[0].value, entry)
        base = ArchiveAddress(name, kinds[0], url, pause_seconds=one.pause_seconds)
    memento_key = _MEMENTO_KEYS.get(base.kind) if kinds else None
    known = {*_NUMBERS, _ROBOTS, base.kind.value if kinds else "", memento_key}
    for key in entry:
        if key not in known:
            addresses = set() if kinds else {*_KINDS, *_MEMENTO_KEYS.values()}
            allowed = ", ".join(sorted(filter(None, known | addresses)))
            raise _wrong(name, "", key, allowed)
    if memento_key:
        base = replace(base, memento_url=_url(name, memento_key, entry))
    return replace(
        base,
        cdx_per_minute=_number(name, "cdx_per_minute", entry, base.cdx_per_minute),
        mementos_per_minute=_number(name, "mementos_per_minute", entry, base.mementos_per_minute),
        pause_seconds=_number(name, "archive_pause_seconds", entry, base.pause_seconds),
        obeys_robots=_switch(name, entry),
    )


def _url(name: str, key: str, entry: Mapping[Any, Any]) -> str:
    value = entry.get(key)
    problem = check_url(value) if isinstance(value, str) and value else "there is none"
    if problem is not None:
        shown = without_login(value) if isinstance(value, str) else value
        raise _wrong(name, key, shown, f"the URL of a web archive ({problem})")
    return str(value)


def _number(name: str, key: str, entry: Mapping[Any, Any], default: float) -> float:
    value, most = entry.get(key, default), _NUMBERS[key]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= most:
        raise _wrong(name, key, value, f"a number of at least 0 and at most {most:g}")
    return number


def _switch(name: str, entry: Mapping[Any, Any]) -> bool:
    value = entry.get(_ROBOTS, True)
    if not isinstance(value, bool):
        raise _wrong(name, _ROBOTS, value, "true or false")
    return value


def _wrong(name: str, key: str, value: object, allowed: str) -> ConfigError:
    place = f"{SETTING}, {name!r}" + (f", {key}" if key else "")
    return ConfigError(f"{place} = {value!r}: allowed is {allowed}")
