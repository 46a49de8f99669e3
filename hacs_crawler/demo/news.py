"""The web of `hacs demo --news`: a news site, a blog, homepages, and readers that read them.

Stories are read for hours, posts and homepages evenly; so the readers' access log tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

import numpy as np

from hacs_crawler.demo.histories import START, generated
from hacs_crawler.demo.pages import title
from hacs_crawler.demo.web import Web
from hacs_crawler.utils.arrays import FloatArray, IndexArray
from hacs_crawler.utils.times import DAY

READ_DAYS: Final = 46
"""Readers have read for so long when the crawl begins: shorter windows mix up the new and the news."""
DAYS: Final = 3
"""And go on so long at most."""
STORIES_A_DAY: Final = 28.0
READS_OF_STORY: Final = 80.0
MU: Final = -0.9
SIGMA: Final = 0.8
"""Of the curve of interest in a story, in ln(days): half of its reads come within ten hours."""
POST_DAYS: Final = 4.0
POSTS_BEFORE: Final = 20
READS_OF_POST: Final = 2.5
READS_OF_HOMEPAGE: Final = 2.0
READS_OF_FRONT: Final = 40.0
"""A day, each."""
SHOWN: Final = 30
"""So many stories or posts are on a front page."""
NEWS: Final = "/news/"
BLOG: Final = "/blog/"
_VISITORS: Final = 5_000
_BROWSERS: Final = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:121.0) Gecko/20100101 Firefox/121.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14.2; rv:121.0) Gecko/20100101 Firefox/121.0",
)


@dataclass(frozen=True, slots=True)
class Reads:
    """Requests of readers, in the order of time: which path, when, and by which visitor."""

    paths: list[str]
    path: IndexArray
    at: FloatArray
    visitor: IndexArray

    def lines(self, after: float, until: float) -> Iterator[str]:
        """Yield the access log of the time after one second and up to another, in Combined format."""
        first, last = np.searchsorted(self.at, [after, until], side="right").tolist()
        for place in range(first, last):
            visitor = int(self.visitor[place])
            agent = _BROWSERS[visitor % len(_BROWSERS)]
            yield log_line(
                f"10.{visitor // 65_536}.{visitor // 256 % 256}.{visitor % 256}",
                self.paths[self.path[place]],
                float(self.at[place]),
                agent,
            )


@dataclass(frozen=True, slots=True)
class NewsWeb:
    """Stories and posts by path, with the second at which each appears; and homepages."""

    stories: dict[str, int]
    posts: dict[str, int]
    homes: Web

    @property
    def start(self) -> int:
        """The second at which the crawl begins."""
        return START

    def seeds(self) -> list[str]:
        """Return the paths that the crawl begins with: front pages, and homepages."""
        return [NEWS, BLOG, *self.homes.homepages()]

    def html(self, path: str, at: float) -> bytes | None:
        """Return a page of the news site or the blog as it stands, None if there is none."""
        for front, pages in ((NEWS, self.stories), (BLOG, self.posts)):
            if path == front:
                there = sorted((born, one) for one, born in pages.items() if born <= at)
                return _front(front, [one for _, one in reversed(there[-SHOWN:])])
            if path in pages and pages[path] <= at:
                text = title(path, 1)
                link = f'<a href="{front}">all</a>'
                return f"<!DOCTYPE html><title>{text}</title><h1>{text}</h1>{link}\n".encode()
        return None


def make_news(seed: int, authors: int) -> NewsWeb:
    """Return a web, the same for the same seed; raises HacsError."""
    random = np.random.default_rng([seed, 7])
    begin, end = START - READ_DAYS * DAY, START + DAYS * DAY
    number = random.poisson(STORIES_A_DAY * (end - begin) / DAY)
    births = np.sort(random.uniform(begin, end, number)).astype(np.int64).tolist()
    stories = {f"{NEWS}{_dated(at)}/{place:04}.html": at for place, at in enumerate(births)}
    many = POSTS_BEFORE + int((end - begin) / DAY / POST_DAYS)
    gaps = random.exponential(POST_DAYS * DAY, many)
    at_posts = (begin - POSTS_BEFORE * POST_DAYS * DAY + np.cumsum(gaps)).astype(np.int64).tolist()
    posts = {f"{BLOG}{place:03}.html": at for place, at in enumerate(at_posts)}
    return NewsWeb(stories, posts, generated(seed, authors))


def reads_of(web: NewsWeb, seed: int) -> Reads:
    """Return what readers read, the same for the same seed."""
    random = np.random.default_rng([seed, 8])
    begin, end = web.start - READ_DAYS * DAY, web.start + DAYS * DAY
    paths: list[str] = []
    times: list[FloatArray] = []

    def add(path: str, at: FloatArray) -> None:
        paths.append(path)
        times.append(at)

    for path, born in web.stories.items():
        number = random.poisson(READS_OF_STORY * random.gamma(16.0, 1 / 16.0))
        add(path, born + DAY * np.exp(random.normal(MU, SIGMA, number)))
    evenly = [
        (READS_OF_FRONT, [(NEWS, begin)]),
        (READS_OF_POST, [(BLOG, begin), *web.posts.items()]),
        (READS_OF_HOMEPAGE, [(page.path, begin) for page in web.homes.pages]),
    ]
    for a_day, pages in evenly:
        for path, since in pages:
            first = min(max(since, begin), end)
            number = random.poisson(a_day * (end - first) / DAY)
            add(path, random.uniform(first, end, number))
    path_of = np.repeat(np.arange(len(paths)), [len(at) for at in times])
    at = np.concatenate(times)
    order = np.argsort(at, kind="stable")
    order = order[(at[order] >= begin) & (at[order] < end)]
    visitor = random.integers(0, _VISITORS, len(order))
    return Reads(paths, path_of[order], at[order], visitor)


def log_line(address: str, path: str, at: float, agent: str, status: int = 200) -> str:
    """Return a line of an access log in Combined format."""
    moment = datetime.fromtimestamp(at, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'{address} - - [{moment}] "GET {path} HTTP/1.1" {status} 2048 "-" "{agent}"\n'


def _dated(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y/%m/%d}"


def _front(path: str, shown: list[str]) -> bytes:
    name = path.strip("/").title()
    items = "".join(f'<li><a href="{escape(one)}">{title(one, 1)}</a>' for one in shown)
    return f"<!DOCTYPE html><title>{name}</title><h1>{name}</h1><ul>{items}</ul>\n".encode()
