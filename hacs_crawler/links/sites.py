"""Groups of pages: an author's site, a homepage's website, a registrable domain.

A *site* is the group of pages that an author tends to update together; siblings and experiments use it.
A *website* is the folder of a homepage; the spider `scholar` and the paper's evaluations use it.
A *domain* is a registrable domain, as browsers see it; HACS_LINKS = "same-site" uses it.
"""

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
# Size of caches of pages' numbers. Small: a crawl asks again soon or not at all, and Python's garbage
# collection traverses all cached objects.
_UNDER_WAY: Final = 1_024
# How many levels below its homepage belong to a website, as in the paper.
DEEPEST: Final = 2
Places = NDArray[np.int64]


def site_of(url: str) -> str:
    """Return the site of a page: `host/~user`, or without a `~` its folder.

    Subfolders are other sites: on a department's host they may belong to other people.
    """
    host, path = _host_and_path(url)
    user = _USER.match(path)
    folder = user[0] if user is not None else path.rpartition("/")[0]
    return f"{host}{folder.lower().replace('%7e', '~')}"


def menu_of(url: str) -> str:
    """Return the group of pages that share menus, footers and boxes: `host/~user`, else the host.

    Pages in all its folders are made from one template.
    """
    host, path = _host_and_path(url)
    user = _USER.match(path)
    return host if user is None else f"{host}{user[0].lower().replace('%7e', '~')}"


@lru_cache(maxsize=_UNDER_WAY)
def _host_and_path(url: str) -> tuple[str, str]:
    """Return a URL's host without `www.`, and its path; only unusual URLs take the slow `urlsplit`."""
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
    """Return the registrable domain of a URL, or the host itself; "" if the URL is not http(s).

    Uses the Public Suffix List with its private part, as browsers do.
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
    """Return the host and folder of a homepage's website: `host/~author/`."""
    parts = _canonical_parts(homepage)
    folder, _, name = parts.path.rpartition("/")
    if name and "." not in name:
        folder = f"{folder}/{name}"
    return f"{parts.netloc}{folder}/"


def is_inside(url: str, website: str) -> bool:
    """Whether a URL is in a website (see `website_of`); URLs are compared in their canonical form."""
    parts = _canonical_parts(url)
    address = parts.netloc + (parts.path or "/")
    return address.startswith(website) or address + "/" == website


def _canonical_parts(url: str) -> SplitResult:
    return urlsplit(plain_url(url) or canonical_url(url) or url)


def path_depth(url: str, website: str) -> int:
    """Return how many path levels a URL is below its website.

    In `uni.example/~ada/` that is 1 for `~ada/papers` and `~ada/papers/`, 2 for `~ada/papers/1.html`.
    """
    return _levels(urlsplit(url).path) - _levels(website.partition("/")[2])


def _levels(path: str) -> int:
    return sum(map(bool, path.split("/")))


def group_by_website(
    urls: Sequence[str], seeds: Iterable[str] | None = None
) -> tuple[Places, Places]:
    """Return each page's website, numbered from 0 (-1: none), and each website's homepage.

    A website is a homepage and the pages in the homepage's folder on the same host, as for the spider
    `scholar`. Homepages are the `seeds` among the pages; if several of their folders contain a page, it
    belongs to the innermost. Without seeds, homepages are the pages that are in no other page's folder.
    """
    keys = [page_key(url) for url in urls]
    folders = [_folder(url, key) for url, key in zip(urls, keys, strict=True)]
    in_order = sorted(range(len(urls)), key=lambda index: (folders[index], keys[index]))
    if seeds is None:
        # in this order, outer folders come before inner ones
        homes = list[int]()
        for index in in_order:
            if not homes or not folders[index].startswith(folders[homes[-1]]):
                homes.append(index)
    else:
        wanted = {page_key(url) for url in seeds}
        homes = [index for index in in_order if keys[index] in wanted]
    # if several homepages have the same folder, the first in order
    own = {folders[index]: index for index in reversed(homes)}
    homes = sorted(own.values())
    site_of = {folders[index]: site for site, index in enumerate(homes)}
    sites = [
        next((site_of[outer] for outer in _upwards(folder) if outer in site_of), -1)
        for folder in folders
    ]
    return np.array(sites, np.int64), np.array(homes, np.int64)


def _folder(url: str, key: str) -> str:
    """Return a page's folder: `edu,example)/~ada/` for ~ada/ and for ~ada/cv.html."""
    folder, _, name = urlsplit(url).path.rpartition("/")
    if name and "." not in name:
        folder = f"{folder}/{name}"
    return f"{key.partition(')')[0]}){folder}/"


def _upwards(folder: str) -> Iterator[str]:
    """Yield a folder and its parents, the innermost first."""
    while folder.endswith("/"):
        yield folder
        folder = folder[: folder.rstrip("/").rfind("/") + 1]
