"""The rendering records in the state, read in batches before requests are sent."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import msgpack
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredLock

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import PageWriter
from hacs_crawler.crawl.state_access.read_ahead import GATHER_SECONDS
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import menu_id, page_id_of
from hacs_crawler.parts.rendering.verdicts import PageRendering, R, SiteRendering, decoded
from hacs_crawler.state import State, change_annotations
from hacs_crawler.utils.loop import sleep
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# How many pages, and how many sites, are cached; the oldest are dropped.
MOST_KEPT: Final = 20_000


class RenderingMemory(PageWriter[tuple[PageRendering, int, SiteRendering]]):
    """A part that caches the rendering records of pages and their sites.

    While the state cannot be reached, pages that are not cached count as unknown.
    """

    content = "whether they need a browser"

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._pages: dict[int, PageRendering] = {}
        self._sites: dict[int, SiteRendering] = {}
        # pages to be read, and their sites
        self._wanted: dict[int, int] = {}
        self._reading = DeferredLock()

    async def ready(self, url: str) -> None:
        """Return when the records of a page and its site are cached."""
        page, site = page_id_of(url), menu_id(url)
        if page in self._pages and site in self._sites:
            return
        self._wanted[page] = site
        await maybe_deferred_to_future(sleep(GATHER_SECONDS))
        await maybe_deferred_to_future(self._reading.acquire())
        try:
            wanted, self._wanted = self._wanted, {}
            if wanted and self._crawl.is_open:
                pages, sites = await self._crawl.state.once(_read, wanted)
                _add(self._pages, pages)
                _add(self._sites, sites)
        except StateError as error:
            logger.warning("Which pages need a browser could not be read: %s", error)
        finally:
            self._reading.release()

    def records(self, url: str) -> tuple[PageRendering, SiteRendering]:
        """Return the cached records of a page and its site; see `ready`."""
        page = self._pages.get(page_id_of(url), PageRendering())
        return page, self._sites.get(menu_id(url), SiteRendering())

    def keep(self, url: str, page: PageRendering, site: SiteRendering) -> None:
        """Replace the records of a page and its site."""
        key, menu = page_id_of(url), menu_id(url)
        self._pages[key], self._sites[menu] = page, site
        # move the page to the end: if pages share a site, its last record has to win
        self.unwritten.pop(key, None)
        self.unwritten[key] = page, menu, site

    def write(
        self, state: State, unwritten: Mapping[int, tuple[PageRendering, int, SiteRendering]]
    ) -> None:
        """Write changed records."""
        _write(state, PageRendering, {key: page for key, (page, _, _) in unwritten.items()})
        _write(state, SiteRendering, {menu: site for _, menu, site in unwritten.values()})


def _add(records: dict[int, R], read: Mapping[int, R]) -> None:
    for key, record in read.items():
        records.setdefault(key, record)  # records that changed during the read stay
    for key in list(islice(records, max(0, len(records) - MOST_KEPT))):
        del records[key]


def _read(
    state: State, wanted: Mapping[int, int]
) -> tuple[dict[int, PageRendering], dict[int, SiteRendering]]:
    pages, sites = list(wanted), list({*wanted.values()})
    return _read_kind(state, PageRendering, pages), _read_kind(state, SiteRendering, sites)


def _read_kind(state: State, kind: type[R], keys: Sequence[int]) -> dict[int, R]:
    read = state.store.annotations(kind.KIND, keys)
    return {key: decoded(kind, read.get(key)) for key in keys}


def _write(state: State, kind: type[R], records: Mapping[int, R]) -> None:
    def encoded(key: int, _: bytes) -> bytes:
        return b"" if records[key] == kind() else msgpack.encode(records[key])

    change_annotations(state.store, kind.KIND, records, encoded)
