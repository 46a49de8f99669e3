"""A harvest without a crawl: a scripted archive, and a real cache before a state in memory."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

from hacs_crawler.archive import ArchiveAddress, ArchiveKind, Capture, Cleaning
from hacs_crawler.crawl.state_access.write_behind import OpenState
from hacs_crawler.harvest.memento import Memento
from hacs_crawler.harvest.page import HarvestOptions
from hacs_crawler.harvest.query import IndexAnswer, Site, Span
from hacs_crawler.links import fingerprint
from hacs_crawler.state import Estimation, MemoryStore, Page, State
from hacs_crawler.utils.loop import Worker

T = TypeVar("T")
URL = "http://foo.edu/"
SURT = "edu,foo)/"
DAY = 86_400
SOURCE = 7
RULES = 9
ADDRESS = ArchiveAddress("", ArchiveKind.CDX, "http://archive/cdx", "http://archive/web")
BY_LINKS = HarvestOptions(SOURCE, since=0, until=100 * DAY, by_digest=False, max_captures=None)


def capture(day: int, digest: str = "A", mime: str = "text/html") -> Capture:
    return Capture(SURT, URL, day * DAY, 200, mime, digest)


def links_of(digest: str) -> frozenset[int]:
    """What content of that digest shows: a link of its own beside one that is always there."""
    return frozenset({0, fingerprint(digest)})


@dataclass
class Archive:
    """Has captures, and shows each with the links of its digest unless `instead` says otherwise."""

    rows: Sequence[Capture] = ()
    instead: dict[int, Memento] = field(default_factory=dict)
    refusal: Exception | None = None
    queries: list[Span] = field(default_factory=list)
    fetched: list[int] = field(default_factory=list)
    is_keyless: bool | None = None
    address: ArchiveAddress = ADDRESS

    async def spread(self, todo: Sequence[Span]) -> list[Span]:
        return list(todo)

    async def captures(self, site: Site, span: Span, limit: int) -> IndexAnswer:
        self.queries.append(span)
        if self.refusal is not None:
            raise self.refusal
        rows = [one for one in self.rows if span.since <= one.at <= span.until]
        return IndexAnswer([(SURT, rows)] if rows else [], len(rows), "", Cleaning())

    async def memento(self, wanted: Capture) -> Memento:
        day = wanted.at // DAY
        self.fetched.append(day)
        (known,) = (one for one in self.rows if one.at == wanted.at)
        return self.instead.get(day) or Memento(
            wanted.at, marks=links_of(known.digest), rules=RULES
        )


def failing(day: int) -> Memento:
    """What is found where the archive fails to show a capture today."""
    return Memento(day * DAY, problem="status", reason="500")


class Crawl:
    """As much of a crawl as a harvest asks for; everything that it runs shares one state."""

    def __init__(self) -> None:
        self.state = State(MemoryStore(), Estimation())
        self.stats: Counter[str] = Counter()

    def run(self, act: Callable[[Any], Awaitable[T]]) -> T:
        """Run something that is given a crawl; return its result once its visits are written."""

        async def with_crawl() -> T:
            worker = Worker()
            state = OpenState(self.state, worker, lambda _: None, lambda _: None, 100)
            stats = SimpleNamespace(count=self._count)
            try:
                result = await act(SimpleNamespace(state=state, stats=stats))
                await state.write_behind.close()
            finally:
                worker.close()
            return result

        return asyncio.run(with_crawl())

    def page(self) -> Page | None:
        return self.state.load([fingerprint(SURT)]).get(fingerprint(SURT))

    def visited_days(self) -> list[int]:
        page = self.page()
        return [] if page is None else [at // DAY for at in page.visits]

    def _count(self, name: str, number: int = 1) -> None:
        self.stats[name] += number
