"""The demonstration's web: authors' pages, when they gain links, and when they were captured."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page: `path` is `/~author/` or below it, `links` how many it began with.

    `updates` are the times at which it gained links, each once and in order, and `new_links` how many.
    `captures` are the times before the crawls at which it was looked at. From `gone_at` on it is gone
    (0: never).
    """

    path: str
    links: int
    updates: Sequence[int]
    new_links: Sequence[int]
    captures: Sequence[int]
    gone_at: int = 0

    @property
    def homepage(self) -> str:
        """The path of its author's homepage."""
        return f"/{self.path.split('/')[1]}/"

    def is_gone(self, at: float) -> bool:
        """Whether it is gone at that time."""
        return 0 < self.gone_at <= at

    def links_at(self, at: float) -> int:
        """Return how many links it shows at that time."""
        return self.links + sum(self.new_links[: bisect_right(self.updates, at)])


@dataclass(frozen=True, slots=True)
class Web:
    """Pages with their histories; crawls begin at `start`."""

    pages: Sequence[WebPage]
    start: int
