"""Which pages are likely to be one author's: they tend to be updated together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.links.urls import fingerprint, page_surt

_USER = re.compile(r"/(?:~|%7[Ee])[^/]+")
_WWW = re.compile(r"www\d*\.(?=[^.]+\.)")
Places = NDArray[np.int64]


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


def group_by_site(urls: Sequence[str], seeds: Iterable[str] | None = None) -> tuple[Places, Places]:
    """Return each page's website, numbered from 0 (-1: none), and each website's homepage.

    A website is a homepage and the pages in the homepage's folder on the same host, as the spider
    `scholar` follows them. Homepages are the pages of `seeds` that are among the pages; of two seeds
    whose folders contain a page, the inner one has it. Without seeds, a page that is in no other
    page's folder is a homepage.
    """
    keys = [page_surt(url) for url in urls]
    folders = [_folder(url, key) for url, key in zip(urls, keys, strict=True)]
    in_order = sorted(range(len(urls)), key=lambda place: (folders[place], keys[place]))
    if seeds is None:
        homes = _outermost(folders, in_order)
    else:
        wanted = {page_surt(url) for url in seeds}
        homes = [place for place in in_order if keys[place] in wanted]
    own = {folders[place]: place for place in reversed(homes)}  # of a folder's pages its own
    homes = sorted(own.values())
    site_of = {folders[place]: site for site, place in enumerate(homes)}
    sites = [
        next((site_of[outer] for outer in _upwards(folder) if outer in site_of), -1)
        for folder in folders
    ]
    return np.array(sites, np.int64), np.array(homes, np.int64)


def _outermost(folders: Sequence[str], in_order: Sequence[int]) -> list[int]:
    """Return the pages that are in no other page's folder; `in_order` has outer folders first."""
    homes: list[int] = []
    for place in in_order:
        if not homes or not folders[place].startswith(folders[homes[-1]]):
            homes.append(place)
    return homes


def _folder(url: str, key: str) -> str:
    """Return the folder that a page stands for: `edu,example)/~ada/` of ~ada/ and of ~ada/cv.html."""
    folder, _, name = urlsplit(url).path.lower().rpartition("/")
    if name and "." not in name:
        folder = f"{folder}/{name}"
    return f"{key.partition(')')[0]}){folder}/"


def _upwards(folder: str) -> Iterator[str]:
    """Yield a folder and those around it, the innermost first."""
    while folder.endswith("/"):
        yield folder
        folder = folder[: folder.rstrip("/").rfind("/") + 1]
