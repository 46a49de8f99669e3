"""Fills the state from the captures of a web archive, as if our own crawler had made the visits."""

import re
from calendar import monthrange
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from scrapy import Spider
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from hacs_crawler.archive import ArchiveAddress, parse_timestamp
from hacs_crawler.config import Config
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.idle_settings import unknown_argument
from hacs_crawler.crawl.seeds import seeds_of
from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.archive_pause import ArchivePauseMiddleware
from hacs_crawler.harvest.asking import REQUESTS_AT_ONCE
from hacs_crawler.harvest.client import ArchiveClient
from hacs_crawler.harvest.page import HarvestOptions, source_of
from hacs_crawler.harvest.query import Site
from hacs_crawler.harvest.seed import Harvester
from hacs_crawler.items import SeedHistory
from hacs_crawler.utils.loop import at_once, each, merged
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch import NOT_ARCHIVED

logger = safe_logger(__name__)

SEEDS_AT_ONCE = 16
LEVELS = ("homepage", "website")
MODES = ("links", "digest")
# Closer to the downloader than RetryMiddleware (550), which swallows 429, and RedirectMiddleware (600).
PAUSE_ORDER = 610
UNSUITABLE = (
    "AUTOTHROTTLE_ENABLED",  # would go faster than an archive allows
    "COMPRESSION_ENABLED",  # mementos have their archived encoding, which may be wrong
)
STATUSES = ("history", "none", "blocked", "unread", "unanswered")
NUMBERS = ("captures", "visits", "mementos", "mementos_saved", "missed")
# The beginning of 1990, before any page was archived.
EARLIEST = 631_152_000


