"""RSS and Atom feeds: the feeds that a page announces, and their signals. Needs feedparser.

feedparser takes quadratic or cubic time for attributes, categories, an author's address or an XML
declaration: 30 KB of the latter block the interpreter for half a minute. So lxml, which is linear,
reads the feed first, and feedparser gets an outline: links and times, each of limited length.
"""

import calendar
from collections.abc import Iterable, Iterator
from io import BytesIO
from time import struct_time
from typing import Any, Final

from lxml import etree
from lxml.html import HtmlElement

from hacs_crawler.exceptions import needing
from hacs_crawler.parts.signals.sitemap import Listing, SignalError, same_host
from hacs_crawler.utils.times import DAY

FEED_TYPES: Final = ("application/rss+xml", "application/atom+xml")
MOST_FEED_BYTES: Final = 2 * 1024 * 1024
# How many of a page's feeds are kept; comment feeds of single pages come last.
MOST_FEEDS: Final = 3
# How many elements an outline may have, which take half a second; later ones are not read.
MOST_ELEMENTS: Final = 10_000
_MOST_CHARACTERS: Final = 2_000
_HOLDERS: Final = {"rss", "rdf", "feed", "channel", "item", "entry"}
_TIMES: Final = {"date", "pubdate", "published", "issued", "created", "updated", "modified"}
_HELD: Final = {"link", "guid", "id", *_TIMES}
_ATTRIBUTES: Final = {"version", "rel", "type", "href", "isPermaLink"}


def announced_feeds(root: HtmlElement, url: str) -> list[str]:
    """Return the feeds on the page's own host that its links announce."""
    feeds = []
    for link in root.iterfind(".//link[@rel][@type][@href]"):
        is_feed = link.get("type", "").strip().lower() in FEED_TYPES
        if is_feed and "alternate" in link.get("rel", "").lower().split():
            feeds.append(same_host(link.get("href", ""), url))
    return list(dict.fromkeys(feed for feed in feeds if feed is not None))[:MOST_FEEDS]


def read_feed(body: bytes, url: str, now: int) -> Listing:
    """Return the signals of a feed for pages of its own host: of its entries, and of its home page.

    The home page, to which the feed links, gets the latest time of the entries. `now` is in seconds
    since 1970 UTC. Raises SignalError if this is not a feed, is too large, or cannot be read.
    """
    with needing("signals", "feeds are read with feedparser", SignalError):
        import feedparser  # noqa: PLC0415 - an extra
    if len(body) > MOST_FEED_BYTES:
        raise SignalError(f"{url}: larger than {MOST_FEED_BYTES} bytes")
    try:
        # a stream: feedparser would download bytes that look like a URL
        outline = BytesIO(_outline(body))
        feed = feedparser.parse(outline, sanitize_html=False, resolve_relative_uris=False)
    except Exception as error:  # the parsers may raise anything
        raise SignalError(f"{url}: not a feed: {error!r}") from error
    if not feed.get("version"):
        raise SignalError(f"{url}: not a feed")
    listing = Listing()
    for entry in feed.entries:
        page = same_host(str(entry.get("link", "")), url)
        # for a missing key, feedparser returns the other one, with a warning
        name = "updated_parsed" if "updated_parsed" in entry else "published_parsed"
        listing.add(page, _second(entry.get(name), now))
    home = same_host(str(feed.feed.get("link", "")), url)
    if home is not None and listing.pages:
        listing.add(home, max(listing.pages.values()))
    return listing


def _outline(body: bytes) -> bytes:
    """Return the outline of a feed as XML; raises ValueError or LxmlError."""
    root = etree.fromstring(body.strip(), etree.XMLParser(recover=True, resolve_entities=False))
    if root is None:
        raise ValueError("it is not XML")
    outline = etree.Element("outline")
    _copy([root], outline, iter(range(MOST_ELEMENTS)))
    text: bytes = etree.tostring(outline[0] if len(outline) else outline, encoding="utf-8")
    return text


def _copy(elements: Iterable[Any], into: Any, places: Iterator[int]) -> None:
    """Copy the elements that feedparser needs, up to the number of `places`."""
    for element in elements:
        name = element.tag.rpartition("}")[2].lower()
        if name not in _HOLDERS | _HELD or next(places, None) is None:
            continue
        # `element.items()` takes quadratic time
        values = {key: element.get(key, "") for key in _ATTRIBUTES}
        attributes = {key: value for key, value in values.items() if _is_short(value)}
        copy = etree.SubElement(into, element.tag, attributes)
        if name in _HOLDERS:
            _copy(element.iterchildren("*"), copy, places)
        elif _is_short(element.text or ""):
            copy.text = element.text


def _is_short(text: str) -> bool:
    return 0 < len(text) <= _MOST_CHARACTERS


def _second(parsed: Any, now: int) -> int | None:
    if not isinstance(parsed, struct_time):
        return None
    second = calendar.timegm(parsed)
    return second if 0 < second <= now + DAY else None
