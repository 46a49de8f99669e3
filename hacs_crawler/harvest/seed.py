"""Harvests the history of seeds: reads the index, records visits, and keeps a journal."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredLock

from hacs_crawler.archive import Capture
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.asking import StoppedError, UnansweredError
from hacs_crawler.harvest.client import ArchiveClient, IndexReader
from hacs_crawler.harvest.journal import MOST_TRIES, Journal, Missed
from hacs_crawler.harvest.memento import BlockedError
from hacs_crawler.harvest.page import HarvestOptions, PageHarvest, source_of
from hacs_crawler.harvest.query import IndexAnswer, Site, Span
from hacs_crawler.items import SeedHistory
from hacs_crawler.links import fingerprint
from hacs_crawler.state import Page, State, read_note
from hacs_crawler.utils.loop import at_once, begin, each
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

# Pages at a time, counted once for each host of their mementos: a host may be slow.
PAGES_AT_ONCE: Final = 64
# Pages read from the state at a time.
BATCH: Final = 1_000
# If this many seeds get no answer, and none has got one, the archive's address must be wrong.
UNANSWERED_AT_FIRST: Final = 3
UNANSWERED_IN_A_ROW: Final = 10
_Pages = list[tuple[str, list[Capture]]]


@dataclass(slots=True)
class _Seed:
    """The state of a seed's harvest.

    `held` are captures of pages that may have more in the next answers. They are held only if they
    must be thinned, which needs all captures of a page.
    """

    site: Site
    journal: Journal
    key: str
    held: dict[str, list[Capture]] = field(default_factory=dict)
    is_split: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    first: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def note(self, harvest: PageHarvest) -> None:
        self.counts.update(harvest.counts)
        self.counts["missed"] += len(harvest.missed)
        self.reasons.update(harvest.reasons)
        self.journal.has_visits |= harvest.counts["visits"] > 0

    def whole_pages(self, answer: IndexAnswer, left: Sequence[Span]) -> _Pages:
        """Return the pages that have all their captures; hold the others."""
        self.is_split = self.is_split or len(left) > bool(answer.resume_key)
        for key, captures in answer.pages:
            self.held.setdefault(key, []).extend(captures)
        if self.is_split and left:
            return []
        whole = list(self.held)[: -1 if answer.resume_key else None]
        return [(key, self.held.pop(key)) for key in whole]


class Harvester:
    """Records the history of seeds; `on_page` is called after each page."""

    def __init__(
        self,
        crawl: Crawl,
        client: ArchiveClient,
        options: HarvestOptions,
        *,
        has_subpages: bool,
        on_page: Callable[[], None],
    ) -> None:
        self._crawl = crawl
        self._client = client
        self._options = options
        # a TimeMap is about one page
        self._has_subpages = has_subpages and not client.address.names_mementos
        self._on_page = on_page
        self._busy: dict[tuple[int, str], DeferredLock] = {}
        self._unanswered = 0
        self._has_answered = False
        self._last_problem = ""

    async def harvest(self, homepage: str) -> SeedHistory:
        """Record new captures; raises HacsError if the crawl cannot go on."""
        site = Site(homepage, has_subpages=self._has_subpages)
        level = "site" if self._has_subpages else "page"
        key = (
            f"harvest/{level}/{self._options.source:08x}/{fingerprint(site.page_key) % 2**64:016x}"
        )
        journal = await self._crawl.state.patiently(
            lambda state: read_note(state.store, key, Journal)
        )
        seed = _Seed(site, journal or Journal(), key)
        is_answered = False
        try:
            await self._go_through(seed)
            is_answered = True
        except BlockedError as error:
            logger.warning("%s is blocked: %s", homepage, error)
            seed.journal.is_blocked = is_answered = True
            seed.journal.todo.clear()
            await self._write(seed)
        except UnansweredError as error:
            self._on_unanswered(homepage, str(error))
            with suppress(StoppedError):
                await self._write(seed)
        except StoppedError:
            pass
        if seed.reasons:
            logger.warning(
                "%s: %d mementos were not shown (%s); %d will be requested again in the next run",
                homepage,
                seed.reasons.total(),
                ", ".join(f"{reason}: {number}" for reason, number in seed.reasons.most_common()),
                sum(capture.is_open for capture in seed.journal.missed),
            )
        return self._result(seed, seed.journal.status if is_answered else "unanswered")

    async def _go_through(self, seed: _Seed) -> None:
        if seed.journal.is_blocked:
            return
        await self._retry_missed(seed)
        seed.journal.plan(self._options.since, self._options.until, at_least=DAY)
        reader = IndexReader(self._client, seed.site)
        todo = seed.journal.todo = await self._client.spread(seed.journal.todo)
        asked = begin(reader.read(todo)) if todo else None
        while asked is not None:
            answer, left = await maybe_deferred_to_future(asked)
            asked = begin(reader.read(left)) if left else None
            try:
                self._unanswered, self._has_answered = 0, True
                captures = sum(len(of_page) for _, of_page in answer.pages)
                seed.counts["captures"] += captures
                self._crawl.stats.count("archive/captures", captures)
                for kind, number in answer.dropped.items():
                    self._crawl.stats.count(f"archive/dropped/{kind}", number)
                await self._take(seed, answer, todo, left)
            except BaseException:
                if asked is not None:
                    asked.addErrback(lambda _: None)
                raise
            todo = left

    async def _retry_missed(self, seed: _Seed) -> None:
        """Request captures again that the archive failed to show in earlier runs."""
        asked = [capture for capture in seed.journal.missed if capture.is_open]
        if not asked:
            return
        pages = defaultdict[tuple[str, str], list[Missed]](list)
        for missed in sorted(asked, key=lambda missed: missed.at):
            capture = missed.capture
            pages[capture.page_key, self._host_of(capture)].append(missed)
        given_up = 0
        for of_page in pages.values():
            harvest = PageHarvest(self._crawl, self._client, self._options, seed.site)
            is_answered = True
            try:
                await harvest.retry([missed.capture for missed in of_page])
            except UnansweredError:
                is_answered = False  # newer captures may still be shown
            finally:
                seed.note(harvest)
            given_up += seed.journal.on_tried(of_page, harvest.missed, all_were_asked=is_answered)
            if not is_answered and not self._client.address.names_mementos:
                break
        if given_up:
            logger.warning(
                "%s: %d mementos were not shown in %d runs: given up",
                seed.site.homepage,
                given_up,
                MOST_TRIES,
            )
        await self._write(seed)

    async def _take(
        self, seed: _Seed, answer: IndexAnswer, todo: list[Span], left: list[Span]
    ) -> None:
        """Record an answer's captures, and then note where to continue in another run."""
        held_before = set(seed.held)
        is_thinned = self._options.max_captures is not None
        await self._record(seed, seed.whole_pages(answer, left) if is_thinned else answer.pages)
        if not seed.held:
            seed.journal.todo = left
        elif held_before.isdisjoint(seed.held):
            seed.journal.todo = todo
        await self._write(seed)

    async def _record(self, seed: _Seed, pages: Sequence[tuple[str, list[Capture]]]) -> None:
        for start in range(0, len(pages), BATCH):
            batch = pages[start : start + BATCH]
            ids = [fingerprint(key) for key, _ in batch]
            pages_before = await self._crawl.state.patiently(State.load, ids)
            jobs = []
            for key, (_, captures) in zip(ids, batch, strict=True):
                by_host = defaultdict[str, list[Capture]](list)
                for capture in captures:
                    by_host[self._host_of(capture)].append(capture)
                page = pages_before.get(key)
                jobs += [(seed, key, host, some, page) for host, some in by_host.items()]
            failures = []
            async for failure in at_once(self._record_at_host, each(jobs), PAGES_AT_ONCE):
                self._on_page()
                failures += [failure] if failure else []
            if failures:
                raise failures[0]
            seed.counts["pages"] += len(batch)

    async def _record_at_host(
        self, job: tuple[_Seed, int, str, list[Capture], Page | None]
    ) -> HacsError | None:
        """Record a page's captures at one host; return an error if other hosts may go on."""
        seed, key, host, captures, page = job
        lock = self._busy.setdefault((key, host), DeferredLock())
        was_busy = bool(lock.locked)
        await maybe_deferred_to_future(lock.acquire())
        options = self._options
        if host:
            options = replace(options, source=source_of((options.source, host)))
        harvest = PageHarvest(self._crawl, self._client, options, seed.site)
        try:
            if was_busy:  # another seed has the same page
                await self._crawl.state.write_behind.settle()
                page = (await self._crawl.state.patiently(State.load, [key])).get(key)
            await harvest.record(captures, page, {missed.key for missed in seed.journal.missed})
        except UnansweredError as error:
            if not host:
                raise
            return error
        except BlockedError as error:
            self._crawl.stats.count("archive/pages_blocked")
            if not (seed.site.has_subpages or host):
                raise
            logger.warning("%s: its mementos are blocked: %s", captures[-1].url, error)
        finally:
            seed.note(harvest)
            seed.journal.missed += map(Missed.of, harvest.missed)
            lock.release()
            if not lock.locked:
                self._busy.pop((key, host), None)
        seed.journal.latest = max(seed.journal.latest, captures[-1].at)
        seed.first = min(seed.first or captures[0].at, captures[0].at)
        return None

    def _host_of(self, capture: Capture) -> str:
        """Return the host of a capture's memento, "" if the archive has all mementos itself."""
        return urlsplit(capture.place).netloc if self._client.address.names_mementos else ""

    def _on_unanswered(self, homepage: str, problem: str) -> None:
        self._unanswered += 1
        self._last_problem = problem
        if not self._has_answered:
            if self._unanswered >= UNANSWERED_AT_FIRST:
                self.check()
            return
        logger.error("%s: %s; the next run tries it again", homepage, problem)
        if self._unanswered >= UNANSWERED_IN_A_ROW:
            msg = f"the archive answered none of the last {self._unanswered} seeds; last: {problem}"
            raise HacsError(msg)

    def check(self) -> None:
        """Raise HacsError if none of the requested seeds got an answer."""
        if self._unanswered and not self._has_answered:
            address = self._client.address
            raise HacsError(f"no index answers at {address.setting}: {self._last_problem}")

    async def _write(self, seed: _Seed) -> None:
        """Write the journal, once all visits of the seed are written."""
        if not await self._crawl.state.write_behind.settle():
            raise StoppedError
        too_many = seed.journal.forget()
        if too_many:
            logger.warning(
                "%s: %d of the mementos that were not shown exceed the limit: they are given up",
                seed.site.homepage,
                too_many,
            )
        note = asdict(seed.journal)
        await self._crawl.state.patiently(lambda state: state.store.write_meta({seed.key: note}))

    def _result(self, seed: _Seed, status: str) -> SeedHistory:
        self._crawl.stats.count("archive/seeds")
        self._crawl.stats.count(f"archive/seeds/{status}")
        names = ("pages", "captures", "visits", "mementos", "mementos_saved", "missed")
        first, last = (
            datetime.fromtimestamp(second, UTC) if second else None
            for second in (seed.first, seed.journal.latest)
        )
        counts: dict[str, Any] = {name: seed.counts[name] for name in names}
        return SeedHistory(
            url=seed.site.homepage,
            archive=self._client.address.shown_as,
            status=status,
            first_capture=first,
            last_capture=last,
            **counts,
        )
