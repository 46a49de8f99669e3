"""Shards: parts of a state, each in its own namespace; all pages of a host are in one shard."""

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Self

from hacs_crawler.links import page_key
from hacs_crawler.utils.settings import NotAllowedError

MOST_SHARDS: Final = 1_000
_WRITTEN: Final = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """Number `index`, from 0, of `count` shards."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not (1 <= self.count <= MOST_SHARDS and 0 <= self.index < self.count):
            raise NotAllowedError(
                f"INDEX/COUNT with an index from 0 to the count - 1, of at most {MOST_SHARDS} shards"
            )

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the shard that a text such as "3/16" names; raises NotAllowedError."""
        match = _WRITTEN.fullmatch(str(text).strip())
        return cls(int(match[1]), int(match[2])) if match is not None else cls(0, 0)

    def namespace(self, base: str) -> str:
        """Return the shard's namespace, such as "hacs.3-16"."""
        return f"{base}.{self.index}-{self.count}"

    def has(self, url: str) -> bool:
        """Return whether a page is in this shard; raises ValueError if the URL is not a page's."""
        return shard_of_page(url, self.count) == self.index


def shards_of(count: int) -> tuple[Shard, ...]:
    """Return all shards of a state."""
    return tuple(Shard(index, count) for index in range(count))


def shard_of_page(url: str, count: int) -> int:
    """Return the number of the shard of a page; raises ValueError if the URL is not a page's.

    It depends on the host in the page's key alone: spelling, port and scheme (http or https) make no
    difference.
    """
    host = page_key(url).partition(")")[0]
    if not host.startswith("["):
        host = ".".join(reversed(host.partition(":")[0].split(",")))
    else:
        host = host.partition("]")[0].removeprefix("[")
    return shard_of(host, count)


@lru_cache(maxsize=65_536)
def shard_of(host: str, count: int) -> int:
    """Return the number of a host's shard: BLAKE2b of its name without "www.", modulo the count."""
    digest = blake2b(host.removeprefix("www.").encode(), digest_size=8).digest()
    return int.from_bytes(digest) % count
