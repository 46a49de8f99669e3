"""Which pages of a state are homepages, and which pages make up a website."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.links.urls import page_surt

Places = NDArray[np.int64]


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
