"""Which pages are likely to be one author's: they tend to be updated together."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

from hacs_crawler.links.urls import fingerprint

_USER = re.compile(r"/(?:~|%7[Ee])[^/]+")
_WWW = re.compile(r"www\d*\.(?=[^.]+\.)")


def site_of(url: str) -> str:
    """Return the place that a page shares with others of its author: `host/~user`, else its folder.

    Without a `~` the pages of one folder are taken together, but not those of the folders below it,
    which on a department's host may be other people's.
    """
    parts = urlsplit(url)
    host = _WWW.sub("", (parts.hostname or "").lower(), count=1)
    user = _USER.match(parts.path)
    place = user[0] if user is not None else parts.path.rpartition("/")[0]
    return f"{host}{place.lower().replace('%7e', '~')}"


@lru_cache(maxsize=16_384)
def site_id(url: str) -> int:
    """Return a number of the page's site, 1 to 2^32 - 1."""
    try:
        return (fingerprint(site_of(url)) & 0xFFFF_FFFF) or 1
    except ValueError:
        return 1
