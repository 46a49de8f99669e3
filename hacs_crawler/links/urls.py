"""The SURT by which web archives identify pages, checks of URLs, and 64-bit fingerprints.

``surt.surt`` takes some 10 us a URL, too much for every request of a crawl. Regular URLs are therefore
parsed by one expression; all others are left to the library.
"""

import re
import socket
import warnings
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from hashlib import blake2b
from struct import unpack
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from xxhash import xxh3_64_digest

# In characters; longer URLs are not used. The limits of browsers and CDX servers are about the same.
LONGEST_URL = 2083

# Characters that neither surt nor browsers change, in segments other than "." and "..".
# "%" and parentheses are left out: escapes and ASP.NET session ids need the slow path.
_REGULAR = re.compile(
    r"https?://(?:www\d*\.)?"
    r"((?:[a-z0-9-]{1,63}\.)*[a-z][a-z0-9-]{0,62})"
    r"((?:/[a-z0-9~_@:!$'*,;=+-][a-z0-9~_@:!$'*,;=+.-]*)*)/?",
    re.ASCII | re.IGNORECASE,
)
_NUMERIC_HOST = re.compile(r"[0-9]+(?:\.[0-9]+)*").fullmatch
_LOGIN = re.compile(r"^(\s*(?:[a-z][a-z0-9+.-]*:)?[/\\]{2,})[^/?#\\]*@", re.ASCII | re.IGNORECASE)
_UNUSABLE = re.compile(r"[\x00-\x20\x7f-\xa0\ud800-\udfff]").search
_BAD_HOST = re.compile(r"[\x00-\x20\x7f#%/<>?@\[\\\]^|`{}\"]|\.\.|^\.").search


def fingerprint(text: str) -> int:
    """Return the stable signed 64-bit fingerprint of `text` (BLAKE2b of its UTF-8, little-endian).

    It is safe against deliberate collisions with pages of other sites. Raises UnicodeEncodeError for
    lone surrogates.
    """
    return int(unpack("<q", blake2b(text.encode(), digest_size=8).digest())[0])


def fingerprints(shown: Iterable[bytes]) -> frozenset[int]:
    """Return the stable signed 64-bit fingerprints of the marks of one page (XXH3, little-endian).

    Takes a tenth of the time of `fingerprint`. Deliberate collisions are possible, but authors could
    only hide links of their own page.
    """
    digests = [*map(xxh3_64_digest, shown)]
    return frozenset(unpack(f"<{len(digests)}q", b"".join(digests)))


def page_surt(url: str) -> str:
    """Return the SURT of a page, exactly as ``surt.surt``, and thus CDX servers, form it.

    Raises ValueError for URLs without a key: empty, with a bad port or an invalid IP address.
    """
    match = _REGULAR.fullmatch(url)
    if match is None:
        return _slow_surt(url)
    host, path = match.groups()
    labels = host.split(".")
    labels.reverse()
    return f"{','.join(labels)}){path or '/'}".lower()


def bad_host(host: str) -> bool:
    """Whether no browser would look `host` up: it is empty, or has spaces or URL delimiters in it."""
    if ":" in host:  # IPv6; urlsplit has checked it and removed the brackets
        return False
    return not host or _BAD_HOST(host) is not None


def without_login(url: str) -> str:
    """Return a URL without a user and password before its host."""
    return _LOGIN.sub(r"\1", url, count=1) if "@" in url else url


def kept_url(url: str) -> str:
    """Return a page's URL as it is kept: without a login, and with spaces escaped as in browsers."""
    if "@" not in url and " " not in url:  # nearly all
        return url
    return without_login(url).replace(" ", "%20")


def check_url(url: str) -> str | None:
    """Return why `url` cannot be a seed, in words for a log line, or None if it can.

    A valid URL has a page id and a SURT, and Scrapy can make a request from it.
    """
    if not url:
        return "empty URL"
    if len(url) > LONGEST_URL:
        return f"longer than {LONGEST_URL} characters"
    if (match := _UNUSABLE(url)) is not None:
        if "://" not in url and "." not in url:
            return "no URL"
        return f"space or control character U+{ord(match[0]):04X} at column {match.start() + 1}"
    try:
        return _check_parts(url)
    except ValueError as error:
        return f"cannot be parsed: {error}"


def _check_parts(url: str) -> str | None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        wrong = f"scheme {parts.scheme!r} is not http or https"
        return wrong if parts.scheme else "no scheme; http:// or https:// expected"
    host = parts.hostname
    if not host:
        return "no host"
    if bad_host(host):
        return f"impossible host {host!r}"
    # raises UnicodeError, which is a ValueError, for an invalid host
    if not host.isascii():
        host.encode("idna")
    if parts.port == 0:
        return "port 0"
    if "@" in parts.netloc:
        return "a user or password in it, which would be shown but not sent"
    page_surt(url)
    return None


@cache
def _surt() -> Callable[[str], str]:
    # surt 0.3.1 has invalid escapes, which cause warnings when it is compiled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from surt import DefaultIAURLCanonicalizer, surt  # noqa: PLC0415 - large, and rarely needed

    steps = [_forbid_lookup, DefaultIAURLCanonicalizer.canonicalize]
    return lambda url: str(surt(url, steps))


@lru_cache(maxsize=4096)
def _slow_surt(url: str) -> str:
    try:
        key = _surt()(url)
    except (AssertionError, AttributeError) as error:  # raised by surt for URLs it cannot parse
        raise ValueError(f"no SURT for {url[:200]!r}") from error
    if key == "-":
        raise ValueError("no SURT for an empty URL")
    return key


def _forbid_lookup(parsed: Any, **_options: object) -> Any:
    """Refuse hosts like 999.1.2.3, which surt would look up in the DNS, blocking the reactor."""
    host = parsed.host or b""
    while (plain := unquote_to_bytes(host)) != host:
        host = plain
    check_address(host.decode("latin-1"))
    return parsed


@lru_cache(maxsize=1024)
def check_address(host: str) -> None:
    """Raise ValueError for a host of digits and dots that is not an IP address, such as 999.1.2.3."""
    host = host.replace("..", ".").strip(".")
    if _NUMERIC_HOST(host) and "." in host:
        try:
            socket.inet_aton(host)
        except OSError:
            raise ValueError(f"not an IP address: {host}") from None
