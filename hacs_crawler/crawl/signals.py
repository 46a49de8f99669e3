"""Reads what says that pages changed, before a crawl ranks them: their hosts' sitemaps and feeds.

Requests go through the project's downloader middlewares, its robots.txt and its delays, past the
scheduler and the spider. They go to hosts of pages that are about to be ranked, and to no other: a
redirect elsewhere ends there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

import numpy as np
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.loop import Worker, at_once, each
from hacs_crawler.crawl.observation import readable
from hacs_crawler.crawl.scrapy_internals import download, is_closing
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id_of
from hacs_crawler.signals import (
    MOST_BYTES,
    Listing,
    SignalError,
    announced_feeds,
    read_feed,
    read_sitemap,
    sitemaps_of_robots,
)
from hacs_crawler.state import (
    Others,
    Source,
    State,
    hear,
    known_sources,
    read_sources,
    write_sources,
)
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.utils.times import DAY

if TYPE_CHECKING:
    from hacs_crawler.crawl.session import Session

logger = safe_logger(__name__)

HOSTS_AT_ONCE: Final = 16
FILES_A_HOST: Final = 8
"""Of a host's sitemaps at most so many are read, those that its index says changed last."""
REDIRECTS: Final = 2
TIMEOUT_SECONDS: Final = 20.0
AGAIN_SECONDS: Final = 3_600
"""A source is not read again sooner."""
FIRST_WAIT_SECONDS: Final = DAY
LONGEST_WAIT_SECONDS: Final = 64 * DAY
"""How long a source that brought nothing is left alone: at first, and at most."""
MOST_NEW_SOURCES: Final = 10_000
"""Of hosts and feeds met in a crawl at most so many are noted for the next one."""
_META: Final = {
    "hacs": False,
    "hacs_signal": True,
    "dont_redirect": True,
    "dont_retry": True,
    "dont_cache": True,
    "dont_merge_cookies": True,
    "handle_httpstatus_all": True,
    "download_timeout": TIMEOUT_SECONDS,
    "download_maxsize": MOST_BYTES,
    "download_warnsize": 0,
}


class _Read(NamedTuple):
    """How one kind of source is read, and where it is looked for on a host of which none is known."""

    parse: Callable[[bytes, str, int], Listing]
    is_guessed: bool


_READS: Final = {"sitemap": _Read(read_sitemap, True)}
if find_spec("feedparser") is not None:  # an extra: without it feeds are not asked for
    _READS["feed"] = _Read(read_feed, False)


def is_for_signals(request: Request) -> bool:
    """Whether a request is for a source of signals, and not for a page."""
    return bool(request.meta.get("hacs_signal"))


@dataclass(slots=True)
class _Found:
    """What the files of one source showed together."""

    pages: dict[str, int] = field(default_factory=dict)
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    answers: int = 0
    is_whole: bool = True
    """Whether every file was read, or had not changed."""
    is_unchanged: bool = False
    """Whether one of them had not changed: what it lists is not in `pages`."""


