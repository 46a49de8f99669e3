"""What the state knows of rendering, read in batches before requests are sent, and written behind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Generic

from msgspec import msgpack
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.state_access.read_ahead import GATHER_SECONDS
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import menu_id, page_id_of
from hacs_crawler.parts.rendering.verdicts import (
    Advice,
    PageRendering,
    R,
    SiteRendering,
    Verdict,
    advice,
    decoded,
)
from hacs_crawler.state import Annotation, State
from hacs_crawler.utils.loop import begin, call_later
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# At most this many pages, and sites, are kept in memory, those used last.
MOST_KEPT: Final = 20_000
WRITE_SECONDS: Final = 2.0


class _Cache(Generic[R]):
    """Records of one kind by key: those used last as the state has them, and new ones."""

    def __init__(self, kind: type[R]) -> None:
        self.kind = kind
        self.kept: OrderedDict[int, bytes] = OrderedDict()
        self.new: dict[int, R] = {}

    def get(self, key: int) -> R:
        if key in self.new:
            return self.new[key]
        if key in self.kept:
            self.kept.move_to_end(key)
        return decoded(self.kind, self.kept.get(key, b""))

    def take(self, keys: Sequence[int], read: dict[int, bytes]) -> None:
        """Keep the records read for unknown keys, and forget those used longest ago."""
        self.keep({key: read.get(key, b"") for key in keys if key not in self.kept})
        unchanged = (key for key in self.kept if key not in self.new)
        for key in list(islice(unchanged, max(0, len(self.kept) - MOST_KEPT))):
            del self.kept[key]

    def keep(self, read: dict[int, bytes]) -> None:
        """Keep the state's records."""
        self.kept |= read
        for key, value in read.items():
            try:
                decoded(self.kind, value)
            except StateError as error:
                logger.warning("%s; it is made anew", error)
                self.new[key] = self.kind()

    def changes(self) -> list[Annotation]:
        """Return the changed records, which count as written from now on."""
        changes = [
            Annotation(key, self.kept.get(key, b""), msgpack.encode(record))
            for key, record in self.new.items()
        ]
        self.new.clear()
        self.kept |= {change.key: change.value for change in changes}
        return [change for change in changes if change.value != change.seen]

    def take_back(self, changes: Sequence[Annotation]) -> None:
        """Have changes written later that could not be."""
        for change in changes:
            self.new.setdefault(change.key, decoded(self.kind, change.value))
            self.kept[change.key] = change.seen


class RenderingMemory:
    """Advises how to visit pages, and keeps the verdicts of visits.

    While the state is away, pages that are not in memory count as unknown.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._pages: _Cache[PageRendering] = _Cache(PageRendering)
        self._sites: _Cache[SiteRendering] = _Cache(SiteRendering)
        self._wanted: dict[int, int] = {}
        self._readers: list[Deferred[None]] = []
        self._cancel_timer: Callable[[], object] | None = None

    async def ready(self, url: str) -> None:
        """Return when the records of a page and of its site are in memory."""
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

    def on_visit(self, url: str) -> None:
        """Count a visit that followed a verdict, of the page or its site, without checking it."""
        page, site = page_id_of(url), menu_id(url)
        if self._pages.get(page).verdict is Verdict.UNKNOWN:
            self._sites.new[site] = self._sites.get(site).visited()
        else:
            self._pages.new[page] = self._pages.get(page).visited()
        self._write_soon()

    def on_verdict(self, url: str, verdict: Verdict, *, for_site: bool = True) -> Verdict:
        """Keep the verdict on a page that was fetched both ways; returns its site's verdict."""
        key, site = page_id_of(url), menu_id(url)
        before = self._pages.get(key)
        self._pages.new[key] = before.judged(verdict)
        if for_site:
            self._sites.new[site] = self._sites.get(site).judged(before.verdict, verdict)
        self._write_soon()
        return self._sites.get(site).verdict

    def on_failure(self, url: str) -> None:
        """Count a failure to render a page; after the third it is requested plainly again."""
        key = page_id_of(url)
        self._pages.new[key] = self._pages.get(key).failed()
        self._write_soon()

    def verdict_of_site(self, url: str) -> Verdict:
        """Return the verdict that the pages of a page's site share."""
        return self._sites.get(menu_id(url)).verdict

    async def write(self) -> None:
        """Have what changed written."""
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
        for records in (self._pages, self._sites):
            changes = records.changes()
            if not changes or not self._crawl.is_open:
                continue
            try:
                present = await self._crawl.state.once(_write, records.kind.KIND, changes)
            except StateError as error:
                logger.warning("Which pages need a browser could not be written: %s", error)
                records.take_back(changes)
            else:
                # the first record written holds; this crawl will learn its own part again
                records.keep(present)

    def _write_soon(self) -> None:
        if self._cancel_timer is None and (self._pages.new or self._sites.new):
            self._cancel_timer = call_later(WRITE_SECONDS, lambda: begin(self.write()))

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
            logger.warning("Which pages need a browser could not be read: %s", error)
        finally:
            for reader in readers:
                reader.callback(None)


def _read(
    state: State, pages: Sequence[int], sites: Sequence[int]
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    read = state.store.annotations
    return read(PageRendering.KIND, pages), read(SiteRendering.KIND, sites)


def _write(state: State, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
    return state.store.annotate(kind, changes)
