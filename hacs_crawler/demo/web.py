"""A small web and its whole history: which pages there are, and when each gained links or went away.

Histories are kept in a file from which the demonstration's server serves them. Times are seconds since
1970 UTC.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.files import replacing


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page: `path` is `/~author/` or below it, `links` how many it began with.

    `updates` are the times at which it gained links, each once and in order, and `new_links` how many.
    `captures` are the times at which a web archive captured it. From `gone_at` on it is gone (0: never).
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

    def updates_between(self, after: float, until: float) -> int:
        """Return how many updates it has after one time and up to another, before it is gone."""
        last = min(until, self.gone_at - 1) if self.gone_at else until
        return max(0, bisect_right(self.updates, last) - bisect_right(self.updates, after))


@dataclass(frozen=True, slots=True)
class Web:
    """Pages with their histories; crawls begin at `start`, `end` is when the histories end."""

    pages: Sequence[WebPage]
    start: int
    end: int

    def homepages(self) -> list[str]:
        """Return the path of each author's homepage, in the order of the pages."""
        return list(dict.fromkeys(page.homepage for page in self.pages))

    def write(self, file: Path) -> None:
        """Write it to a file."""
        with replacing(file) as stream:
            stream.write(json.dumps(asdict(self)).encode())


def read_web(file: Path) -> Web:
    """Read what `Web.write` wrote; raises HacsError."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Web)
    except OSError as error:
        raise HacsError(f"{file}: cannot read: {error.strerror}") from error
    except ValueError as error:
        raise HacsError(f"{file}: no web of a demonstration: {error}") from error
