"""Fills the state with what a web archive knows of pages, as if our own crawler had visited them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from hacs_crawler.archive import parse_timestamp
from hacs_crawler.config import DEFAULTS, Config
from hacs_crawler.crawl.loop import at_once, each
from hacs_crawler.crawl.seeds import seeds_of
from hacs_crawler.crawl.session import Session
from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.client import CDX_SLOT, MEMENTO_SLOT, REQUESTS_AT_ONCE, ArchiveClient
from hacs_crawler.harvest.page import HarvestOptions
from hacs_crawler.harvest.seed import Harvester
from hacs_crawler.harvest.site import Site
from hacs_crawler.items import SeedHistory
from hacs_crawler.links import fingerprint
from hacs_crawler.middlewares.archive_pause import ArchivePauseMiddleware
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

SEEDS_AT_ONCE = 16
LEVELS = ("homepage", "website")
MODES = ("links", "digest")
PAUSE_ORDER = 610
"""Nearer the downloader than RetryMiddleware (550), which swallows 429, and RedirectMiddleware (600)."""
UNSUITABLE = (
    "AUTOTHROTTLE_ENABLED",  # would go faster than an archive allows
    "COMPRESSION_ENABLED",  # mementos come encoded as they were archived, which may be wrongly
)
EARLIEST = 631_152_000
"""The second at which 1990 began, before the first page was archived."""


class WaybackSpider(Spider):
    """`scrapy crawl wayback -a seeds=FILE [-a level=website]`.

    `seeds` is a file of homepages (`.gz` too), `-` for standard input, or `state` for every page known.
    At level `homepage` (the default) it harvests the seeds themselves, at level `website` also the
    pages below them to depth 2. `since` and `until` (dates or archive timestamps) and `max_captures` a
    page bound what is taken; `mode=digest` fetches no mementos and takes a changed digest for an
    update. Yields a `SeedHistory` for each seed.
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
        self._unknown = sorted(kwargs)
        self.seeds = seeds
        self.level = level
        self.since = since
        self.until = until
        self.max_captures = max_captures
        self.mode = mode
        self._progress = Progress("wayback")
        self._total = 0

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Set the pace of each kind of request, and have the archive left alone when it asks for it."""
        super().update_settings(settings)
        settings.set("HACS_FLUSH_VISITS", 1_000, "default")
        for name in UNSUITABLE:
            settings.set(name, False, "spider")
        settings.set("ROBOTSTXT_OBEY", True, "spider")
        settings.set("HTTPCACHE_IGNORE_HTTP_CODES", [408, 429, *range(500, 600)], "spider")
        # how many connections are kept open; how many requests there are at once, the slots say
        settings.set("CONCURRENT_REQUESTS_PER_DOMAIN", max(REQUESTS_AT_ONCE.values()), "spider")
        for name, entries in (
            ("DOWNLOAD_SLOTS", _slots(settings)),
            ("DOWNLOADER_MIDDLEWARES", {ArchivePauseMiddleware: PAUSE_ORDER}),
        ):
            # at the default priority of the latter, `scrapy crawl` would overwrite them
            priority = max(settings.getpriority(name) or 0, SETTINGS_PRIORITIES["spider"])
            settings.set(name, {**entries, **settings.getdict(name)}, priority)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> WaybackSpider:
        """Make the spider of its `-a` arguments."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        assert isinstance(spider, cls)  # noqa: S101 - for the type checker
        return spider

    async def start(self) -> AsyncIterator[SeedHistory]:
        """Harvest the seeds and yield what each of them has; asks the archive for nothing else."""
        session = Session.of(self.crawler)
        await session.open()
        if session.config is None or not session.is_open:
            return
        session.log_summary = self._log_summary
        client = ArchiveClient(self.crawler, session, session.config)
        try:
            harvester = self._harvester(session, session.config, client)
            seeds = await self._unique_seeds(session)
            with Progress("wayback") as self._progress:
                async for history in at_once(harvester.harvest, each(seeds), SEEDS_AT_ONCE):
                    self._show_progress()
                    yield history
            harvester.check()
        except HacsError as error:
            session.fail(str(error))

    def _harvester(self, session: Session, config: Config, client: ArchiveClient) -> Harvester:
        """Check the arguments; raises HacsError that names the first one that is wrong."""
        if self._unknown:
            logger.warning("wayback has no argument %s; it is not used", ", ".join(self._unknown))
        for name, allowed in (("level", LEVELS), ("mode", MODES)):
            if getattr(self, name) not in allowed:
                msg = f"{name} = {getattr(self, name)!r}: allowed is {' or '.join(allowed)}"
                raise HacsError(msg)
        now = int(session.clock())
        since = _time("since", self.since, is_end=False) if self.since else EARLIEST
        until = _time("until", self.until, is_end=True) if self.until else now
        if since > until:
            raise HacsError(f"since = {self.since!r} is later than until = {self.until or 'now'!r}")
        most = _count("max_captures", self.max_captures) if self.max_captures else None
        facts = (config.cdx_url, self.mode, since, most)
        options = HarvestOptions(
            source=fingerprint(repr(facts)) & 0xFFFF_FFFF,
            since=since,
            until=min(until, now),
            by_digest=self.mode == "digest",
            max_captures=most,
        )
        return Harvester(
            session,
            client,
            options,
            has_subpages=self.level == "website",
            on_page=self._show_progress,
        )

    async def _unique_seeds(self, session: Session) -> list[str]:
        """Return the seeds, of several spellings of one homepage the first; raises HacsError."""
        if not self.seeds:
            raise HacsError("wayback needs seeds: -a seeds=FILE, -a seeds=- or -a seeds=state")
        seeds: dict[int, str] = {}
        number = 0
        async for url in seeds_of(session, self.seeds):
            number += 1
            seeds.setdefault(Site(url, has_subpages=False).key, url)
        if not seeds:
            raise HacsError(f"seeds = {self.seeds!r}: there is no usable seed in it")
        if number > len(seeds):
            session.stats.count("archive/seeds/second_homepage", number - len(seeds))
        self._total = len(seeds)
        return list(seeds.values())

    def _show_progress(self) -> None:
        done = self._stat("seeds")
        text = (
            f"{done} of {self._total} seeds, {self._stat('captures')} captures, "
            f"{self._stat('mementos')} mementos fetched, {self._stat('mementos_saved')} not needed"
        )
        self._progress.update(text, completed=done, total=self._total)

    def _stat(self, name: str) -> int:
        assert self.crawler.stats is not None  # noqa: S101 - there are stats while crawling
        return int(self.crawler.stats.get_value(f"hacs/archive/{name}", 0) or 0)

    def _log_summary(self) -> None:
        found, none = self._stat("seeds/history"), self._stat("seeds/none")
        blocked, unanswered = self._stat("seeds/blocked"), self._stat("seeds/unanswered")
        unread = self._stat("seeds/unread")
        known = found + none + blocked + unread
        fetched, saved = self._stat("mementos"), self._stat("mementos_saved")
        failed = self._stat("mementos_failed")
        logger.info(
            "HACS asked the archive about %d seeds: %d have a history, %d have none, %d are blocked "
            "(archival rate %s), of %d not one capture could be read, %d were not answered to the "
            "end; %d captures, %d visits written; %d mementos fetched, %d not needed (%s), %d could "
            "not be read",
            known + unanswered,
            found,
            none,
            blocked,
            _share(found, known),
            unread,
            unanswered,
            self._stat("captures"),
            int(self.crawler.stats.get_value("hacs/visits", 0) or 0),
            fetched,
            saved,
            _share(saved, fetched + saved + failed),
            failed,
        )


