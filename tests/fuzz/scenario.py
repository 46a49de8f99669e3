"""A scenario: a small site, a spider, settings, and the days on which it crawls; drawn by a seed."""

import random
from typing import Any, Self

import msgspec
from msgspec import Struct

from fuzz.settings_drawn import draw_settings

HOSTS = (1, 1, 1, 2, 3)
PAGES = {
    "plain": 12,  # links, some of which come later
    "redirect": 3,
    "refresh": 1,  # a redirect that the page's markup asks for
    "twin": 1,  # the same content as another page
    "missing": 1,
    "gone": 1,  # 404 from some day on
    "busy": 2,  # 429 with Retry-After, a number of times in each run
    "throttled": 2,  # 429 that names no time, once in each run
    "unavailable": 3,  # 503 with Retry-After, once in each run
    "closed": 1,  # 429 with a Retry-After of an hour, always
    "slow": 2,
    "broken": 1,  # the connection ends within the answer
    "broken-once": 1,
    "empty": 1,
    "json": 1,
    "script": 2,  # a browser shows links that the plain answer lacks
    "crash": 1,  # no browser can show it
    "session": 2,  # each answer's links carry another session
    "rotating": 1,  # each answer has another link
    "etag": 3,  # 304 where nothing has changed
    "wrong-etag": 1,  # 304 always
    "bytes": 1,  # no text at all, though it says so
    "feed": 1,  # names a feed of the host
}
"""Kinds of pages, and how often each is drawn."""
LEADING = {"redirect", "refresh", "twin"}
"""Whose `to` is a page."""
ROBOTS = {
    "missing": 6,
    "open": 3,
    "closed to some": 2,
    "names a sitemap": 2,
    "malformed": 1,
    "malformed sitemap": 1,
    "broken": 1,
}
RESUMED = ("Resumed", "ResumedSeeds", "ResumedInPause")
"""Spiders that are drawn more often than others: requests may wait anywhere when they are stopped."""
SITEMAPS = {"missing": 2, "pages": 4, "index": 1, "malformed": 1}


class Page(Struct, frozen=True, omit_defaults=True):
    """A page at `/p<number>`; a link is the number of a page, and the day from which on it is there."""

    kind: str = "plain"
    links: tuple[tuple[int, int], ...] = ()
    host: int = 1
    to: int = 0
    """Where a redirect leads, whose twin it is, how often it is busy, or since when it is gone."""


class Scenario(Struct, frozen=True, omit_defaults=True):
    """What is played: `days` are those of the runs, all of which have one state."""

    pages: tuple[Page, ...]
    spider: str = "Plain"
    starts: tuple[int, ...] = (0,)
    settings: dict[str, Any] = {}
    days: tuple[int, ...] = (0, 1, 3)
    robots: str = "missing"
    sitemap: str = "missing"
    state: str = "sqlite"
    has_shards: bool = False
    """Whether each run is two crawls, of a shard each."""

    def numbers(self) -> set[int]:
        leading = {page.to for page in self.pages if page.kind in LEADING}
        return leading.union(self.starts, (to for page in self.pages for to, _ in page.links))

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return msgspec.json.decode(text, type=cls)


def drawn(seed: int, spiders: list[str]) -> Scenario:
    """The scenario of a seed: the same one each time."""
    rng = random.Random(seed)
    number = rng.randint(1, rng.choice((4, 9, 14)))
    pages = tuple(_page(rng, at, number) for at in range(number))
    starts = rng.sample(range(number), rng.randint(1, number))
    if rng.random() < 0.15:
        starts.append(rng.choice(starts))
    robots = _chosen(rng, ROBOTS)
    days = (0, *sorted(rng.sample(range(1, 30), 2)))
    return Scenario(
        pages,
        spider=rng.choice(RESUMED if rng.random() < 0.2 else spiders),
        starts=tuple(starts),
        settings=draw_settings(rng, {page.kind for page in pages} | {robots}),
        days=days,
        robots=robots,
        sitemap=_chosen(rng, SITEMAPS),
        state="redis" if rng.random() < 0.1 else "sqlite",
        has_shards=rng.random() < 0.1,
    )


def _page(rng: random.Random, at: int, number: int) -> Page:
    kind = _chosen(rng, PAGES) if rng.random() < 0.7 else "plain"
    # links and redirects lead on: with circles it would depend on the order what the filter drops
    later = range(at + 1, number)
    links = rng.sample(later, min(len(later), rng.randint(0, 4)))
    if kind in LEADING and not later:
        kind = "plain"
    to = rng.choice(later) if kind in LEADING else rng.randint(1, 3)
    since = tuple((link, rng.choice((0, 0, 1, 2, 9))) for link in links)
    return Page(kind, since, rng.choice(HOSTS), to)


def _chosen(rng: random.Random, weights: dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
