"""Groups of pages: an author's site, a homepage's website, a registrable domain.

A *site* is the group of pages that an author tends to update together: siblings and experiments use it.
A *website* is the folder of a homepage: the spider `scholar` follows it, and the paper's evaluations
count it. A *domain* is registered by somebody: HACS_LINKS = "same-site" uses it, as browsers do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray
from tldextract import TLDExtract

from hacs_crawler.links.canonical import canonical_url, plain_url
from hacs_crawler.links.keys import page_key
from hacs_crawler.links.urls import fingerprint

_split_suffix: Final = TLDExtract(
    suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True
)
_USER = re.compile(r"/(?:~|%7[Ee])[^/]+")
_PLAIN: Final = re.compile(r"https?://([a-z0-9.-]+)(?::[0-9]+)?(/[!\"$->@-~]*)?(?:[?#][!-~]*)?")
_WWW = re.compile(r"www\d*\.(?=[^.]+\.)")
# For how many pages numbers are kept: a crawl asks for them again soon or not at all, and each full
# collection of Python's garbage looks at all that a cache holds.
_UNDER_WAY: Final = 1_024
# How deep below its homepage a website is taken, as in the paper.
DEEPEST: Final = 2
Places = NDArray[np.int64]


def site_of(url: str) -> str:
    """Return the site that a page shares with others of its author: `host/~user`, else its folder.

    Without a `~` the pages of one folder are one site, without the folders below it, which on a
    department's host may belong to other people.
    """
    host, path = _host_and_path(url)
    user = _USER.match(path)
    folder = user[0] if user is not None else path.rpartition("/")[0]
    return f"{host}{folder.lower().replace('%7e', '~')}"


def menu_of(url: str) -> str:
    """Return the place whose pages share menus, footers and boxes: `host/~user`, else the host.

    They are made from one template, in whatever folders they are.
    """
    host, path = _host_and_path(url)
    user = _USER.match(path)
    return host if user is None else f"{host}{user[0].lower().replace('%7e', '~')}"


def _host_and_path(url: str) -> tuple[str, str]:
    """Return a URL's host without `www.`, and its path; `urlsplit`, which takes long, reads odd ones."""
    plain = _PLAIN.fullmatch(url)
    if plain is not None:
        host, path = plain[1], plain[2] or ""
    else:
        parts = urlsplit(url)
        host, path = (parts.hostname or "").lower(), parts.path
    return _WWW.sub("", host, count=1) if "www" in host else host, path


@lru_cache(maxsize=_UNDER_WAY)
def menu_id(url: str) -> int:
    """Return a number, 1 to 2^32 - 1, for the group of pages that share menus with this page."""
    try:
        return (fingerprint(menu_of(url)) & 0xFFFF_FFFF) or 1
    except ValueError:
        return 1


@lru_cache(maxsize=_UNDER_WAY)
def site_id(url: str) -> int:
    """Return a number of the page's site, 1 to 2^32 - 1."""
    try:
        return (fingerprint(site_of(url)) & 0xFFFF_FFFF) or 1
    except ValueError:
        return 1


def domain_of(url: str) -> str:
    """Return the registrable domain of a URL, without one its host, "" if it is not http(s).

    As in browsers, the Public Suffix List decides, its private part included.
    """
    link = canonical_url(url)
    return "" if link is None else domain_of_netloc(link.split("/", 3)[2])


@lru_cache(maxsize=4096)
def domain_of_netloc(netloc: str) -> str:
    """Return the registrable domain of a host with or without its port."""
    host = urlsplit("//" + netloc).hostname or ""
    parts = _split_suffix(host)
    return f"{parts.domain}.{parts.suffix}" if parts.domain and parts.suffix else host


def website_of(homepage: str) -> str:
    """Return the host and folder below which a homepage's website lies: `host/~author/`."""
    parts = _canonical_parts(homepage)
    folder, _, name = parts.path.rpartition("/")
    if name and "." not in name:
        folder = f"{folder}/{name}"
    return f"{parts.netloc}{folder}/"


def is_inside(url: str, website: str) -> bool:
    """Whether a URL lies in a website, as `website_of` names it, however either is spelled."""
    parts = _canonical_parts(url)
    address = parts.netloc + (parts.path or "/")
    return address.startswith(website) or address + "/" == website


def _canonical_parts(url: str) -> SplitResult:
    return urlsplit(plain_url(url) or canonical_url(url) or url)


def path_depth(url: str, website: str) -> int:
    """Return how many levels of its path a URL is below the website that it lies in.

    Below `uni.example/~ada/` that is 1 for `~ada/papers` and `~ada/papers/`, 2 for `~ada/papers/1.html`.
    """
    return _levels(urlsplit(url).path) - _levels(website.partition("/")[2])


def _levels(path: str) -> int:
    return sum(map(bool, path.split("/")))


def group_by_website(
    urls: Sequence[str], seeds: Iterable[str] | None = None
) -> tuple[Places, Places]:
    """Return each page's website, numbered from 0 (-1: none), and each website's homepage.

    A website is a homepage and the pages in the homepage's folder on the same host, as the spider
    `scholar` follows them. Homepages are the pages of `seeds` that are among the pages; of two seeds
    whose folders contain a page, the inner one has it. Without seeds, a page that is in no other page's
    folder is a homepage.
    """
    keys = [page_key(url) for url in urls]
    folders = [_folder(url, key) for url, key in zip(urls, keys, strict=True)]
    in_order = sorted(range(len(urls)), key=lambda index: (folders[index], keys[index]))
    if seeds is None:
        # pages in no other page's folder: outer folders come first
        homes = list[int]()
        for index in in_order:
            if not homes or not folders[index].startswith(folders[homes[-1]]):
                homes.append(index)
    else:
        wanted = {page_key(url) for url in seeds}
        homes = [index for index in in_order if keys[index] in wanted]
    # of a folder's pages its own
    own = {folders[index]: index for index in reversed(homes)}
    homes = sorted(own.values())
    site_of = {folders[index]: site for site, index in enumerate(homes)}
    sites = [
        next((site_of[outer] for outer in _upwards(folder) if outer in site_of), -1)
        for folder in folders
    ]
    return np.array(sites, np.int64), np.array(homes, np.int64)


def _folder(url: str, key: str) -> str:
    """Return the folder that a page stands for: `edu,example)/~ada/` of ~ada/ and of ~ada/cv.html."""
    folder, _, name = urlsplit(url).path.rpartition("/")
    if name and "." not in name:
        folder = f"{folder}/{name}"
    return f"{key.partition(')')[0]}){folder}/"


def _upwards(folder: str) -> Iterator[str]:
    """Yield a folder and those around it, the innermost first."""
    while folder.endswith("/"):
        yield folder
        folder = folder[: folder.rstrip("/").rfind("/") + 1]
