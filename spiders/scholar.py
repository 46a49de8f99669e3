"""Visits scholarly homepages, those most likely to have new links first."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.linkextractors import IGNORED_EXTENSIONS
from scrapy.settings import BaseSettings
from twisted.python.failure import Failure

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.idle_settings import unknown_argument
from hacs_crawler.crawl.meta import planned_meta
from hacs_crawler.crawl.observation import is_html, tree_of
from hacs_crawler.crawl.scrapy_internals import message_of
from hacs_crawler.crawl.seeds import Rounds, planned_seeds, seeds_of
from hacs_crawler.demo.play import SEEDS, Play, begin
from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.dialects import NO_HOST
from hacs_crawler.items import NewPublication, PageVisit
from hacs_crawler.links import (
    DEEPEST,
    is_file,
    is_inside,
    page_links,
    path_depth,
    publications,
    website_of,
)
from hacs_crawler.outcome import NotObserved, Outcome
from hacs_crawler.parts.instant import PRIORITY, InstantTier, with_tier
from hacs_crawler.utils.text import printable

LEVELS = ("website", "homepage")
# The maximum number of links from the homepage, by the unit of `depth`; some calendars are endless.
MOST_LINKS = {"links": DEEPEST, "path": 10}
SWITCHES = ("", "0", "1")
_AGE = re.compile(r"(\d+(?:\.\d+)?)([mhd])", re.ASCII)
_MINUTES = {"m": 1.0, "h": 60.0, "d": 1440.0}
_OTHER_FILE = re.compile(rf"\.(?:{'|'.join(map(re.escape, IGNORED_EXTENSIONS))})$", re.IGNORECASE)


class ScholarSpider(Spider):
    """`scrapy crawl scholar -a seeds=FILE [-a pages=1] [-a level=homepage] [-a depth=path]`.

    `seeds` is a file of homepages (`.gz` too), `-` for standard input, `state` for all known pages,
    or `demo` for a small web in the package (`demo.play`). Level `website` (the default) follows
    links inside the author's site, on the same host and below the homepage's path, to depth 2;
    level `homepage` visits only the homepages. `depth` counts `links` from the homepage (the
    default), or levels of the `path` below it, as the paper and the spider `wayback` do. Yields a
    `NewPublication` for each new text that looks like a publication, and with `pages` a `PageVisit`
    for each visited page. With `-a forever=24h`, a round begins every 24 hours until the crawl is
    stopped; `forever=1` means every hour.
    """

    name = "scholar"
    handle_httpstatus_list = (304,)
    custom_settings = {"ROBOTSTXT_OBEY": True, "AUTOTHROTTLE_ENABLED": True}  # noqa: RUF012 - Scrapy's

    def __init__(
        self,
        *args: Any,
        seeds: str = "",
        level: str = "website",
        depth: str = "links",
        forever: str = "",
        pages: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.seeds, self.level, self.depth = seeds, level, depth
        self.forever, self.pages = forever, pages
        self.play: Play | None = None
        self.problem = unknown_argument(self, ScholarSpider, kwargs)
        self._has_news = False

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Watch publications, unless the project or the command line sets HACS_WATCH."""
        super().update_settings(settings)
        settings.set("HACS_WATCH", "publications", priority="addon")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Make the spider, and with `seeds=demo` the web that it crawls."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        # an invalid level, which the demonstration would replace, is left for start() to report
        if spider.seeds == SEEDS and spider.level in LEVELS and not spider.problem:
            try:
                spider.play, spider.level = begin(crawler.settings), "homepage"
            except HacsError as error:  # raised here, Scrapy would print a traceback
                spider.problem = str(error)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Yield a request for each seed."""
        crawl = Crawl.of(self.crawler)
        crawl.expect_answers()
        if problem := self.problem or self._problem():
            crawl.fail(problem)
        await crawl.open()
        if crawl.is_open:  # else the reason is logged
            ranking, pages = crawl.ranking, crawl.config.pages
            if ranking.budget is not None and pages == "start" and self._most_links():
                self.logger.info(
                    "HACS_BUDGET = %d applies to the seeds; the pages that they lead to are visited in "
                    "addition. -a level=homepage leaves these out, and -s HACS_PAGES=all "
                    "-s HACS_REVISIT=budget ranks all pages together",
                    ranking.budget,
                )
            requests = self._rounds(crawl)
            tier = crawl.parts.of(InstantTier)
            if tier is not None and self.is_endless:
                requests = with_tier(crawl, tier, requests, self._hub_request)
            async for request in requests:
                yield request

    def _problem(self) -> str:
        """Return the fault in the arguments, or ""."""
        if not self.seeds:
            return "scholar needs seeds: -a seeds=FILE, -a seeds=-, -a seeds=state or -a seeds=demo"
        allowed = {"level": LEVELS, "depth": tuple(MOST_LINKS)}
        for name, given in (("level", self.level), ("depth", self.depth)):
            if given not in allowed[name]:
                return f"{name} = {given!r}: must be {' or '.join(allowed[name])}"
        if self.pages not in SWITCHES:
            return f"pages = {self.pages!r}: must be 1 or 0"
        if not self.is_endless:
            is_switch = self.forever in SWITCHES
            words = f"forever = {self.forever!r}: must be 1 or 0, or a time such as 30m, 24h or 7d"
            return "" if is_switch else words
        if self.settings["JOBDIR"]:
            return "forever: a job in JOBDIR is one round, remove JOBDIR or forever"
        words = "forever: standard input can be read only once, use a file of seeds"
        return words if self.seeds == "-" else ""

    @property
    def is_endless(self) -> bool:
        """Whether the crawl has several rounds."""
        return self._round_minutes() is not None

    def _round_minutes(self) -> float | None:
        """Return the minutes from the beginning of one round to the next; None for a single round."""
        if self.forever == "1":
            return _MINUTES["h"]
        match = _AGE.fullmatch(self.forever)
        return None if match is None else float(match[1]) * _MINUTES[match[2]]

    async def _rounds(self, crawl: Crawl) -> AsyncIterator[Request]:
        """Yield the seeds of all rounds."""
        turn = self.play.turn if self.play else None
        rounds = Rounds(self.crawler, turn=turn, minutes=self._round_minutes() or 0.0)
        is_on = True
        while is_on:
            async for request in self._round(crawl):
                yield request
            is_on = bool(self.is_endless or self.play) and await rounds.next()

    async def _round(self, crawl: Crawl) -> AsyncIterator[Request]:
        """Yield the seeds of one round; errors end the crawl."""
        number = 0
        try:
            async for request in self._seed_requests(crawl):
                number += 1
                yield request
        except HacsError as error:
            crawl.fail(str(error))
        except Exception as error:
            self.logger.debug("Seeds failed", exc_info=True)
            crawl.fail(f"seeds = {self.seeds!r}: {type(error).__name__}: {error}")
        if not number and self.seeds != "state" and not crawl.parts.override("takes"):
            crawl.fail(f"seeds = {self.seeds!r}: no usable seed")

    async def _seed_requests(self, crawl: Crawl) -> AsyncIterator[Request]:
        if self.seeds == "state":
            async for url, meta in planned_seeds(crawl):
                yield self._seed_request(url, meta)
        elif self.play is not None:
            for url in self.play.urls():
                yield self._seed_request(url)
        else:
            async for seed in seeds_of(crawl, self.seeds):
                yield self._seed_request(seed.url, seed.meta)

    def _seed_request(self, url: str, meta: Mapping[str, Any] | None = None) -> Request:
        return Request(url, callback=self.parse, errback=self.on_failure, meta=dict(meta or {}))

    def _hub_request(self, url: str) -> Request:
        return Request(
            url,
            callback=self.parse_hub,
            errback=self.on_hub_failure,
            priority=PRIORITY,
            meta=planned_meta(url),
            cb_kwargs={"hub": url},
        )

    async def parse_hub(self, response: Response, hub: str) -> AsyncIterator[Any]:
        """Count the visit of a hub of the instant tier, and follow only its new links."""
        crawl = Crawl.of(self.crawler)
        self._on_answer(hub)
        outcome = response.meta.get("hacs")
        if not isinstance(outcome, Outcome):
            return
        crawl.stats.count("instant/visits")
        if outcome.is_update:
            crawl.stats.count("instant/updates")
            crawl.stats.count("instant/new_links", len(outcome.new_marks))
        async for entry in self.parse(response):
            if not isinstance(entry, Request):
                yield entry
            elif outcome.is_new(entry.url):
                # its links, in turn, are left to a round of all pages
                entry.cb_kwargs["links"] = self._most_links()
                yield entry

    def on_hub_failure(self, failure: Failure) -> None:
        """Log why a hub could not be visited."""
        request: Request = failure.request  # type: ignore[attr-defined]
        self._on_answer(request.cb_kwargs["hub"])
        self.on_failure(failure)

    def closed(self, reason: str) -> None:
        """Log where new links are listed if feeds got no item."""
        del reason
        scraped = self.crawler.stats.get_value("item_scraped_count")
        if self._has_news and self.settings["FEEDS"] and not scraped:
            self.logger.info("Feeds get only publications; `hacs new` lists all new links")

    def _on_answer(self, hub: str) -> None:
        tier = Crawl.of(self.crawler).parts.of(InstantTier)
        if tier is not None:
            tier.on_answer(hub)

    async def parse(self, response: Response, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield the page's new publications, and follow its links inside the site."""
        outcome, links = response.meta.get("hacs"), kwargs.get("links", 0)
        if isinstance(outcome, NotObserved) and not links:
            why = outcome.reason.replace("_", " ")
            if why not in {"cached", "doubtful"}:  # the closing lines count these
                self.logger.warning("%s was not seen: %s", printable(outcome.requested_url), why)
        if not isinstance(outcome, Outcome):
            return
        self._has_news = self._has_news or outcome.is_update
        if self.pages == "1":
            yield PageVisit(
                url=outcome.url,
                visited_at=outcome.visited_at,
                is_first=outcome.is_first,
                is_update=outcome.is_update,
                new_links=len(outcome.new_marks),
                new_to_site=None if outcome.new_to_site is None else len(outcome.new_to_site),
                rate_per_day=outcome.rate_after_per_day,
                last_update=outcome.last_update,
                p=outcome.p,
            )
        if not is_html(response):
            return
        tree = tree_of(response)
        shown = list(publications(tree, response.url))
        for publication in shown:
            if any(map(outcome.is_new, publication.links or (publication.title,))):
                url = publication.links[0] if publication.links else outcome.url
                yield NewPublication(publication.title, outcome.url, outcome.visited_at, url)
        taken = {link for publication in shown for link in publication.links if is_file(link)}
        site: str = kwargs.get("site") or website_of(response.url)
        for url, _ in page_links(tree, response.url) if links < self._most_links() else ():
            is_near = self.depth == "links" or path_depth(url, site) <= DEEPEST
            is_page = url not in taken and not _OTHER_FILE.search(urlsplit(url).path)
            if is_near and is_page and is_inside(url, site):
                yield Request(
                    url,
                    callback=self.parse,
                    errback=self.on_failure,
                    cb_kwargs={"site": site, "links": links + 1},
                    meta={"hacs": "record"},
                )

    def _most_links(self) -> int:
        # not a property: exporters read all properties of a spider, even with an invalid depth
        return MOST_LINKS[self.depth] if self.level == "website" else 0

    def on_failure(self, failure: Failure) -> None:
        """Log in one line why a page could not be visited; the middlewares have recorded that.

        If the host is unknown or the crawl has failed, that was logged already, once for all pages.
        """
        if Crawl.of(self.crawler).failure or type(failure.value).__name__ in NO_HOST:
            return
        request: Request = failure.request  # type: ignore[attr-defined]
        # for a truncated answer, this is Twisted's response
        response = getattr(failure.value, "response", None)
        status = getattr(response, "status", None)
        reason = message_of(failure.value) if status is None else f"status {status}"
        self.logger.warning("%s was not seen: %s", printable(request.url), printable(reason))
