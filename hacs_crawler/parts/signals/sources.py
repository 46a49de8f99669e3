"""Reads hosts' sitemaps and feeds before a crawl ranks their pages.

Only hosts of pages that are about to be ranked get requests.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import numpy as np
from scrapy.http import HtmlResponse

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.crawl.observation import NOT_MODIFIED, tree_of
from hacs_crawler.crawl.part import Observed
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.parts.signals.feed import announced_feeds
from hacs_crawler.parts.signals.register import (
    SignalSource,
    change_sources,
    claim_source,
    known_sources,
    read_sources,
)
from hacs_crawler.parts.signals.requests import FILES_A_HOST, READINGS, SignalRequests, origin_of
from hacs_crawler.state import Others, State, Store, Visit, record_signals, source_id
from hacs_crawler.utils.loop import at_once, each
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

HOSTS_AT_ONCE: Final = 16
# The shortest time between two readings of a source.
AGAIN_SECONDS: Final = 3_600
FIRST_WAIT_SECONDS: Final = DAY
# The time until the next attempt doubles with each failure, from FIRST_WAIT_SECONDS up to this.
LONGEST_WAIT_SECONDS: Final = 64 * DAY
# How many hosts of a crawl are kept for the next one.
MOST_NEW_SOURCES: Final = 10_000
# How many sites of a host are kept until its sources are read, and show which sites they list.
MOST_NEW_SITES: Final = 100


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _HostRecord:
    """What this crawl has seen of a host, for the next one."""

    # Whether any of its pages was new.
    is_new: bool = False
    sites: set[int] = field(default_factory=set)
    feeds: list[str] = field(default_factory=list)


class SignalSources(CrawlPart):
    """Reads signal sources in a crawl, with a limit on requests per run or round."""

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._requests = SignalRequests(crawl, crawl.config.signals or 0)
        self._asked: set[str] = set()
        self._hosts: dict[str, _HostRecord] = {}

    async def round_began(self) -> None:
        """Let sources be read again."""
        self._requests.left = self._crawl.config.signals or 0
        self._asked.clear()

    async def before_rank(
        self, urls: Sequence[str] | None, sites: Collection[int] | None = None
    ) -> None:
        """Read the sources of the hosts of pages that are about to be ranked, while requests are left.

        Sources tried longest ago come first, then those with the most pages. Without `urls`, all known
        sources are read, or only sources that list pages of `sites`. A failure costs only the signals.
        """
        if urls is None:
            await self._guarded(self._read_sources(None, sites))
            return
        number = Counter(origin for url in urls if (origin := origin_of(url)))
        unasked = (origin for origin, _ in number.most_common() if origin not in self._asked)
        origins = list(islice(unasked, MOST_NEW_SOURCES))
        if origins and self._requests.left > 0:
            await self._guarded(self._read_sources(origins, None))

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Remember a page's host, and the feeds that the page announces, for the next run.

        After a page that was never seen before, the host's sources are read even if unchanged.
        """
        response = observed.response
        origin = None if observed.reason else origin_of(response.url)
        if origin is None or (origin not in self._hosts and len(self._hosts) >= MOST_NEW_SOURCES):
            return ()
        met = self._hosts.setdefault(origin, _HostRecord())
        met.is_new |= observed.is_first
        if len(met.sites) < MOST_NEW_SITES:
            met.sites.add(site_id(observed.visit.url))
        if (
            "feed" in READINGS
            and isinstance(response, HtmlResponse)
            and response.status != NOT_MODIFIED
        ):
            feeds = announced_feeds(tree_of(response), response.url)
            met.feeds = list(dict.fromkeys([*met.feeds, *feeds]))[:FILES_A_HOST]
        return ()

    async def closing(self) -> None:
        """Write the register and the signals."""
        await self._guarded(self._keep())
        self._requests.close()

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - signals must not end a crawl
            logger.warning("Signals are not read: %s", _message(error))

    async def _once(
        self, function: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the result of a function of the store; raises StateError."""
        return await self._crawl.state.once(lambda state: function(state.store, *args, **kwargs))

    async def _keep(self) -> None:
        for kind in READINGS:
            met = {o: record for o, record in self._hosts.items() if kind != "feed" or record.feeds}
            if met:
                await self._once(_write_hosts, kind, met)

    async def _read_sources(
        self, origins: Sequence[str] | None, sites: Collection[int] | None
    ) -> None:
        for kind in READINGS:
            if origins is None:
                sources = await self._once(known_sources, kind, MOST_NEW_SOURCES)
            else:
                sources = await self._once(read_sources, kind, origins)
            if sites is not None:
                sources = [source for source in sources if not set(sites).isdisjoint(source.sites)]
            await self._read(kind, sources)

    async def _read(self, kind: str, sources: Sequence[SignalSource]) -> None:
        self._asked.update(source.origin for source in sources)
        started, now = time.monotonic(), int(self._crawl.clock())
        due = [
            source
            for source in sources
            # the URL of a sitemap can be guessed, unlike that of a feed
            if _is_due(source, now) and (source.files or kind == "sitemap")
        ]
        if not due:
            return
        # so that all get their turn, even if requests run out
        due.sort(key=lambda entry: entry.tried)
        read_one = partial(self._read_one, kind)
        answered = sum([read async for read in at_once(read_one, each(due), HOSTS_AT_ONCE)])
        logger.info(
            "Signals: %d of %s answered, in %.1f s%s",
            answered,
            counted(len(due), kind),
            time.monotonic() - started,
            "" if self._requests.left else "; HACS_SIGNALS is used up, the rest follow next time",
        )

    async def _read_one(self, kind: str, source: SignalSource) -> bool:
        """Read one source, and keep its signals; return whether anything answered."""
        crawl = self._crawl
        at = int(crawl.clock())
        if not self._requests.may_ask or not await self._once(claim_source, kind, source, at):
            return False
        crawl.stats.count("signals/sources")
        try:
            after = await self._read_signals(kind, source, at)
        except StateError:
            raise
        except Exception as error:  # noqa: BLE001 - hosts may send anything
            logger.warning("The %s of %s cannot be read: %s", kind, source.origin, _message(error))
            after = None
        if after is None:
            crawl.stats.count("signals/failed")
        failed = replace(source, tried=at, failures=min(source.failures + 1, 16))
        await self._once(_write_source, kind, source, after or failed)
        return after is not None

    async def _read_signals(self, kind: str, source: SignalSource, at: int) -> SignalSource | None:
        """Read and write the signals of a source; return its new entry, None without an answer."""
        reading = await self._requests.files(kind, source, at)
        if not reading.answers:
            return None
        others: Others = "unread"
        if reading.is_whole:
            others = "silent" if reading.is_unchanged or kind == "feed" else "gone"
        sites = await self._crawl.state.once(
            _write_signals, kind, source, at, reading.pages, others
        )
        # if none of its pages is known yet, forget the validators, so that it is read again
        files = reading.files if sites else dict.fromkeys(reading.files, ("", ""))
        return SignalSource(source.origin, at, at, files=files, sites=tuple(sites))


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, StateError) else f"{type(error).__name__}: {error}"


def _write_source(store: Store, kind: str, before: SignalSource, after: SignalSource) -> None:
    """Write a source's entry, with files that others have added meanwhile."""

    def written(_: int, now: SignalSource | None) -> SignalSource:
        files = {} if now is None else now.files
        new = {url: seen for url, seen in files.items() if url not in before.files}
        return replace(after, files=_first_files({**after.files, **new}))

    change_sources(store, kind, [source_id(after.origin)], written)


def _write_signals(
    state: State, kind: str, source: SignalSource, at: int, pages: dict[str, int], others: Others
) -> tuple[int, ...]:
    times = list[tuple[int, int]]()
    for url, second in pages.items():
        with suppress(ValueError):
            times.append((page_id_of(url), second))
    ids, seconds = np.array(times, np.int64).reshape(-1, 2).T
    return record_signals(
        state, kind, source.origin, at, ids, seconds, others=others, sites=source.sites
    )


def _write_hosts(store: Store, kind: str, met: Mapping[str, _HostRecord]) -> None:
    own = {source_id(origin): (origin, record) for origin, record in met.items()}

    def changed(key: int, now: SignalSource | None) -> SignalSource | None:
        origin, record = own[key]
        source = now or SignalSource(origin)
        files = {**dict.fromkeys(record.feeds if kind == "feed" else (), ("", "")), **source.files}
        if record.is_new:
            files = dict.fromkeys(files, ("", ""))
        new = replace(
            source, files=_first_files(files), sites=source.sites or tuple(sorted(record.sites))
        )
        return None if new == now else new

    change_sources(store, kind, list(own), changed)


def _first_files(files: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return dict(islice(files.items(), FILES_A_HOST))


def _is_due(source: SignalSource, now: int) -> bool:
    wait = AGAIN_SECONDS
    if source.failures:
        wait = min(FIRST_WAIT_SECONDS * 2 ** (source.failures - 1), LONGEST_WAIT_SECONDS)
    return not 0 <= now - source.tried < wait
