"""Parts that keep something of pages in the state: gathered in a crawl, written behind its visits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, Self, TypeVar

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Part
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import Recorded, State
from hacs_crawler.utils.loop import begin
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)
T = TypeVar("T")


class PageWriter(Part, Generic[T]):
    """Writes what `unwritten` holds by page id once visits are written, and when the crawl closes."""

    content: ClassVar[str]
    """What is written, for the log: "the fields of items"."""

    def __init__(self, crawl: Crawl) -> None:
        self.crawl = crawl
        self.unwritten: dict[int, T] = {}

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> Self | None:
        """Return the part of a crawl."""
        return cls(crawl)

    def write(self, state: State, unwritten: Mapping[int, T]) -> None:
        """Write the gathered data. Called in the state's thread; may raise StateError."""
        raise NotImplementedError

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Write the data gathered so far."""
        del batch
        if self.unwritten:
            begin(self._write())

    async def closing(self) -> None:
        """Write the rest."""
        await self._write()

    async def _write(self) -> None:
        unwritten, self.unwritten = self.unwritten, {}
        if not unwritten:
            return
        try:
            await self.crawl.state.once(self.write, unwritten)
        except StateError as error:
            self.crawl.state.on_error(error)
            logger.warning(
                "Of %d pages, %s could not be written: %s", len(unwritten), self.content, error
            )
