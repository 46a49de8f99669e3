"""The canonical form of a link, shared by links that differ only in details that may vary by visit.

It is that of ``w3lib.url.canonicalize_url`` (no fragment, sorted query, upper-case escapes, lower-case
host), without dot segments, logins, default ports, the dot at the end of a host, session ids and the
parameters of trackers (`TRACKERS`, and ``utm_*``). Escapes of non-ASCII characters are UTF-8 in every
encoding of the page. A canonical link can be requested; pages are identified by the key made from it
(`links.keys`).

Most links are plain: one expression recognises them, and their canonical form is a concatenation. The
others take `canonical_url`. Both ways give the same result, which a property test checks.
"""

import re
from collections.abc import Set as AbstractSet
from functools import lru_cache
from importlib.resources import files
from string import ascii_letters, digits
from typing import Final
from urllib.parse import unquote_to_bytes, urldefrag, urljoin, urlsplit, urlunsplit

from w3lib.url import canonicalize_url

from hacs_crawler.links.markup import MarkupError
from hacs_crawler.links.urls import LONGEST_URL, bad_host

# Names of query parameters by which trackers recognise a click, in lower case.
TRACKERS: Final = frozenset(
    line
    for line in files(__package__).joinpath("trackers.txt").read_text("ascii").splitlines()
    if not line.startswith("#")
)
_SESSIONS: Final = frozenset({"jsessionid", "phpsessid", "cfid", "cftoken"})
# These names have other meanings, too (a session of a conference, the id of a story): the parameter is
# dropped only if its value looks like a token.
_TOKENS: Final = frozenset(
    {"sid", "sessid", "sessionid", "session_id", "oscsid", "xtcsid", "zenid"}
)
_TOKEN: Final = re.compile(r"[0-9a-z,_-]{16,}", re.ASCII | re.IGNORECASE).fullmatch
_ASP_SESSION: Final = len("aspsessionidabcdefgh")
# Parameters of forms, caches and signed addresses, which change with each request. Not `v`, `t` and
# `ts`: they name content.
_FORMS: Final = frozenset(
    {
        # against caches
        *("_", "cachebust", "cachebuster", "cb", "nocache", "rand", "random", "rnd"),
        *("expires", "signature", "x-amz-date", "x-amz-security-token", "x-amz-signature"),
        *("x-amz-credential", "x-goog-credential", "x-goog-date", "x-goog-signature"),
        *("_csrf", "_nonce", "_token", "_wpnonce", "_xsrf", "authenticity_token", "csrf"),
        *("csrf-token", "csrf_token", "csrfmiddlewaretoken", "csrftoken", "form_key", "formkey"),
        *("nonce", "xsrf", "xsrf_token", "__requestverificationtoken"),
    }
)
_DROPPED: Final = TRACKERS | _SESSIONS | _FORMS
_DROPPED_IN_SEGMENT: Final = re.compile(
    r";(?:jsessionid|phpsessid|sid|sessionid)=[^;/]*", re.ASCII | re.IGNORECASE
)
_DROPPED_SEGMENT: Final = re.compile(
    # ASP.NET: session, anonymous user, login, and whether the browser takes cookies
    r"/\((?:[0-9a-z]{24}|(?:s\([0-9a-z]{24}\)|[af]\([0-9a-z_-]{24,}\)|x\(1\))+)\)(?=/)",
    re.ASCII | re.IGNORECASE,
)

_HOST = (  # a port of one to four digits that is not a default, or of five below 60000
    r"//(?:[a-z0-9-]{1,63}\.)*[a-z0-9-]{1,63}(?::(?!(?:80|443)(?![0-9]))[1-9][0-9]{0,3}|:[1-5][0-9]{4})?"
)
_ESCAPE = "%(?:20|[89A-F][0-9A-F])"  # of characters that must be escaped, in canonical spelling
_SEGMENT = (  # safe characters, and not "." or ".." or "(S(…))"; possessive, for no "/" is in it
    rf"(?:[a-zA-Z0-9_~,+!*'@$-]|{_ESCAPE})[a-zA-Z0-9_~,+!*'@$().-]*+(?:{_ESCAPE}[a-zA-Z0-9_~,+!*'@$().-]*+)*+"
)
_PATH = rf"/(?:{_SEGMENT}(?:/{_SEGMENT})*+/?)?+"
_VALUE = "(?:[a-zA-Z0-9_.+-]|%(?:2[1-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-D]|[89A-F][0-9A-F]))*+"
_PARAMETER = rf"[a-zA-Z0-9_.-]++={_VALUE}"
_PLAIN_LINK: Final = re.compile(
    rf"(?:(https?:)?({_HOST})({_PATH})?|({_PATH})|(?:\./)?((?:\.\./)*)({_SEGMENT}(?:/{_SEGMENT})*+/?)|(?=\?))"
    rf"(?:\?({_PARAMETER}(?:&{_PARAMETER})*+))?(?:#[!-~]*)?"
)
_is_plain_origin: Final = lru_cache(maxsize=4096)(re.compile(rf"https?:{_HOST}/").fullmatch)
# Characters of paths that are plain.
_SAFE: Final = f"{ascii_letters}{digits}_~,+!*'@$().-/".encode()
_PLAIN_QUERIES: Final = frozenset({b"?=", b"?=&=", b"?=&=&=", b"?=&=&=&=", b"?=&=&=&=&="})
_FRAGMENT: Final = re.compile(r"#[^\0]*")
_NAMES: Final = re.compile(r"[?&]([^=\n]*)=")
_ODD_QUERY: Final = re.compile(r"[?&](?:=|[^=\n]*[+])|[?&=][^\n&=]*[~,!*'@$()/]")
_PLAIN_BASE: Final = re.compile(
    rf"(https?:)({_HOST})(?:(/(?:{_SEGMENT}/)*)({_SEGMENT})?)?(?:\?[!-~]*)?"
)
_PLAIN_URL: Final = re.compile(
    rf"(https?:{_HOST})({_PATH})?(?:\?({_PARAMETER}(?:&{_PARAMETER})*))?"
)
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):").match
_C0_AND_SPACE: Final = "".join(map(chr, range(33)))

