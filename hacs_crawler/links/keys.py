"""What tells pages apart, and links: the key that all spellings of a page's URL have in common.

It is made of the canonical form (`links.canonical`) by rules that may not be used to ask for a page, but
by which two URLs are hardly ever two pages: scheme and a leading `www.` do not matter, nor default
ports of either scheme, slashes at the end or several in a row, and the names of default documents. The
case of paths and queries, and escapes that have a meaning of their own (`%2F`), do: many hosts tell
them apart.

A page's is written as a SURT (https://github.com/internetarchive/surt), `edu,example)/~Ada?a=1`, but
is none: the key of archives is `page_surt`, which does not tell case. For most pages both are the same
text. That of a link to the page, whose fingerprint is kept, is written `//example.edu/~Ada?a=1`.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from hacs_crawler.links.canonical import canonical_url, plain_url
from hacs_crawler.links.urls import check_address, fingerprint, fingerprints, page_surt

_WWW: Final = re.compile(r"^//(?:www\d*\.)+(?=[^/]*\.)")
_DEFAULT_PORT: Final = re.compile(r"^(//[^/]*):(?:80|443)(?=/)")
_DOCUMENT: Final = (  # of Apache, nginx and IIS, as they come
    *(f"index.{kind}" for kind in ("html", "htm", "shtml", "xhtml", "php", "cgi", "pl", "jsp")),
    *(f"index.{kind}" for kind in ("asp", "aspx", "cfm")),
    *(
        f"{name}.{kind}"
        for name in ("default", "Default")
        for kind in ("html", "htm", "asp", "aspx")
    ),
)
_ENDS: Final = tuple(f"/{name}" for name in _DOCUMENT)
_END: Final = re.compile(rf"(?<=[^/])(?:/(?:{'|'.join(map(re.escape, _DOCUMENT))})?)+$")
_NUMERIC: Final = re.compile(r"https?://([0-9.]+)(?=[:/])").match
_SLASHES: Final = re.compile("(?<=[^/])//+")
_ODD: Final = (":80/", ":443/", "/index.", "/default.", "/Default.", "/?")


@lru_cache(maxsize=16_384)
def page_id_of(url: str) -> int:
    """Return the fingerprint of the page's key; raises ValueError as `page_key` does."""
    return fingerprint(page_key(url))


def page_key(url: str) -> str:
    """Return the key of the page that an absolute URL leads to.

    Of what no crawl could visit, such as other schemes, it is the SURT. Raises ValueError where there is
    none either, as `page_surt` does.
    """
    canonical = plain_url(url) or canonical_url(url)
    if canonical is None:
        return page_surt(url)
    if (numeric := _NUMERIC(canonical)) is not None:
        check_address(numeric[1])  # one that cannot be names no page
    host, slash, rest = _key_of(canonical)[2:].partition("/")
    host, mark, query = host.partition("?")
    if host[0] != "[":
        host, colon, port = host.partition(":")
        host = ",".join(reversed(host.split("."))) + colon + port
    return f"{host})/{rest if slash else mark + query}"


def link_fingerprint(link: str) -> int:
    """Return the fingerprint of a canonical link: that of the key of the page that it leads to."""
    return fingerprint(_key_of(link))


def fingerprints_of(links: Sequence[str]) -> frozenset[int]:
    """Return the fingerprints of canonical links; faster than one by one where they are usual."""
    text = "\n".join(links)
    # one look at all of them for what only few pages have in any link
    if any(map(text.__contains__, _ODD)) or text.count("//") > len(links):
        return frozenset(map(link_fingerprint, links))
    keys = [link.partition(":")[2].rstrip("/") for link in links]
    if "//www" in text:
        keys = [_WWW.sub("//", key) if key.startswith("//www") else key for key in keys]
    return fingerprints(keys)


def _key_of(canonical: str) -> str:
    """Return the key of a canonical URL: `//example.edu/~Ada?a=1`."""
    place = canonical[canonical.index(":") + 1 :]
    if place.startswith("//www"):
        place = _WWW.sub("//", place)
    if ":80/" in place or ":443/" in place:
        place = _DEFAULT_PORT.sub(r"\1", place)
    path, mark, query = place.partition("?")
    if path.find("//", 2) > 0:
        path = _SLASHES.sub("/", path)
    if path[-1] == "/" or path.endswith(_ENDS):
        path = _END.sub("", path)
    return f"{path}{mark}{query}"