class SignalSources:
    """Reads sources of signals in a crawl, with so many requests at most in a run or a round."""

    def __init__(self, crawler: Crawler, session: Session, most: int) -> None:
        self._crawler = crawler
        self._session = session
        self._most = self._left = most
        self._asked: set[str] = set()
        self._worker = Worker()
        self._feeds: dict[str, dict[str, tuple[str, str]]] = {}
        self._hosts: dict[str, bool] = {}

    def begin_round(self) -> None:
        """Let sources be read again."""
        self._left = self._most
        self._asked.clear()

    async def listen(self, urls: Iterable[str]) -> None:
        """Read the sources of the hosts of pages that are about to be ranked, as far as requests last.

        Those asked longest ago come first, then those of the most pages. What fails costs a page its
        signals, and nothing else.
        """
        number = Counter(origin for url in urls if (origin := _origin(url)))
        unasked = (origin for origin, _ in number.most_common() if origin not in self._asked)
        origins = list(islice(unasked, MOST_NEW_SOURCES))
        if origins and self._left > 0:
            await self._guarded(self._listen(origins))

    async def listen_to_known(self, sites: Collection[int] | None = None) -> None:
        """Read the sources that the state knows, those read longest ago first.

        With `sites`, only sources that list pages of one of these.
        """
        await self._guarded(self._listen_to_known(sites))

    def note(self, response: Response, *, is_first: bool) -> None:
        """Note the host of a page that was seen, and the feeds that it announces, for the next run.

        What lists a page that was never seen before is then read whole, changed or not.
        """
        origin = _origin(response.url)
        if origin is None or len(self._hosts) >= MOST_NEW_SOURCES:
            return
        self._hosts[origin] = is_first or self._hosts.get(origin, False)
        if "feed" in _READS and isinstance(response, HtmlResponse) and response.body:
            feeds = announced_feeds(readable(response).selector.root, response.url)
            known = self._feeds.setdefault(origin, {})
            known |= dict.fromkeys(feeds[: FILES_A_HOST - len(known)], ("", ""))

    async def close(self) -> None:
        """Keep what was noted."""
        await self._guarded(self._keep())
        self._worker.close()

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except StateError as error:
            logger.warning("Signals are not read: %s", error)

    async def _keep(self) -> None:
        for kind in _READS:
            feeds = self._feeds if kind == "feed" else {}
            hosts = {o: new for o, new in self._hosts.items() if kind == "sitemap" or feeds.get(o)}
            if hosts:
                await self._session.pages.once(_note_sources, kind, hosts, feeds)

    async def _listen(self, origins: Sequence[str]) -> None:
        self._asked.update(origins)
        for kind in _READS:
            known = await self._session.pages.once(_read_sources, kind, origins)
            await self._read(kind, list(known.values()))

    async def _listen_to_known(self, sites: Collection[int] | None) -> None:
        for kind in _READS:
            known = await self._session.pages.once(_known_sources, kind, MOST_NEW_SOURCES)
            if sites is not None:
                known = [one for one in known if not set(sites).isdisjoint(one.sites)]
            self._asked.update(source.origin for source in known)
            await self._read(kind, known)

    async def _read(self, kind: str, sources: Sequence[Source]) -> None:
        started, now = time.monotonic(), int(self._session.clock())
        due = [
            one for one in sources if _is_due(one, now) and (one.files or _READS[kind].is_guessed)
        ]
        if not due:
            return
        due.sort(key=lambda one: one.tried)  # else those at the end would never have their turn
        read = 0

        async def one(source: Source) -> bool:
            return await self._read_one(kind, source)

        async for was_read in at_once(one, _each(due), HOSTS_AT_ONCE):
            read += was_read
        logger.info(
            "Signals: read %d of %s due, in %.1f s; left: %s",
            read,
            counted(len(due), kind),
            time.monotonic() - started,
            counted(self._left, "request"),
        )

    async def _read_one(self, kind: str, source: Source) -> bool:
        """Read one source, and take in what it shows; returns whether anything answered."""
        session = self._session
        if self._left <= 0 or session.failure is not None or is_closing(self._crawler):
            return False
        at = int(session.clock())
        found = await self._files(kind, source, at)
        session.stats.count("signals/sources")
        if not found.answers:
            session.stats.count("signals/failed")
            source = replace(source, tried=at, failures=min(source.failures + 1, 16))
        else:
            others: Others = "unread"
            if found.is_whole:
                others = "silent" if found.is_unchanged or kind == "feed" else "gone"
            sites = await session.pages.once(_hear, kind, source, at, found.pages, others)
            source = replace(
                source, tried=at, read=at, failures=0, files=found.files, sites=tuple(sites)
            )
        await session.pages.once(_write_source, kind, source)
        return bool(found.answers)

    async def _files(self, kind: str, source: Source, at: int) -> _Found:
        found = _Found()
        waiting = list(source.files) or await self._guess(source.origin)
        seen: set[str] = set()
        while waiting and len(seen) < FILES_A_HOST:
            url = waiting.pop(0)
            if url in seen:
                continue
            seen.add(url)
            # what was read when no page of it was known is to be read again
            validators = source.files.get(url) if source.sites else None
            response = await self._ask(url, validators or ("", ""))
            if response is None or (response.status not in {200, 304, 404, 410}):
                found.is_whole = False
                if url in source.files:
                    found.files[url] = source.files[url]
                continue
            if response.status == 304:
                found.answers += 1
                found.is_unchanged = True
                found.files[url] = source.files[url]
                self._session.stats.count("signals/not_modified")
                continue
            if response.status != 200:
                continue
            listing = await self._parsed(kind, response, at)
            if listing is None:
                found.is_whole = False
                continue
            found.answers += 1
            found.files[url] = tuple(  # type: ignore[assignment]
                (response.headers.get(name) or b"").decode("latin-1")[:500]
                for name in (b"ETag", b"Last-Modified")
            )
            waiting += [file for file in listing.files if file not in source.files]
            for page, second in listing.pages.items():
                found.pages[page] = max(second, found.pages.get(page, 0))
        if waiting:
            found.is_whole = False
        return found

    async def _guess(self, origin: str) -> list[str]:
        """Return where a host's sitemaps may be: where robots.txt says, else where most are."""
        robots = await self._ask(f"{origin}/robots.txt", ("", ""), dont_obey_robotstxt=True)
        named = []
        if robots is not None and robots.status == 200:
            named = sitemaps_of_robots(robots.body, robots.url)
        return named or [f"{origin}/sitemap.xml"]

    async def _parsed(self, kind: str, response: Response, at: int) -> Listing | None:
        session = self._session
        session.stats.count("signals/bytes", len(response.body))
        read = _READS[kind].parse
        try:
            listing = await maybe_deferred_to_future(
                self._worker.run(read, response.body, response.url, at)
            )
        except SignalError as error:
            session.stats.count("signals/unreadable")
            logger.info("No signals: %s", error)
            return None
        session.stats.count("signals/pages", len(listing.pages))
        if listing.unread:
            session.stats.count("signals/passed_over", listing.unread)
        return listing

    async def _ask(self, url: str, validators: tuple[str, str], **meta: Any) -> Response | None:
        """Return the answer to a request, None where there is none; follows redirects on its host."""
        headers = zip(("If-None-Match", "If-Modified-Since"), validators, strict=True)
        sent = {name: value for name, value in headers if value}
        for _ in range(REDIRECTS + 1):
            if self._left <= 0 or is_closing(self._crawler):
                return None
            self._left -= 1
            self._session.stats.count("signals/requests")
            request = Request(url, headers=sent, dont_filter=True, meta={**_META, **meta})
            try:
                response = await download(self._crawler, request)
            except Exception as error:  # noqa: BLE001 - whatever the network does
                logger.debug("No signals from %s: %r", url, error)
                return None
            if response.status not in {301, 302, 303, 307, 308}:
                return response
            target = urljoin(url, (response.headers.get(b"Location") or b"").decode("latin-1"))
            if _origin(target) is None or _netloc(target) != _netloc(url):
                return None
            url = target
        return None


