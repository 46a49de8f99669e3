"""Revisits: keeps how pages are requested, and begins crawls by requesting the best ones again."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs
from scrapy import Request, Spider

from hacs_crawler.config import Config
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart, PageWriter
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.crawl.recipes import (
    Repeats,
    RequestRecipe,
    pages_with_recipe,
    recipe_of,
    requests_again,
    spiders_with_recipes,
    write_recipes,
)
from hacs_crawler.links import page_id_of
from hacs_crawler.ranking.demands import Demanded
from hacs_crawler.ranking.plan import plan_of
from hacs_crawler.state import State, Visit, without_future
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

# How many spare pages are read, as some may not be requestable.
SPARE: Final = 100
# How many of the headers and `meta` keys that were left out the log names.
MOST_NAMED: Final = 20


class RecipeWriter(PageWriter[RequestRecipe]):
    """Keeps the recipes of requests whose answers showed their pages."""

    inherited = ("hacs.after_form",)

    content = "how to request them"

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._under_way: dict[int, RequestRecipe] = {}
        self._callbacks: set[str] = set()
        self._not_kept: set[int] = set()
        self._left_out: set[str] = set()

    def before_request(self, request: Request, page_url: str | None) -> None:
        """Remember the recipe of a request until its answer is observed."""
        if request.method not in ("GET", "HEAD"):
            request.meta["hacs.after_form"] = True
        # keep the first recipe: middlewares have changed the request of a redirect or retry
        if page_url is None or (page_id := page_id_of(page_url)) in self._under_way:
            return
        recipe = recipe_of(request, self._spider, self._left_out)
        if recipe is None:
            self._not_kept.add(page_id)
        else:
            self._under_way[page_id] = recipe

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Queue the recipe of a page that was seen, else forget it."""
        page_id = page_id_of(observed.visit.url)
        recipe = self._under_way.pop(page_id, None)
        if recipe is not None and not observed.reason:
            self.unwritten[page_id] = structs.replace(recipe, only_requests=observed.only_requests)
            self._callbacks |= {recipe.callback, recipe.errback}
        return ()

    def failed(self, request: Request, error: Exception, page_url: str) -> None:
        """Forget the recipe of a request that got no answer."""
        self._under_way.pop(page_id_of(page_url), None)

    async def round_began(self) -> None:
        """Forget requests that ended without notice, such as redirects that the filter dropped."""
        self._under_way.clear()

    async def closing(self) -> None:
        """Write the rest; log how many pages cannot be revisited, and the secrets left out."""
        if self._not_kept:
            logger.info(
                "%s cannot be revisited: the callback is not a public method of the spider %s, or "
                "the request's cb_kwargs or meta hold a secret or a value that JSON cannot",
                counted(len(self._not_kept), "page"),
                self._spider.name,
            )
        if self._left_out:
            logger.info(
                "Revisits are sent without headers and meta that look like secrets: %s",
                ", ".join(sorted(self._left_out)[:MOST_NAMED]),
            )
        await super().closing()

    def write(self, state: State, unwritten: Mapping[int, RequestRecipe]) -> None:
        """Write recipes; pages without one are visited when the spider requests them."""
        write_recipes(state, self._spider.name, unwritten, set(self._callbacks))

    @property
    def _spider(self) -> Spider:
        assert self._crawl.crawler.spider is not None  # noqa: S101 - it crawls
        return self._crawl.crawler.spider


class Revisits(CrawlPart):
    """Adds requests for known pages to the start requests, to be ranked with them."""

    async def start_requests(self) -> AsyncIterator[Request]:
        """Yield requests for the best known pages."""
        crawl, spider = self._crawl, self._crawl.crawler.spider
        assert spider is not None  # noqa: S101 - it crawls
        if crawl.parts.override("before_rank"):
            sites = await crawl.state.patiently(
                lambda state: {*state.rows(pages_with_recipe(state, spider.name))["site"].tolist()}
            )
            await crawl.parts.wait(Part.before_rank, None, sites)
        choice, known = await crawl.state.patiently(_chosen, crawl.config, spider, crawl.clock())
        choice.log(spider)
        crawl.stats.matched |= known.matched
        if crawl.config.revisit == "budget":  # the spider can visit no other known page
            crawl.stats.known = known
        crawl.stats.count("revisits", len(choice.requests))
        for request in choice.requests:
            yield request


def _chosen(state: State, config: Config, spider: Spider, now: float) -> tuple[Repeats, Demanded]:
    """Return requests for the best pages with recipes of the spider, and the demands on all of them."""
    number = config.ranking.budget if config.revisit == "budget" else config.revisit
    assert isinstance(number, int)  # noqa: S101 - checked with the settings
    page_ids = pages_with_recipe(state, spider.name)
    if not len(page_ids) and (pages := state.store.count()):
        others = ", ".join(spiders_with_recipes(state))
        logger.info(
            "No page is revisited: the state knows %s, but keeps no request of the spider %s%s. This is "
            "its first run with HACS_REVISIT or HACS_PAGES, or it was renamed",
            counted(pages, "page"),
            spider.name,
            f", only of {others}" * bool(others),
        )
    rows, _ = without_future(state, page_ids, state.rows(page_ids), now)
    is_known = rows["visits"] > 0
    page_ids, rows = page_ids[is_known], rows[is_known]
    options = replace(config.ranking, budget=None)
    limit, gone = number + SPARE, list[tuple[int, str]]()
    while True:
        plan = plan_of(page_ids, rows, state, options, now, limit)
        choice = requests_again(state, plan.page_ids, spider, number, config.pages)
        gone = choice.gone = gone + choice.gone
        if len(choice.requests) >= number or len(plan) < limit:
            return choice, plan.demanded.plus(Demanded(int(plan.is_overdue.sum())))
        # those recipes are forgotten now
        has_recipe = ~np.isin(page_ids, [page_id for page_id, _ in gone])
        page_ids, rows = page_ids[has_recipe], rows[has_recipe]
        limit *= 4
