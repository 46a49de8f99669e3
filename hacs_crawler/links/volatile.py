"""Volatile parts of links, which change with every request: learned from two fetches, then left out.

Two fetches of a page some seconds apart are compared. If links of the two differ only in one part (a
query parameter, or a segment of the path), that part is volatile in two cases:

- a *session*: all links of a fetch that have the part have the same value in it, there are at least two
  such links, and without the value they are the same in both fetches;
- a *token*: each link has a different value, which looks random, and no value is in both fetches. As a
  box of changing articles may look the same, two control visits have to show it.

A box that shows some links of a pool is neither: without the part its links differ, or they share a
value. In doubt nothing is learned: a churning page costs less than new links that are taken for known
ones.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from hacs_crawler.links.canonical import canonical_link

VOLATILE: Final = "*"
# Limit for each host.
MOST_PARTS: Final = 32
CONTROLS_FOR_TOKENS: Final = 2
# Fetches with more links are not compared.
MOST_LINKS: Final = 1_000
# If more parts than this changed between two fetches, the page itself changed.
MOST_CHANGING: Final = 8
_FEWEST_OF_SESSION: Final = 2
_HOSTS_OF_SHARED: Final = 2
_TOKEN: Final = re.compile(
    r"(?=.*\d)[A-Za-z0-9_.~-]{8,}|[0-9]*\.[0-9]{6,}|[A-Fa-f0-9]{8,}|[0-9]{10,}"
)


@dataclass(frozen=True, slots=True, order=True)
class LinkPart:
    """A part of links: the query parameter `name`, or the path segment after `folder`.

    `folder` ends in "/", and is "" for a parameter; `name` is "" for a path segment.
    """

    folder: str
    name: str

    def __str__(self) -> str:
        return f"{self.folder}{VOLATILE}" if self.folder else f"?{self.name}={VOLATILE}"


@dataclass(frozen=True, slots=True)
class VolatileLinkParts:
    """The parts left out of the links of one host, and how often each suspected token was seen."""

    host: str
    parts: frozenset[LinkPart] = frozenset()
    # not hashed: suspected parts do not change the link rules
    suspected: Mapping[LinkPart, int] = field(default_factory=dict, hash=False)

    def identity(self, link: str) -> str:
        """Return a canonical link with `VOLATILE` in place of the volatile parts."""
        parts = urlsplit(link)
        if parts.netloc != self.host:
            return link
        for part in _parts_of(link):
            if part in self.parts:
                link = _without(link, part)
        return link

    def learned(
        self,
        first: Iterable[str],
        second: Iterable[str],
        is_known: Callable[[str], bool] = lambda _: False,
    ) -> "VolatileLinkParts":
        """Return the parts after comparing two fetches of a page; arguments as for `differences`."""
        sessions, tokens = differences(self.host, set(first), set(second), is_known)
        if not sessions and not tokens:
            return self
        seen = {part: self.suspected.get(part, 0) + 1 for part in tokens}
        sure = {part for part, controls in seen.items() if controls >= CONTROLS_FOR_TOKENS}
        parts = self.parts | sessions | sure
        suspected = {
            part: controls
            for part, controls in (*self.suspected.items(), *seen.items())
            if part not in parts
        }
        if len(parts) > MOST_PARTS or len(suspected) > MOST_PARTS:
            return self
        return VolatileLinkParts(self.host, frozenset(parts), suspected)

    def to_json(self) -> dict[str, Any]:
        """Return the parts as JSON values."""
        return {
            "parts": [[part.folder, part.name] for part in sorted(self.parts)],
            "suspected": [
                [part.folder, part.name, n] for part, n in sorted(self.suspected.items())
            ],
        }


class SharedLinkParts:
    """Query parameters that are volatile on at least two hosts.

    Sites use the same software: if links on another host have such a parameter, with values that look
    random, it is left out of them from the first visit on.
    """

    def __init__(self, by_host: Mapping[str, VolatileLinkParts]) -> None:
        hosts = Counter(
            part.name for parts in by_host.values() for part in parts.parts if part.name
        )
        names = [name for name, number in hosts.items() if number >= _HOSTS_OF_SHARED]
        one_of = "|".join(map(re.escape, sorted(names)))
        self._parameter = re.compile(rf"[?&;]({one_of})=([\w.~-]+)") if names else None

    def of(self, host: str, html: str) -> VolatileLinkParts | None:
        """Return the parts to leave out of a page's links, None without any."""
        if self._parameter is None:
            return None
        parameters = self._parameter.findall(html)
        names = {name for name, value in parameters if _TOKEN.fullmatch(value)}
        names -= {name for name, value in parameters if not _TOKEN.fullmatch(value)}
        parts = frozenset(LinkPart("", name) for name in names)
        return VolatileLinkParts(host, parts) if parts else None