def _slots(settings: BaseSettings) -> dict[str, dict[str, float]]:
    slots = {}
    for slot, setting in (
        (CDX_SLOT, "HACS_CDX_PER_MINUTE"),
        (MEMENTO_SLOT, "HACS_MEMENTOS_PER_MINUTE"),
    ):
        try:
            per_minute = settings.getfloat(setting, DEFAULTS[setting])
        except (TypeError, ValueError):  # the session says what is wrong with it
            per_minute = DEFAULTS[setting]
        # not 0: Scrapy then sends a burst without regard to the slot's concurrency
        delay = 60.0 / per_minute if per_minute > 0 else 0.001
        slots[slot] = {"delay": delay, "concurrency": REQUESTS_AT_ONCE[slot], "jitter": 0.0}
    return slots


def _time(name: str, text: str, *, is_end: bool) -> int:
    """Return the first or last second of a year, month, day, hour, minute or second."""
    digits = re.sub(r"[-:TZ ]", "", text)
    start = parse_timestamp(digits) if len(digits) % 2 == 0 else None
    if start is None:
        msg = f"{name} = {text!r}: allowed is a time such as 2015, 2015-06-30 or 20150630120000"
        raise HacsError(msg)
    if not is_end or len(digits) == 14:
        return start
    if len(digits) > 6:
        return start + {8: DAY, 10: 3_600, 12: 60}[len(digits)] - 1
    first = datetime.fromtimestamp(start, UTC)
    months = 12 if len(digits) == 4 else 1
    year, month = divmod(first.year * 12 + first.month - 1 + months, 12)
    return int(datetime(year, month + 1, 1, tzinfo=UTC).timestamp()) - 1


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise HacsError(f"{name} = {text!r}: allowed is a whole number of at least 1")
    return int(text)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "unknown"
