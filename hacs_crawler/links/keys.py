"""The identity of pages and links: the key that all spellings of a page's URL share.

The key is made from the canonical form (`links.canonical`) by rules that must not be applied to
requests, but hardly ever confuse two pages: they ignore the scheme, a leading `www.`, the default ports
of both schemes, slashes at the end, repeated slashes, and the names of default documents. They keep the
case of paths and queries, and escapes with a meaning of their own (`%2F`), which many hosts distinguish.

The key of a page is written like a SURT (https://github.com/internetarchive/surt),
`edu,example)/~Ada?a=1`, but is not a SURT: archives use `page_surt`, which ignores case. For most pages
both are the same text. The key of a link, whose fingerprint is kept, is written `example.edu/~Ada?a=1`.
"""

import re
from functools import lru_cache
from typing import Final

from hacs_crawler.links.canonical import canonical_url, plain_url
from hacs_crawler.links.urls import check_address, fingerprint, fingerprints, page_surt

_WWW: Final = re.compile(r"\nwww\d*\.(?:www\d*\.)*(?=[^/\n]*\.)")
_DEFAULT_PORT: Final = re.compile(r"^([^/\n]*):(?:80|443)(?=/)", re.MULTILINE)
_DOCUMENTS: Final = re.compile(  # the defaults of Apache, nginx and IIS
    r"(?:/(?:index\.(?:html?|shtml|xhtml|php|cgi|pl|jsp|aspx?|cfm)"
    r"|[dD]efault\.(?:html?|aspx?))?)+(?=[?\n]|\Z)"
)
_reversed: Final = lru_cache(maxsize=1024)(lambda host: ",".join(reversed(host.split("."))))
_NUMERIC: Final = re.compile(r"https?://([0-9.]+)(?=[:/])").match


@lru_cache(maxsize=16_384)
def page_id_of(url: str) -> int:
    """Return the fingerprint of the page's key; raises ValueError as `page_key` does."""
    return fingerprint(page_key(url))


def page_key(url: str) -> str:
    """Return the key of the page that an absolute URL leads to.

    For URLs that no crawl could visit, such as URLs of other schemes, it is the SURT. Raises ValueError
    if there is no SURT, as `page_surt` does.
    """
    canonical = plain_url(url) or canonical_url(url)
    if canonical is None:
        return page_surt(url)
    if (numeric := _NUMERIC(canonical)) is not None:
        check_address(numeric[1])  # an invalid address names no page
    host, slash, rest = _keys_of(f"\n{canonical}")[1:].partition("/")
    host, mark, query = host.partition("?")
    if host[0] != "[":
        host, colon, port = host.partition(":")
        host = _reversed(host) + colon + port
    return f"{host})/{rest if slash else mark + query}"


def link_fingerprint(link: str) -> int:
    """Return the fingerprint of the key of the page that a canonical link leads to."""
    [number] = fingerprints_of(f"\n{link}")
    return number


def fingerprints_of(lines: str) -> frozenset[int]:
    """Return the fingerprints of canonical links, each after a line feed."""
    return fingerprints(_keys_of(lines).encode().split(b"\n")[1:])


def _keys_of(lines: str) -> str:
    """Return the keys of canonical URLs, each after a line feed: `example.edu/~Ada?a=1`."""
    # rare features are searched for in all URLs together, since none of most pages' links has them
    text = lines.replace("\nhttps://", "\n").replace("\nhttp://", "\n")
    # most links are to one host, for which replacing a text is ten times as fast as the expression
    if text.startswith("\nwww"):
        host = text[: text.find("/", 1) + 1]
        text = text.replace(host, _WWW.sub("\n", host))
    if "\nwww" in text:
        text = _WWW.sub("\n", text)
    if ":80/" in text or ":443/" in text:
        text = _DEFAULT_PORT.sub(r"\1", text)
    if "//" in text:
        text = re.sub("//+", "/", text)
    if "/index." in text or "efault." in text:
        text = _DOCUMENTS.sub("", text)
    return text.replace("/?", "?").replace("/\n", "\n").removesuffix("/")
