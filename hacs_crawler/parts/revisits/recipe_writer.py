"""Writes down how the pages of a crawl are requested, and which of them only lead on to others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec import structs
from scrapy import Request, Spider
from scrapy.http import Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import page_url
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.crawl.recipes import RequestRecipe, read_recipes, recipe_of, write_recipes
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id_of
from hacs_crawler.outcome import NotObserved
from hacs_crawler.state import Recorded, Visit
from hacs_crawler.utils.loop import begin
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

MOST_NAMED: Final = 20
"""How many headers and keys of `meta` are named that were left out."""


class RecipeWriter(Part):
    """Gathers the recipes of requests for pages, and writes those of pages that were seen."""

    inherited = ("hacs.after_form",)

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._under_way: dict[int, RequestRecipe] = {}
        self._waiting: dict[int, RequestRecipe] = {}
        self._callbacks: set[str] = set()
        self._not_kept: set[int] = set()
        self._left_out: set[str] = set()

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> RecipeWriter:
        """Return the part of a crawl."""
        return cls(crawl)

    def before_request(self, request: Request, page_url: str | None) -> None:
        """Remember the recipe of a request, until its answer shows the page or not."""
        if request.method not in ("GET", "HEAD"):
            request.meta["hacs.after_form"] = True
        # a redirect or retry has what other middlewares gave the request
        if page_url is None or (page_id := page_id_of(page_url)) in self._under_way:
            return
        recipe = recipe_of(request, self._spider, self._left_out)
        if recipe is None:
            self._not_kept.add(page_id)
        else:
            self._under_way[page_id] = recipe

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Forget the recipe of a request whose answer did not show the page."""
        if observed.reason:
            self._forget(observed.visit.url)
        return ()

    def failed(self, request: Request, error: Exception, page_url: str) -> None:
        """Forget the recipe of a request that got no answer."""
        del request, error
        self._forget(page_url)

    def finished(self, response: Response, items: int, requests: int) -> None:
        """Have the recipe of a page that was seen written, with what its callback yielded."""
        assert response.request is not None  # noqa: S101 - its callback has yielded
        url = page_url(response.request)
        if url is None or (recipe := self._under_way.pop(page_id_of(url), None)) is None:
            return
        if not isinstance(response.meta.get("hacs"), NotObserved):
            page_id = page_id_of(url)
            self._waiting[page_id] = structs.replace(recipe, leads_on=bool(requests and not items))
            self._callbacks |= {recipe.callback, recipe.errback}

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Write the recipes of pages whose visits are written."""
        del batch
        begin(self._write())

    async def exempt(self, page_ids: Sequence[int]) -> Collection[int]:
        """Return which pages only lead on to others."""
        if not self._crawl.config.ranking.threshold:
            return ()
        recipe = await self._crawl.state.once(read_recipes, self._spider.name, page_ids)
        return [page_id for page_id, how in recipe.items() if how is not None and how.leads_on]

    async def round_began(self) -> None:
        """Forget what ended without a word, as redirects do that the project's filter drops."""
        self._under_way.clear()

    async def closing(self) -> None:
        """Write the rest; log how many pages cannot be revisited, and what was left out of requests."""
        if self._not_kept:
            logger.info(
                "%d pages cannot be visited again by themselves: their callback is not a public method "
                "of the spider %s, or their cb_kwargs or meta hold a secret or what JSON cannot "
                "(docs/pages.md)",
                len(self._not_kept),
                self._spider.name,
            )
        if self._left_out:
            logger.info(
                "Revisits are sent without what looks like a secret, which is not kept: %s",
                ", ".join(sorted(self._left_out)[:MOST_NAMED]),
            )
        await self._write()

    def _forget(self, page_url: str) -> None:
        self._under_way.pop(page_id_of(page_url), None)

    async def _write(self) -> None:
        """Write recipes; pages without one are visited when the spider requests them."""
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        callbacks = set(self._callbacks)
        try:
            await self._crawl.state.once(write_recipes, self._spider.name, waiting, callbacks)
        except StateError as error:
            self._crawl.state.on_error(error)
            logger.warning("How pages were requested could not be written: %s", error)

    @property
    def _spider(self) -> Spider:
        assert self._crawl.crawler.spider is not None  # noqa: S101 - it crawls
        return self._crawl.crawler.spider