# To be raised with each change of canonical forms, keys or link rules, so that pages get a new baseline.
FORM: Final = 6
# Limit on the characters of a page's links that are not plain: half a second.
MOST_ODD_CHARACTERS: Final = 600_000
# The fixed cost of such a link, in characters.
_ODD_LINK_CHARACTERS: Final = 60


def canonical_link(base_url: str, href: str) -> str | None:
    """Return the canonical form of the link `href` on the page at `base_url`.

    None if it is not an http(s) link that a browser would follow, or is longer than `LONGEST_URL`.
    """
    return Resolver(base_url).link(href)


class Resolver:
    """Finds the canonical links of one page, relative to its base URL."""

    __slots__ = ("_base", "_directory", "_host", "_name", "_odd_characters", "_scheme")

    def __init__(self, base: str) -> None:
        self._odd_characters = 0
        self._base = base.partition("#")[0]
        plain = _PLAIN_BASE.fullmatch(self._base)
        self._scheme: str | None = plain[1] if plain else None  # None: nothing here is plain
        self._host: str = plain[2] if plain else ""
        self._directory: str = (plain and plain[3]) or "/"
        self._name: str = (plain and plain[4]) or ""

    def lines(self, hrefs: AbstractSet[str]) -> str:
        """Return the canonical links of hrefs, each after a line feed, some of them twice.

        Same as `link` for each, but faster: characters that are safe in paths are removed from all hrefs
        together, after ":" was put in place of "//", and of a dot or "(" that begins a segment. What is
        left shows the kind of href: nothing for a path, "::" for a URL with a path, "?=&=" for a path
        with two parameters. No href may contain NUL, which lxml never returns.
        """
        are_short = max(map(len, hrefs), default=0) <= LONGEST_URL
        short = hrefs if are_short else [href for href in hrefs if len(href) <= LONGEST_URL]
        text = "\0".join(["", *short])
        if "#" in text:
            text = _FRAGMENT.sub("", text)
        data = text.encode("utf-8", "surrogatepass")
        data = data.replace(b"//", b":").replace(b"/.", b":").replace(b"\0.", b"\0:")
        if b"(" in data:
            data = data.replace(b"/(", b":").replace(b"\0(", b"\0:")
        left = data.translate(None, _SAFE).split(b"\0")[1:]
        rooted, relative, links, queries = [""], [""], [""], []
        is_plain, leads_here = self._scheme is not None, False
        for href, odd in zip(text.split("\0")[1:], left, strict=True):
            if not odd and is_plain and href:
                (rooted if href[0] == "/" else relative).append(href)
            elif not href:
                leads_here = True
            elif odd == b"::" and _is_plain_origin(href[: href.find("/", 8) + 1]):
                links.append(href)
            elif odd in _PLAIN_QUERIES and is_plain:
                queries.append(href)
            elif link := self.link(href):
                links.append(link)
        links += self._with_queries(queries) if queries else []
        if leads_here and (link := plain_url(self._base) or self.link("")):
            links.append(link)
        here = f"\n{self._scheme}{self._host}"
        return here.join(rooted) + f"{here}{self._directory}".join(relative) + "\n".join(links)

    def _with_queries(self, hrefs: list[str]) -> list[str]:
        """Return the canonical links of hrefs that are a path and parameters of safe characters."""
        text = "\n".join(hrefs)
        if _ODD_QUERY.search(text) or any(map(_may_be_dropped, {*_NAMES.findall(text)})):
            return [link for href in hrefs if (link := self.link(href))]
        host = f"{self._scheme}{self._host}"
        folder = f"{host}{self._directory}"
        starts = {"/": host, "?": f"{folder}{self._name}"}
        return [
            starts.get(href[0], folder) + (_with_sorted_query(href) if "&" in href else href)
            for href in hrefs
        ]

    def link(self, href: str) -> str | None:
        """Return the canonical form of a link, see `canonical_link`.

        Raises MarkupError if the page's links that are not plain take over half a second.
        """
        if len(href) > LONGEST_URL:
            return None
        plain = _PLAIN_LINK.fullmatch(href)
        if plain is None or self._scheme is None:
            self._odd_characters += _ODD_LINK_CHARACTERS + len(href)
            if self._odd_characters > MOST_ODD_CHARACTERS:
                raise MarkupError("it has too many links with unusual characters")
            return slow_link(self._base, href)
        scheme, host, path, root_path, ups, relative, query = plain.groups()
        if relative is not None:
            directory = self._directory
            for _ in range(len(ups) // 3):
                directory = directory[: directory.rfind("/", 0, -1) + 1] or "/"
            link = f"{self._scheme}{self._host}{directory}{relative}"
        elif root_path is not None:
            link = f"{self._scheme}{self._host}{root_path}"
        elif host is None:  # a query of the same page
            link = f"{self._scheme}{self._host}{self._directory}{self._name}"
        else:
            link = f"{scheme or self._scheme}{host}{path or '/'}"
        return link if query is None else _with_query(link, query)


def plain_url(url: str) -> str | None:
    """Return the canonical form of a plain URL, None for any other."""
    plain = _PLAIN_URL.fullmatch(url)
    if plain is None or len(url) > LONGEST_URL:
        return None
    host, path, query = plain.groups()
    beginning = f"{host}{path or '/'}"
    return beginning if query is None else _with_query(beginning, query)


def slow_link(base: str, href: str) -> str | None:
    """Return the same as `canonical_link`, without the shortcut for plain links."""
    joined = join_link(base, href)
    return None if joined is None else canonical_url(joined)


def join_link(base: str, href: str) -> str | None:
    """Resolve `href` as browsers do, or None if they would not fetch it by http(s)."""
    href = href.strip(_C0_AND_SPACE).replace("\t", "").replace("\n", "").replace("\r", "")
    scheme = _SCHEME(href)
    if scheme is not None and scheme[1].lower() not in {"http", "https"}:
        return None
    # Browsers take a backslash for a slash, but not in a query or a fragment.
    if "\\" in href:
        end = re.search("[?#]", href)
        path_end = len(href) if end is None else end.start()
        href = href[:path_end].replace("\\", "/") + href[path_end:]
    try:
        is_absolute = scheme is not None and href.startswith("//", scheme.end())
        return urldefrag(href if is_absolute else urljoin(base, href)).url
    except ValueError:
        return None


@lru_cache(maxsize=16_384)
def canonical_url(url: str) -> str | None:
    """Return the canonical form of an absolute http(s) URL, None for any other."""
    try:
        parts = urlsplit(canonicalize_url(url))
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or bad_host(parts.hostname or ""):
        return None
    host = parts.netloc.rpartition("@")[2]
    if port is not None or host.endswith(":"):
        host = host[: host.rindex(":")]
    is_standard = port in {None, 80 if parts.scheme == "http" else 443}
    netloc = host.rstrip(".") + ("" if is_standard else f":{port}")
    path = _DROPPED_SEGMENT.sub("", _DROPPED_IN_SEGMENT.sub("", parts.path))
    path = _without_dots(path) or "/"
    query = "&".join(_kept_parameters(parts.query))
    return urlunsplit((parts.scheme, netloc, path, query, ""))


def _with_query(beginning: str, query: str) -> str:
    """Return a URL with a query whose parameters are plain."""
    parameters = _kept_parameters(query)
    if not parameters:
        return beginning
    if len(parameters) > 1:
        parameters.sort(key=lambda text: unquote_to_bytes(text.replace("+", " ")).partition(b"="))
    return f"{beginning}?{'&'.join(parameters)}"


def _with_sorted_query(href: str) -> str:
    """Return an href with its parameters sorted; they must be free of escapes."""
    path, _, query = href.partition("?")
    parameters = query.split("&")
    parameters.sort(key=lambda parameter: parameter.replace("+", " ").partition("="))
    return f"{path}?{'&'.join(parameters)}"


def _kept_parameters(query: str) -> list[str]:
    return [part for part in query.split("&") if part and not _is_dropped(part)]


def _is_dropped(parameter: str) -> bool:
    """Whether a parameter is left out: a session id, or one of trackers, forms, caches, signatures."""
    name, _, value = parameter.partition("=")
    return _may_be_dropped(name) and (name.lower() not in _TOKENS or _TOKEN(value) is not None)


@lru_cache(maxsize=4096)
def _may_be_dropped(name: str) -> bool:
    """Whether parameters of that name are dropped, either always or if the value looks like a token."""
    name = name.lower()
    return (
        name in _DROPPED
        or name in _TOKENS
        or name.startswith("utm_")
        or (len(name) == _ASP_SESSION and name.startswith("aspsessionid"))
    )


def _without_dots(path: str) -> str:
    """Remove dot segments (RFC 3986, 5.2.4), which may be left after session ids were removed."""
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
