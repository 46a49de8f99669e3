"""RSS and Atom feeds: which of them a page announces, and what they say of pages. Needs feedparser."""

from __future__ import annotations

import calendar
from io import BytesIO
from time import struct_time
from typing import Any, Final

from lxml.html import HtmlElement

from hacs_crawler.parts.signals.listing import Listing, SignalError
from hacs_crawler.parts.signals.sitemap import same_host
from hacs_crawler.utils.times import DAY

FEED_TYPES: Final = ("application/rss+xml", "application/atom+xml")
MOST_FEED_BYTES: Final = 2 * 1024 * 1024
MOST_FEEDS: Final = 3
"""Of a page at most so many feeds are noted: comment feeds of single pages come last."""


def announced_feeds(root: HtmlElement, url: str) -> list[str]:
    """Return the feeds on its own host that a page announces in its head."""
    found = []
    for link in root.iterfind(".//link[@rel][@type][@href]"):
        is_feed = link.get("type", "").strip().lower() in FEED_TYPES
        if is_feed and "alternate" in link.get("rel", "").lower().split():
            found.append(same_host(link.get("href", ""), url))
    return list(dict.fromkeys(one for one in found if one is not None))[:MOST_FEEDS]


def read_feed(body: bytes, url: str, now: int) -> Listing:
    """Return what a feed shows of its own host's pages: those of its entries, and the one it is of.

    That one, the feed's own link, shows the entries: its signal is the latest of theirs. `now` is in
    seconds since 1970 UTC. Raises SignalError where it is no feed, is too large, or cannot be read.
    """
    try:
        import feedparser  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = "feeds are read with feedparser: pip install 'hacs-crawler[signals]'"
        raise SignalError(msg) from error
    if len(body) > MOST_FEED_BYTES:
        raise SignalError(f"{url}: larger than {MOST_FEED_BYTES} bytes")
    try:
        # a stream: what looks like an address in bytes would be asked for
        feed = feedparser.parse(BytesIO(body), sanitize_html=False, resolve_relative_uris=False)
    except Exception as error:  # whatever a parser of anything raises
        raise SignalError(f"{url}: no feed: {error!r}") from error
    if not feed.get("version"):
        raise SignalError(f"{url}: no feed")
    listing = Listing()
    for entry in feed.entries:
        page = same_host(str(entry.get("link", "")), url)
        # asked for outright, feedparser gives the one for the other, and warns
        name = "updated_parsed" if "updated_parsed" in entry else "published_parsed"
        second = _second(entry.get(name), now)
        if page is None:
            listing.unread += 1
        else:
            listing.add(page, second)
    home = same_host(str(feed.feed.get("link", "")), url)
    if home is not None and listing.pages:
        listing.add(home, max(listing.pages.values()))
    return listing


def _second(parsed: Any, now: int) -> int | None:
    if not isinstance(parsed, struct_time):
        return None
    second = calendar.timegm(parsed)
    return second if 0 < second <= now + DAY else None