class WaybackSpider(Spider):
    """`scrapy crawl wayback -a seeds=FILE [-a level=website]`.

    `seeds` is a file of homepages (`.gz` too), `-` for standard input, or `state` for all known
    pages. Level `homepage` (the default) harvests the seeds themselves, level `website` also the
    pages up to two levels below them. `since` and `until` (dates or archive timestamps) and
    `max_captures` per page limit the captures; `mode=digest` fetches no mementos and counts a
    changed digest as an update. Yields a `SeedHistory` for each seed and archive.
    """

    name = "wayback"

    def __init__(
        self,
        *args: Any,
        seeds: str = "",
        level: str = "homepage",
        since: str = "",
        until: str = "",
        max_captures: str = "",
        mode: str = "links",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.problem = unknown_argument(self, WaybackSpider, kwargs)
        self.seeds, self.level, self.mode = seeds, level, mode
        self.since, self.until, self.max_captures = since, until, max_captures
        self._progress = Progress("wayback")
        self._total = 0
        self._failures: dict[str, str] = {}
        self._found: dict[str, Counter[str]] = {}

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Set up pauses and rate limits for archives."""
        super().update_settings(settings)
        settings.set("HACS_FLUSH_VISITS", 1_000, "default")
        for name in UNSUITABLE:
            settings.set(name, False, "spider")
        settings.set("ROBOTSTXT_OBEY", True, "spider")
        settings.set("HTTPCACHE_IGNORE_HTTP_CODES", [408, 429, *range(500, 600)], "spider")
        # the number of open connections; the slots limit the number of requests
        settings.set("CONCURRENT_REQUESTS_PER_DOMAIN", max(REQUESTS_AT_ONCE.values()), "spider")
        name = "DOWNLOADER_MIDDLEWARES"
        # at a lower priority, the project's settings would replace them
        priority = max(settings.getpriority(name) or 0, SETTINGS_PRIORITIES["spider"])
        entries = {ArchivePauseMiddleware: PAUSE_ORDER, **settings.getdict(name)}
        settings.set(name, entries, priority)

    async def start(self) -> AsyncIterator[SeedHistory]:
        """Harvest the seeds and yield their histories; yields no requests."""
        crawl = Crawl.of(self.crawler)
        await crawl.open()
        if not crawl.is_open:
            return
        crawl.sum_up_by(self._log_summary)
        try:
            options = self._options(int(crawl.clock()), crawl.config)
            seeds = await self._unique_seeds(crawl)
            archives = crawl.config.archives
            self._total = len(seeds) * len(archives)
            self._found = {archive.shown_as: Counter() for archive in archives}
            histories = [self._histories(crawl, archive, options, seeds) for archive in archives]
            with Progress("wayback") as self._progress:
                async for history in merged(histories):
                    numbers = {name: getattr(history, name) for name in NUMBERS}
                    self._found[history.archive].update({history.status: 1, **numbers})
                    self._show_progress()
                    yield history
            if self._failures:
                failures = "; ".join(self._failures.values())
                crawl.fail(failures if len(archives) == 1 else f"not completed: {failures}")
        except HacsError as error:
            crawl.fail(str(error))
        except Exception as error:
            self.logger.debug("The harvest failed", exc_info=True)
            crawl.fail(f"seeds = {self.seeds!r}: {type(error).__name__}: {error}")

    async def _histories(
        self, crawl: Crawl, archive: ArchiveAddress, options: HarvestOptions, seeds: list[str]
    ) -> AsyncIterator[SeedHistory]:
        """Harvest the seeds from one archive; its failure does not affect the others."""
        client = ArchiveClient(self.crawler, crawl, crawl.config, archive)
        facts = (archive.index_url, self.mode, options.since, options.max_captures)
        harvester = Harvester(
            crawl,
            client,
            replace(options, source=source_of(facts)),
            has_subpages=self.level == "website",
            on_page=self._show_progress,
        )
        try:
            async for history in at_once(harvester.harvest, each(seeds), SEEDS_AT_ONCE):
                yield history
            harvester.check()
        except HacsError as error:
            client.asker.end()
            self._failures[archive.name] = str(error)
            if len(crawl.config.archives) > 1:
                logger.error("%s: %s; the other archives go on", archive.name, error)

    def _options(self, now: int, config: Config) -> HarvestOptions:
        """Return the options from the arguments; raises HacsError that names an invalid argument."""
        if self.problem:
            raise HacsError(self.problem)
        if config.takes_items and self.mode == "links":
            raise HacsError(NOT_ARCHIVED)
        for name, given, allowed in (("level", self.level, LEVELS), ("mode", self.mode, MODES)):
            if given not in allowed:
                raise HacsError(f"{name} = {given!r}: must be {' or '.join(allowed)}")
        since = _time("since", self.since, is_end=False) if self.since else EARLIEST
        until = _time("until", self.until, is_end=True) if self.until else now
        if since > until:
            raise HacsError(f"since = {self.since!r} is later than until = {self.until or 'now'!r}")
        most = _count("max_captures", self.max_captures) if self.max_captures else None
        by_digest = self.mode == "digest"
        if by_digest and (len(config.archives) > 1 or config.archives[0].names_mementos):
            # digests of archives differ: some are of the unpacked body
            raise HacsError("mode = 'digest': must be one archive, with a CDX server, at a time")
        return HarvestOptions(
            source=0, since=since, until=min(until, now), by_digest=by_digest, max_captures=most
        )

    async def _unique_seeds(self, crawl: Crawl) -> list[str]:
        """Return the seeds, with the first spelling of each homepage; raises HacsError."""
        if not self.seeds:
            raise HacsError("wayback needs seeds: -a seeds=FILE, -a seeds=- or -a seeds=state")
        seeds: dict[int, str] = {}
        number = 0
        async for url, _ in seeds_of(crawl, self.seeds):
            number += 1
            seeds.setdefault(Site(url, has_subpages=False).key, url)
        if not seeds and not crawl.parts.override("takes"):
            raise HacsError(f"seeds = {self.seeds!r}: no usable seed")
        crawl.stats.count("archive/seeds/second_homepage", number - len(seeds))
        return list(seeds.values())

    def _show_progress(self) -> None:
        done = self._stat("seeds")
        what = "seeds" if len(self._found) < 2 else "histories of seeds"
        text = (
            f"{done} of {self._total} {what}, {self._stat('captures')} captures, "
            f"{self._stat('mementos')} mementos fetched, {self._stat('mementos_saved')} not needed"
        )
        self._progress.update(text, completed=done, total=self._total)

    def _stat(self, name: str) -> int:
        return Crawl.of(self.crawler).stats.get(f"archive/{name}")

    def _log_summary(self) -> None:
        for name, numbers in self._found.items():
            if len(self._found) > 1:
                logger.info(
                    "%s: %d seeds have a history, %d have none, %d are blocked, %d have no readable "
                    "capture, %d were not completed; %d captures, %d visits, "
                    "%d mementos fetched, %d not needed, %d missed",
                    name,
                    *(numbers[key] for key in (*STATUSES, *NUMBERS)),
                )
        seeds = [self._stat(f"seeds/{status}") for status in STATUSES]
        fetched, saved = self._stat("mementos"), self._stat("mementos_saved")
        failed = self._stat("mementos_failed")
        logger.info(
            "HACS asked %s about %d seeds: %d have a history, %d have none, %d are blocked "
            "(archival rate %s), %d have no readable capture, %d were not completed; %d captures, %d "
            "visits written; %d mementos fetched, %d not needed (%s), %d could not be read",
            "the archive" if len(self._found) < 2 else f"{len(self._found)} archives",
            sum(seeds),
            *seeds[:3],
            _share(seeds[0], sum(seeds[:4])),
            *seeds[3:],
            self._stat("captures"),
            Crawl.of(self.crawler).stats.get("visits"),
            fetched,
            saved,
            _share(saved, fetched + saved + failed),
            failed,
        )


def _time(name: str, text: str, *, is_end: bool) -> int:
    """Return the first or last second of a year, month, day, hour, minute or second."""
    digits = re.sub(r"[-:TZ ]", "", text)
    start = parse_timestamp(digits) if len(digits) % 2 == 0 else None
    if start is None:
        msg = f"{name} = {text!r}: must be a time such as 2015, 2015-06-30 or 20150630120000"
        raise HacsError(msg)
    if not is_end or len(digits) == 14:
        return start
    if len(digits) > 6:
        return start + {8: DAY, 10: 3_600, 12: 60}[len(digits)] - 1
    year, month = int(digits[:4]), int(digits[4:] or 12)
    last = datetime(year, month, monthrange(year, month)[1], tzinfo=UTC)
    return int(last.timestamp()) + DAY - 1


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise HacsError(f"{name} = {text!r}: must be a whole number of at least 1")
    return int(text)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "unknown"
