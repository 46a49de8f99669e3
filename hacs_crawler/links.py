"""Which outgoing links a page has: from a parsed page to canonical links to 64-bit fingerprints.

A link's canonical form is that of ``w3lib.url.canonicalize_url`` (no fragment, sorted query, upper
case escapes, lower-case host), without dot segments, default ports, session ids and ``utm_*``
tracking parameters, all of which differ between two visits to a page that gained nothing. Escapes
of non-ASCII characters are UTF-8 whatever the page's encoding is. Fingerprints leave the scheme
out, for a site that moves from http to https has not gained links.

Most links are plain, so one expression recognises those whose canonical form is a concatenation;
the rest takes `canonical_url`. Both give the same, which a property test checks.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import urldefrag, urljoin, urlsplit, urlunsplit

from lxml import etree
from tldextract import TLDExtract
from w3lib.url import canonicalize_url

from hacs_crawler.urls import LONGEST_URL, bad_host, fingerprint

# What session ids and trackers look like. The words that also name other things (a session of a
# conference, the id of a story) need a value that looks like a token.
_DROPPED_PARAMETER: Final = re.compile(
    r"(?:utm_\w*|jsessionid|phpsessid|aspsessionid[a-z]{8}|cfid|cftoken)="
    r"|(?:sid|sessionid|session_id)=[0-9a-z,_-]{16,}$",
    re.ASCII | re.IGNORECASE,
).match
_DROPPED_PATH: Final = re.compile(
    r";(?:jsessionid|phpsessid|sid|sessionid)=[^;/]*"
    r"|/(?:\((?:[a-z]\([0-9a-z]{24}\))+\)|\([0-9a-z]{24}\))(?=/)",
    re.ASCII | re.IGNORECASE,
)

_HOST = (  # the ports of two to four digits that are nobody's default, and any below 60000
    r"//(?:[a-z0-9-]{1,63}\.)*[a-z0-9-]{1,63}(?::(?!(?:80|443)(?![0-9]))[1-9][0-9]{0,3}|:[1-5][0-9]{4})?"
)
_SEGMENT = r"[a-zA-Z0-9_~,+-][a-zA-Z0-9_~,+.-]*"  # safe characters, and not "." or ".."
_PATH = rf"/(?:{_SEGMENT}/)*(?:{_SEGMENT})?"
_PARAMETER = r"[a-zA-Z0-9_.-]+=[a-zA-Z0-9_.-]*"
_PLAIN_LINK: Final = re.compile(
    rf"(?:(https?:)?({_HOST})({_PATH})?|({_PATH})|(?:\./)?((?:\.\./)*)({_SEGMENT}(?:/{_SEGMENT})*/?))"
    rf"(?:\?({_PARAMETER}(?:&{_PARAMETER})*))?(?:#[!-~]*)?"
)
_PLAIN_BASE: Final = re.compile(
    rf"(https?:)({_HOST})(?:(/(?:{_SEGMENT}/)*)(?:{_SEGMENT})?)?(?:\?[!-~]*)?"
)
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):").match
_C0_AND_SPACE: Final = "".join(map(chr, range(33)))

_hrefs: Final = etree.XPath("//a/@href | //area/@href", smart_strings=False)
_text: Final = etree.XPath("string()", smart_strings=False)
_base_hrefs: Final = etree.XPath("//base/@href", smart_strings=False)
_split_suffix: Final = TLDExtract(
    suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True
)


@dataclass(frozen=True, slots=True)
class LinkRules:
    """Which links count.

    `scope` "same-site" keeps those to the page's registrable domain as browsers see it (the Public
    Suffix List that tldextract ships, private part included: each author's pages at github.io are a
    site). `allow` and `deny` are searched for in the canonical link, scheme included: one of
    `allow` has to be found, unless there are none, and none of `deny`.
    """

    scope: Literal["all", "same-site"] = "all"
    allow: tuple[re.Pattern[str], ...] = ()
    deny: tuple[re.Pattern[str], ...] = ()

    def select(self, links: Iterable[str], page_url: str) -> Iterable[str]:
        """Return those of the canonical `links` of the page at `page_url` that count."""
        kept = links
        if self.scope == "same-site":
            own = site(page_url)
            kept = [link for link in kept if _site_of_netloc(link.split("/", 3)[2]) == own]
        if self.allow:
            kept = [link for link in kept if any(rule.search(link) for rule in self.allow)]
        if self.deny:
            kept = [link for link in kept if not any(rule.search(link) for rule in self.deny)]
        return kept


def link_fingerprints(
    root: etree._Element | None, base_url: str, rules: LinkRules | None = None
) -> frozenset[int]:
    """Return the fingerprints (signed 64-bit) of the distinct links of a parsed HTML page.

    `root` is lxml's tree, as in ``response.selector.root``, or None for an empty document.
    `base_url` is where the page was found. Links are those of `a` and `area`, relative to the first
    `base`; a link to the page itself counts as any other. What is no http(s) link is passed over.
    """
    if root is None:
        return frozenset()
    found = set(map(_resolver(root, base_url).link, set(_hrefs(root))))
    links = [link for link in found if link is not None]
    counted = links if rules is None else rules.select(links, base_url)
    return frozenset([link_fingerprint(link) for link in counted])


def link_fingerprint(link: str) -> int:
    """Return the fingerprint of a canonical link, which leaves its scheme out."""
    return fingerprint(link.partition(":")[2])


def page_links(root: etree._Element | None, base_url: str) -> Iterator[tuple[str, str]]:
    """Yield each distinct canonical link of a parsed page and its text, in the page's order.

    The text is that of the first element with this link (of an `area`, its `alt`), with its white
    space collapsed.
    """
    if root is None:
        return
    resolver = _resolver(root, base_url)
    seen: set[str | None] = {None}
    for element in root.iter("a", "area"):
        href = element.get("href")
        link = None if href is None else resolver.link(href)
        if link is not None and link not in seen:
            seen.add(link)
            yield link, " ".join((element.get("alt") or _text(element)).split())


def canonical_link(base_url: str, href: str) -> str | None:
    """Return the canonical form of the link `href` on the page at `base_url`.

    None if it is no http(s) link that a browser would follow, or longer than `LONGEST_URL`.
    """
    return _Resolver(base_url).link(href)


class _Resolver:
    """Canonical links relative to one base URL."""

    __slots__ = ("_base", "_directory", "_host", "_scheme")

    def __init__(self, base: str) -> None:
        self._base = base.partition("#")[0]
        plain = _PLAIN_BASE.fullmatch(self._base)
        self._scheme: str | None = plain[1] if plain else None  # None: nothing here is plain
        self._host: str = plain[2] if plain else ""
        self._directory: str = (plain and plain[3]) or "/"

    def link(self, href: str) -> str | None:
        if len(href) > LONGEST_URL:
            return None
        plain = _PLAIN_LINK.fullmatch(href)
        if plain is None or self._scheme is None:
            return slow_link(self._base, href)
        scheme, host, path, root_path, ups, relative, query = plain.groups()
        if relative is not None:
            directory = self._directory
            for _ in range(len(ups) // 3):
                directory = directory[: directory.rfind("/", 0, -1) + 1] or "/"
            link = f"{self._scheme}{self._host}{directory}{relative}"
        elif root_path is not None:
            link = f"{self._scheme}{self._host}{root_path}"
        else:
            link = f"{scheme or self._scheme}{host}{path or '/'}"
        if query is not None and (parameters := _kept_parameters(query)):
            parameters.sort(key=lambda parameter: parameter.partition("="))
            return f"{link}?{'&'.join(parameters)}"
        return link


def _resolver(root: etree._Element, base_url: str) -> _Resolver:
    """Resolve as on this page, whose first `base` element may name another URL than its own."""
    for href in _base_hrefs(root)[:1]:
        base = _join(base_url, href)
        if base is not None and canonical_url(base) is not None:
            return _Resolver(base)
    return _Resolver(base_url)


def slow_link(base: str, href: str) -> str | None:
    """Do what `canonical_link` does, for any href, without its short cut."""
    joined = _join(base, href)
    return None if joined is None else canonical_url(joined)


def _join(base: str, href: str) -> str | None:
    """Resolve `href` as browsers do, or None where they would not fetch it by http(s)."""
    href = href.strip(_C0_AND_SPACE).replace("\t", "").replace("\n", "").replace("\r", "")
    scheme = _SCHEME(href)
    if scheme is not None and scheme[1].lower() not in {"http", "https"}:
        return None
    if "\\" in href:
        end = re.search("[?#]", href)
        path_end = len(href) if end is None else end.start()
        href = href[:path_end].replace("\\", "/") + href[path_end:]
    try:
        is_absolute = scheme is not None and href.startswith("//", scheme.end())
        return urldefrag(href if is_absolute else urljoin(base, href)).url
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def canonical_url(url: str) -> str | None:
    """Return the canonical form of an absolute http(s) URL (see the module), None of any other."""
    try:
        parts = urlsplit(canonicalize_url(url))
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or bad_host(parts.hostname or ""):
        return None
    netloc = parts.netloc.removesuffix(":")
    if port is not None:
        standard = port == (80 if parts.scheme == "http" else 443)
        netloc = netloc[: netloc.rindex(":")] + ("" if standard else f":{port}")
    path = _without_dots(_DROPPED_PATH.sub("", parts.path)) or "/"
    query = "&".join(_kept_parameters(parts.query))
    return urlunsplit((parts.scheme, netloc, path, query, ""))


def _kept_parameters(query: str) -> list[str]:
    return [part for part in query.split("&") if part and not _DROPPED_PARAMETER(part)]


def _without_dots(path: str) -> str:
    """Remove dot segments (RFC 3986, 5.2.4), which w3lib does from 2.5 on only."""
    if "/." not in path:
        return path
    kept: list[str] = []
    *inner, last = path.split("/")[1:]
    for segment in inner:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if last == "..":
        del kept[-1:]
    kept.append("" if last in {".", ".."} else last)
    return "/" + "/".join(kept)


def site(url: str) -> str:
    """Return the registrable domain of a URL, its host if it has none, "" if it is no http(s)."""
    link = canonical_url(url)
    return "" if link is None else _site_of_netloc(link.split("/", 3)[2])


@lru_cache(maxsize=4096)
def _site_of_netloc(netloc: str) -> str:
    host = urlsplit("//" + netloc).hostname or ""
    parts = _split_suffix(host)
    return f"{parts.domain}.{parts.suffix}" if parts.domain and parts.suffix else host