def _read_sources(state: State, kind: str, origins: Sequence[str]) -> dict[str, Source]:
    return read_sources(state.store, kind, origins)


def _known_sources(state: State, kind: str, most: int) -> list[Source]:
    return known_sources(state.store, kind, most)


def _write_source(state: State, kind: str, source: Source) -> None:
    write_sources(state.store, kind, [source])


def _hear(
    state: State, kind: str, source: Source, at: int, pages: dict[str, int], others: Others
) -> tuple[int, ...]:
    ids, times = [], []
    for url, second in pages.items():
        try:
            ids.append(page_id_of(url))
        except ValueError:
            continue
        times.append(second)
    return hear(
        state,
        kind,
        source.origin,
        at,
        np.array(ids, np.int64),
        np.array(times, np.int64),
        others=others,
        sites=source.sites,
    )


def _note_sources(
    state: State,
    kind: str,
    hosts: dict[str, bool],
    files: dict[str, dict[str, tuple[str, str]]],
) -> None:
    new = []
    for origin, source in read_sources(state.store, kind, list(hosts)).items():
        kept = {**files.get(origin, {}), **source.files}
        if hosts[origin]:
            kept = dict.fromkeys(kept, ("", ""))
        if kept != source.files or not source.tried:
            new.append(replace(source, files=dict(list(kept.items())[:FILES_A_HOST])))
    if new:
        write_sources(state.store, kind, new)


def _is_due(source: Source, now: int) -> bool:
    wait = AGAIN_SECONDS
    if source.failures:
        wait = min(FIRST_WAIT_SECONDS * 2 ** (source.failures - 1), LONGEST_WAIT_SECONDS)
    return not 0 <= now - source.tried < wait


def _origin(url: str) -> str | None:
    parts = urlsplit(url)
    is_web = parts.scheme in {"http", "https"} and parts.netloc
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}" if is_web else None


def _netloc(url: str) -> str:
    return urlsplit(url).netloc.lower()


async def _each(sources: Sequence[Source]) -> AsyncIterator[Source]:
    async for source in each(sources):
        yield source