def host_of(url: str) -> str:
    """Return the host of a URL as in canonical links, with a port other than the default."""
    link = canonical_link(url, url)
    return "" if link is None else urlsplit(link).netloc


def differences(
    host: str, first: set[str], second: set[str], is_known: Callable[[str], bool] = lambda _: False
) -> tuple[set[LinkPart], set[LinkPart]]:
    """Return the parts of a host's links in which two fetches differ: sessions, and suspected tokens.

    `first` and `second` are the canonical links of the fetches. `is_known` says whether the page has
    shown a link before: then it comes from a pool.
    """
    sessions, tokens = set[LinkPart](), set[LinkPart]()
    gone, come = _of_host(first - second, host), _of_host(second - first, host)
    if max(len(first), len(second)) > MOST_LINKS or any(map(is_known, gone | come)):
        return sessions, tokens
    old_values, new_values = _values(gone), _values(come)
    changing = {
        part
        for part in old_values.keys() & new_values.keys()
        if not old_values[part] & new_values[part]
    }
    if len(changing) > MOST_CHANGING:
        return sessions, tokens
    for part in changing:
        others = changing - {part}  # a link may have several changing parts
        before, after = (_with_part(_masked(links, others), part) for links in (gone, come))
        if not before or before.keys() != after.keys():
            continue
        of_first, of_second = (
            _with_part(_masked(_of_host(links, host), others), part) for links in (first, second)
        )
        old, new = set(before.values()), set(after.values())
        has_one_value = len(set(of_first.values())) == 1 == len(set(of_second.values()))
        if has_one_value and len(before) >= _FEWEST_OF_SESSION:
            sessions.add(part)
        elif (
            of_first.keys() == before.keys()
            and len(old) == len(before)
            and all(map(_TOKEN.fullmatch, old | new))
        ):
            tokens.add(part)
    return sessions, tokens


def _values(links: Iterable[str]) -> dict[LinkPart, set[str]]:
    """Return the values of all parts of the links."""
    values: dict[LinkPart, set[str]] = {}
    for link in links:
        for part in _parts_of(link):
            values.setdefault(part, set()).add(_value(link, part) or "")
    return values


def _masked(links: Iterable[str], parts: Iterable[LinkPart]) -> set[str]:
    masked = set(links)
    for part in parts:
        masked = {_without(link, part) for link in masked}
    return masked


def _of_host(links: Iterable[str], host: str) -> set[str]:
    return {link for link in links if urlsplit(link).netloc == host}


def _with_part(links: Iterable[str], part: LinkPart) -> dict[str, str]:
    """Return the part's value by link without it; nothing if any two of these links are the same."""
    values: dict[str, str] = {}
    doubled: set[str] = set()
    for link in links:
        value = _value(link, part)
        if value is None:
            continue
        rest = _without(link, part)
        if rest in values:
            doubled.add(rest)
        values[rest] = value
    return {} if doubled else values


def _parts_of(link: str) -> Iterator[LinkPart]:
    """Yield the parts of a link that may be volatile: parameters, and each segment of its path."""
    parts = urlsplit(link)
    for pair in parts.query.split("&") if parts.query else ():
        name, is_pair, _ = pair.partition("=")
        if is_pair:
            yield LinkPart("", name)
    at = 0
    while (at := parts.path.find("/", at)) >= 0:
        at += 1
        if at < len(parts.path):
            yield LinkPart(parts.path[:at], "")


def _value(link: str, part: LinkPart) -> str | None:
    """Return the value of a part of a link, None if it is missing."""
    parts = urlsplit(link)
    if part.folder:
        if not parts.path.startswith(part.folder):
            return None
        value = parts.path[len(part.folder) :].partition("/")[0]
        return value or None
    for pair in parts.query.split("&"):
        name, is_pair, value = pair.partition("=")
        if is_pair and name == part.name:
            return value
    return None


def _without(link: str, part: LinkPart) -> str:
    """Return a link with `VOLATILE` for a part's value; in a path only if the value looks random."""
    parts = urlsplit(link)
    if part.folder:
        value, slash, rest = parts.path[len(part.folder) :].partition("/")
        if not _TOKEN.fullmatch(value):
            return link
        return urlunsplit(parts._replace(path=f"{part.folder}{VOLATILE}{slash}{rest}"))
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    query = "&".join(
        f"{name}={VOLATILE}" if is_pair and name == part.name else f"{name}{is_pair}{value}"
        for name, is_pair, value in pairs
    )
    return urlunsplit(parts._replace(query=query))
