"""Turns an archive's captures of a page into visits, and records these in time order."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec.structs import replace
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from hacs_crawler.archive import Capture, visits_by_digest
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.harvest.asking import MEMENTO_SLOT, REQUESTS_AT_ONCE
from hacs_crawler.harvest.client import ArchiveClient
from hacs_crawler.harvest.memento import Memento
from hacs_crawler.harvest.query import Site
from hacs_crawler.links import fingerprint
from hacs_crawler.state import Harvest, Page, Visit
from hacs_crawler.utils.loop import begin

# Mementos per page at a time: the limit per archive, so that one page is enough to use it fully.
MEMENTOS_AT_ONCE: Final = REQUESTS_AT_ONCE[MEMENTO_SLOT]
# How many captures with the same content are tried before the content is given up.
MEMENTO_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Step:
    """A capture that is to become a visit.

    `digest` is the fingerprint of its digest, else of its place, 0 if both are missing. `is_new`
    says that no earlier capture is known to have the same content.
    """

    capture: Capture
    digest: int
    is_new: bool


def thinned(captures: Sequence[Capture], most: int) -> list[Capture]:
    """Return `most` of a page's captures, in time order, spread as evenly as possible.

    The choice depends on time alone, so that it is not biased towards changes: first the last and
    first captures, then repeatedly the capture farthest in time from all chosen ones.
    """
    if len(captures) <= most:
        return list(captures)
    times = np.array([capture.at for capture in captures], np.int64)
    chosen = [len(times) - 1]
    distance = np.abs(times - times[-1])
    while len(chosen) < most:
        farthest = int(np.argmax(distance))
        chosen.append(farthest)
        np.minimum(distance, np.abs(times - times[farthest]), out=distance)
    return [captures[index] for index in sorted(chosen)]


def steps(
    captures: Iterable[Capture], harvest: Harvest | None, *, is_whole: bool = True
) -> Iterator[Step]:
    """Yield the steps of a page's captures, which are in time order, one per second at most.

    Captures that `harvest` says are recorded are skipped. A revisit record without a digest has the
    content of the capture before it, unless captures may be missing between them (not `is_whole`).
    """
    previous = 0 if harvest is None else harvest.digest
    seen = {previous}
    is_first = harvest is None
    for capture in captures:
        if harvest is not None and capture.at <= harvest.until:
            continue
        content = capture.digest or (capture.place if not capture.is_revisit else "")
        digest = _fingerprint(content) if content else previous * is_whole
        is_unknown = not (digest or is_whole)
        yield Step(capture, digest, is_first or is_unknown or digest not in seen)
        seen.add(digest)
        previous, is_first = digest, False


_fingerprint: Final = lru_cache(maxsize=4_096)(fingerprint)


def source_of(facts: object) -> int:
    """Return the number by which pages identify an archive, and the options that matter."""
    return fingerprint(repr(facts)) & 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class HarvestOptions:
    """Which captures to harvest, from `since` to `until` in seconds since 1970 UTC, inclusive.

    For `source`, see `source_of`.
    """

    source: int
    since: int
    until: int
    by_digest: bool
    max_captures: int | None


class PageHarvest:
    """The harvest of one page.

    Visits are recorded in time order, so that everything up to the page's `Harvest` is recorded,
    except `missed`: captures that the archive failed to show, and others with the same content, to
    be requested again. `counts` has the numbers of visits, of mementos fetched and of mementos not
    needed; `reasons`, why captures were missed.
    """

    def __init__(
        self, crawl: Crawl, client: ArchiveClient, options: HarvestOptions, site: Site
    ) -> None:
        self._crawl = crawl
        self._client = client
        self._options = options
        self._site = site
        self._shown: dict[int, Visit] = {}  # the visit with the content, by digest
        self._failed: Counter[int] = Counter()
        self._passing: set[int] = set()
        self._redirected: set[int] = set()
        self._is_again = False
        self.missed: list[Capture] = []
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    async def retry(self, captures: Sequence[Capture]) -> None:
        """Record the visits of missed captures, given in time order. Raises as `record`."""
        self._is_again = True
        await self._record_links(steps(captures, None, is_whole=False))

    async def record(
        self,
        captures: Sequence[Capture],
        page: Page | None,
        missed: Collection[tuple[str, int, str]] = (),
    ) -> None:
        """Record the visits of captures, given in time order; `page` is the page's row and marks.

        Captures whose key is in `missed` are left out. Raises BlockedError if the archive shows no
        mementos of the page, UnansweredError after too many consecutive failures, RefusedError,
        StoppedError.
        """
        before = None if page is None else page.harvests.get(self._options.source)
        if page is not None and before is not None and before.digest:
            shown, rules = page.by_visit()
            if (at := before.until) in shown:
                visit = Visit(page.url, at, marks=shown[at], rules=rules[at])
                self._shown[before.digest] = visit
        if self._options.max_captures is not None:
            # including recorded captures, so that a harvest that was killed continues with the same
            captures = thinned(captures, self._options.max_captures)
        captures = [capture for capture in captures if capture.key not in missed]
        if self._options.by_digest:
            for step in steps(captures, before):
                for visit in visits_by_digest([step.capture]):
                    await self._visit(step, visit)
        else:
            await self._record_links(steps(captures, before))

    async def _record_links(self, to_do: Iterator[Step]) -> None:
        waiting: deque[tuple[Step, Deferred[Memento] | None]] = deque()
        under_way = 0
        try:
            for step in to_do:
                fetch = begin(self._client.memento(step.capture)) if step.is_new else None
                waiting.append((step, fetch))
                under_way += fetch is not None
                while waiting and (waiting[0][1] is None or under_way >= MEMENTOS_AT_ONCE):
                    under_way -= waiting[0][1] is not None
                    await self._finish(*waiting.popleft())
            while waiting:
                await self._finish(*waiting.popleft())
        finally:
            for _, fetch in waiting:
                if fetch is not None:
                    fetch.addErrback(lambda _: None)

    async def _finish(self, step: Step, fetch: Deferred[Memento] | None) -> None:
        """Record the visit of the next capture, after its memento, if it needs one, has arrived."""
        if fetch is not None:
            memento = await maybe_deferred_to_future(fetch)
        elif step.digest in self._shown:
            self._count("mementos_saved")
            shown = self._shown[step.digest]
            await self._visit(step, replace(shown, url=step.capture.url, at=step.capture.at))
            return
        elif self._failed[step.digest] < MEMENTO_TRIES:
            memento = await self._client.memento(step.capture)
        else:
            self._count("mementos_failed")
            self._crawl.stats.count("archive/mementos_failed/like_others")
            if step.digest in self._passing:
                self._miss(step.capture, "as others of the same content")
            return
        # the archive answered with another capture
        if not self._options.since <= memento.at <= self._options.until:
            memento = Memento(memento.at, problem="moved")
        if memento.marks is not None:
            self._count("mementos")
            visit = Visit(step.capture.url, memento.at, marks=memento.marks, rules=memento.rules)
            if memento.at == step.capture.at:
                self._shown[step.digest] = visit
            elif memento.at in self._redirected:
                # all captures of this content may redirect to it: no need to try each
                self._failed[step.digest] += 1
            self._redirected.add(memento.at)
            await self._visit(step, visit)
            return
        self._failed[step.digest] += 1
        self._count("mementos_failed")
        self._crawl.stats.count(f"archive/mementos_failed/{memento.problem}")
        if memento.reason:
            self._passing.add(step.digest)
            self._miss(step.capture, memento.reason)

    async def _visit(self, step: Step, visit: Visit) -> None:
        is_shown = self._options.by_digest or step.digest in self._shown
        digest = step.digest if is_shown else 0
        harvest = Harvest(self._options.source, step.capture.at, digest)
        await self._crawl.state.write_behind.make_room()
        self._crawl.state.write_behind.record(
            replace(
                visit,
                url=self._site.url_of(step.capture),
                harvest=None if self._is_again else harvest,
            )
        )
        self.counts["visits"] += 1

    def _miss(self, capture: Capture, reason: str) -> None:
        self.missed.append(capture)
        self.reasons[reason] += 1

    def _count(self, name: str) -> None:
        self.counts[name] += 1
        self._crawl.stats.count(f"archive/{name}")
