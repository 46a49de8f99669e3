"""What the state knows of rendering, read in batches before requests are sent, and written behind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar, cast

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.state_access.read_ahead import GATHER_SECONDS
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import menu_id, page_id_of
from hacs_crawler.parts.rendering.marks import Advice, PageMark, SiteMark, Verdict, advice
from hacs_crawler.state import Annotation, State
from hacs_crawler.utils.loop import begin, call_later
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

MOST_KEPT: Final = 20_000
"""So many pages, and so many sites, are kept in memory at most, those looked at last."""
WRITE_SECONDS: Final = 2.0
M = TypeVar("M", bound=PageMark | SiteMark)


@dataclass(slots=True)
class _Kept(Generic[M]):
    """A mark as it is now, and the bytes of it that the state has."""

    mark: M
    written: bytes


class _Marks(Generic[M]):
    """Marks of one kind by key, those looked at last."""

    def __init__(self, kind: type[M]) -> None:
        self.kind: type[M] = kind
        self.kept: OrderedDict[int, _Kept[M]] = OrderedDict()
        self.changed: set[int] = set()

    def get(self, key: int) -> M:
        found = self.kept.get(key)
        if found is None:
            return self.kind()
        self.kept.move_to_end(key)
        return found.mark

    def take(self, keys: Sequence[int], read: dict[int, bytes]) -> None:
        """Keep what was read, but not where it is known and was changed meanwhile."""
        for key in keys:
            if key not in self.kept:
                value = read.get(key, b"")
                self.kept[key] = _Kept(self.decoded(value), value)
        self._trim()

    def decoded(self, value: bytes) -> M:
        try:
            return cast(M, self.kind.decoded(value))
        except StateError as error:
            logger.warning("%s; it is made anew", error)
            return self.kind()

    def put(self, key: int, mark: M) -> None:
        known = self.kept.setdefault(key, _Kept(self.kind(), b""))
        known.mark = mark
        self.changed.add(key)

    def changes(self) -> list[Annotation]:
        """Return what is to be written, and take it for written."""
        found = []
        for key in self.changed:
            known = self.kept[key]
            value = known.mark.encoded()
            if value != known.written:
                found.append(Annotation(key, known.written, value))
                known.written = value
        self.changed.clear()
        return found

    def _trim(self) -> None:
        """Forget those looked at longest ago, but for what is still to be written."""
        excess = len(self.kept) - MOST_KEPT
        if excess > 0:
            unchanged = (key for key in self.kept if key not in self.changed)
            for key in list(islice(unchanged, excess)):
                del self.kept[key]

    def refused(self, present: dict[int, bytes]) -> None:
        """Take over what another crawl wrote; what this one learned of these it will learn again."""
        for key, value in present.items():
            self.kept[key] = _Kept(self.decoded(value), value)


class RenderMarks:
    """Tells how pages are to be visited, and keeps what visits tell of that.

    While the state is away pages of which nothing is in memory count as unknown.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._pages: _Marks[PageMark] = _Marks(PageMark)
        self._sites: _Marks[SiteMark] = _Marks(SiteMark)
        self._wanted: dict[int, int] = {}
        self._readers: list[Deferred[None]] = []
        self._is_timed = False

    async def ready(self, url: str) -> None:
        """Return when what is known of a page and of its site is in memory."""
        page, site = page_id_of(url), menu_id(url)
        if page in self._pages.kept and site in self._sites.kept:
            return
        self._wanted[page] = site
        reader: Deferred[None] = Deferred()
        self._readers.append(reader)
        if len(self._readers) == 1:
            call_later(GATHER_SECONDS, lambda: begin(self._read()))
        await maybe_deferred_to_future(reader)

    def advice(self, url: str) -> Advice:
        """Return how to visit a page that is `ready`."""
        return advice(self._pages.get(page_id_of(url)), self._sites.get(menu_id(url)))

    def note_visit(self, url: str, *, rendered: bool, seconds: float, counted: bool) -> None:
        """Note what a visit took; where `counted`, it went by a verdict that nobody looked at."""
        key = page_id_of(url)
        before = self._pages.get(key)
        after = before.timed(seconds, rendered=rendered)
        if counted:
            if before.verdict is Verdict.UNKNOWN:
                self._put_site(menu_id(url), self._sites.get(menu_id(url)).visited())
            else:
                after = after.visited()
        if after.differs_notably(before):
            self._pages.put(key, after)
            self._write_soon()

    def note_verdict(self, url: str, verdict: Verdict, *, for_site: bool = True) -> Verdict:
        """Note what was seen when a page was looked at both ways; returns its site's verdict."""
        key, site = page_id_of(url), menu_id(url)
        before = self._pages.get(key)
        self._pages.put(key, before.judged(verdict))
        if for_site:
            self._put_site(site, self._sites.get(site).judged(before.verdict, verdict))
        self._write_soon()
        return self._sites.get(site).verdict

    def note_failure(self, url: str) -> None:
        """Note that a page could not be rendered; after the third time it is asked for plainly again."""
        key = page_id_of(url)
        self._pages.put(key, self._pages.get(key).failed())
        self._write_soon()

    def verdict_of_site(self, url: str) -> Verdict:
        """Return what the pages of a page's site agree on."""
        return self._sites.get(menu_id(url)).verdict

    async def write(self) -> None:
        """Have what changed written."""
        self._is_timed = False
        for marks in (self._pages, self._sites):
            changes = marks.changes()
            if not changes or not self._crawl.is_open:
                continue
            try:
                present = await self._crawl.state.once(_write, marks.kind.KIND, changes)
            except StateError as error:
                logger.warning("What is known of how pages are rendered was not kept: %s", error)
                for change in changes:
                    marks.kept[change.key].written = change.seen
                    marks.changed.add(change.key)
            else:
                marks.refused(present)

    def _put_site(self, key: int, mark: SiteMark) -> None:
        self._sites.put(key, mark)
        self._write_soon()

    def _write_soon(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            call_later(WRITE_SECONDS, lambda: begin(self.write()))

    async def _read(self) -> None:
        wanted, self._wanted = self._wanted, {}
        readers, self._readers = self._readers, []
        pages, sites = list(wanted), list(set(wanted.values()))
        try:
            if self._crawl.is_open:
                of_pages, of_sites = await self._crawl.state.once(_read, pages, sites)
                self._pages.take(pages, of_pages)
                self._sites.take(sites, of_sites)
        except StateError as error:
            logger.warning("What is known of how pages are rendered could not be read: %s", error)
        finally:
            for reader in readers:
                reader.callback(None)


def _read(
    state: State, pages: Sequence[int], sites: Sequence[int]
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    read = state.store.annotations
    return read(PageMark.KIND, pages), read(SiteMark.KIND, sites)


def _write(state: State, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
    return state.store.annotate(kind, changes)
