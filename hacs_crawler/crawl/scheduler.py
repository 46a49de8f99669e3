"""The scheduler: holds start requests, ranks them, and sends the best whose host is free."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from math import inf
from typing import Any, Final

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler, Scheduler
from scrapy.crawler import Crawler
from twisted.internet.defer import Deferred

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.inner_scheduler import (
    end_job,
    inner_scheduler,
    is_scrapys_own,
    keeps_requests,
    shared_filter,
)
from hacs_crawler.crawl.meta import (
    KEY,
    UNTAGGED,
    Tag,
    followed_key,
    is_start,
    mark_unranked,
    pack,
    page_url,
    renew,
    seed_key,
    tag_of,
    was_sent,
)
from hacs_crawler.crawl.outputs import PageFilter
from hacs_crawler.crawl.queues import LEAST_SECONDS, SeedQueue, WaitingRequests
from hacs_crawler.crawl.ranker import Ranker
from hacs_crawler.crawl.scrapy_internals import (
    Downloads,
    close_after_start_items,
    empty_filter,
    enqueue_unfiltered,
    filter_of,
    is_parsing,
    wake,
)
from hacs_crawler.utils.loop import begin, call_later

# How often to check whether callbacks are done: Scrapy sends no signal if they yield nothing.
PARSING_SECONDS: Final = 0.05

# How many requests of another scheduler's queue may wait here for their hosts: a kill loses them.
MOST_PAUSED: Final = 16


class HacsScheduler(BaseScheduler):
    """Ranks start requests; everything else goes straight to the inner scheduler.

    A start request passes the project's duplicate filter when it comes, as with any scheduler, and is
    held here until it is ranked and sent; a filter that outlasts the process notes it then
    (`SharedFilter`). Follow-up requests go before start requests of the same priority; between hosts,
    those with a free slot come first. Nothing here waits.
    """

    def __init__(self, inner: BaseScheduler, crawl: Crawl) -> None:
        crawler = crawl.crawler
        self._inner = inner
        self._crawl = crawl
        self._crawler = crawler
        self._downloads = Downloads(crawler)
        self._may_have_to_wait = crawl.parts.override("admit")
        self._waiting = WaitingRequests(crawl.parts.admit, lambda: wake(crawler))
        self._is_resumed = self._is_closed = False
        self._is_scrapys_own = is_scrapys_own(inner, crawler)
        self._seeds = SeedQueue(self._downloads, knows_all_given=self._is_scrapys_own)
        self._enqueued = self._dequeued = 0
        self._planned = count()
        # the pages of the round's seeds
        self._asked: set[int] = set()
        self._ranker = Ranker(
            crawl, self._seeds, self._is_quiet, self._is_filtered, self._forget_seen
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> HacsScheduler:
        """Build the scheduler named by HACS_INNER_SCHEDULER, and this scheduler around it."""
        crawl = Crawl.of(crawler)
        return cls(inner_scheduler(crawl, cls), crawl)

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Open the inner scheduler."""
        self._spider = spider
        config, matched = self._crawl.config, self._crawl.stats.matched
        self._page_filter = PageFilter(config.pages, spider, matched, config.watch)
        opening = self._inner.open(spider)
        self._shared_filter = None if self._is_scrapys_own else shared_filter(self._inner)
        # requests of a resumed job are sent before start() is read, and are recorded
        self._is_resumed = self._inner.has_pending_requests()
        close_after_start_items(self._crawler)
        return opening

    def close(self, reason: str) -> Deferred[None] | None:
        """Close the inner scheduler; if it outlasts the crawl, the seeds go back to be ranked again."""
        if keeps_requests(self._inner, self._crawler):
            unsent = [
                mark_unranked(seed) for seed in (*self._seeds.all(), *self._ranker.take_all())
            ]
            self._enqueued -= len(unsent)  # the inner scheduler counts them again
            unsent += self._waiting.take_all()
            for request in unsent:
                self._give(request)
        else:
            self._ranker.drop_all()
        self._seeds.clear()
        self._count_seeds()
        self._is_closed = True
        closing = self._inner.close(reason)
        end_job(self._inner, self._crawler)
        return closing

    def has_pending_requests(self) -> bool:
        """Whether anything waits here or in the inner scheduler."""
        if self._crawl.failure is not None:
            return False
        waits = len(self._seeds) or self._ranker.has_work or self._waiting
        return bool(waits) or self._inner.has_pending_requests()

    def enqueue_request(self, request: Request) -> bool:
        """Hold a start request back to be ranked; pass anything else to the inner scheduler.

        A seed of the plan was ranked already: it waits behind the seeds that came before it.
        """
        if self._is_closed:  # Scrapy may still ask start() for more
            return False
        tag = renew(request)
        if tag.stage == "planned":
            # another page may have led to it; a hub has no prediction, and is visited many times
            is_seen = tag.prediction is not None and self._is_filtered(request)
            if not is_seen:
                self._seeds.add_one(request, next(self._planned))
            return not is_seen
        if self._page_filter.is_needed or tag is not UNTAGGED:
            self._page_filter.mark(request)
            tag = tag_of(request)
        is_again = tag.stage == "again"
        if self._crawl.parts.override("takes") and not is_again:
            # neither a request for no page, nor one under way already
            url = None if was_sent(request) else page_url(request)
            if url is not None and not self._crawl.parts.takes(url, request):
                return False
        page_id = self._page_to_rank(request, tag)
        # such as a spider's own retry, which was let through once
        if page_id is None or is_again:
            return self._pass_on(request)
        seeds = self._ranker.seeds
        is_asked = page_id in self._asked or page_id in seeds.added
        # if some pages are left out, one spelling of a page's URL is enough
        is_other = is_asked and not (tag.seed or is_start(request) or "hacs_page" in request.meta)
        if not seeds.passes_filter(request, page_id) and self._is_filtered(request, is_other):
            return False
        self._enqueued += 1
        seeds.add(request, page_id)
        if not tag.added and self._crawl.config.ranking.leaves_out:
            self._asked.add(page_id)
        return True

    def next_request(self) -> Request | None:
        """Return the request to send now, or None."""
        if self._crawl.failure is not None:
            return None
        if self._is_resumed and not self._crawl.is_open:
            begin(self._open_and_wake())
            return None
        request = self._next()
        if request is not None:
            self._ranker.watch.end_starving()
            return request
        if not self._ranker.watch.is_starving:  # else this was said before
            self._count_seeds()
            self._have_ranked()
        return None

    def __getattr__(self, name: str) -> Any:
        """Give code of the project the attributes of its own scheduler, such as `df`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __len__(self) -> int:
        """Return the number of waiting requests; TypeError if the inner scheduler cannot tell."""
        own = len(self._waiting) + len(self._seeds) + len(self._ranker.seeds)
        return own + len(self._inner)  # type: ignore[arg-type]

    def _page_to_rank(self, request: Request, tag: Tag) -> int | None:
        """Return the id of the page that a request is ranked by, None if it is sent without ranking.

        Requests of callbacks are ranked only with a budget or a threshold, start requests always.
        """
        if not self._crawl.is_open:
            return None
        if tag.seed or not self._ranker.watch.is_over:
            page_id = seed_key(request, tag)
            if tag.seed or page_id is not None:
                return page_id
        return followed_key(request) if self._crawl.config.ranking.leaves_out else None

    def _have_ranked(self) -> None:
        """Have the held seeds ranked soon, as nothing else can be sent."""
        ranker = self._ranker
        if ranker.is_ranking:
            return
        if not ranker.watch.is_over:
            if ranker.has_work:
                ranker.watch.begin_starving()
        elif len(ranker.seeds) or (ranker.seeds.is_kept and self._is_quiet()):
            ranker.on_pause()
        elif ranker.seeds.is_kept and not self._downloads.active:
            call_later(PARSING_SECONDS, lambda: wake(self._crawler))

    def _is_quiet(self) -> bool:
        """Whether nothing waits, and nothing is under way that might lead to other requests."""
        waits = len(self._seeds) or self._waiting or self._inner.has_pending_requests()
        return not (waits or self._downloads.active or is_parsing(self._crawler))

    def _forget_seen(self) -> None:
        """Let pages be visited again."""
        self._asked.clear()
        empty_filter(self._inner, self._crawler)
        if self._shared_filter is not None:
            self._shared_filter = shared_filter(self._inner)

    def _pass_on(self, request: Request) -> bool:
        """Give a request to the inner scheduler, whose filter may drop it."""
        if not self._is_scrapys_own:
            pack(request)
        shared = self._shared_filter
        if is_held := shared is not None and shared.is_held(request):
            shared.log(request, self._spider)
        if is_held or not self._inner.enqueue_request(request):
            return False
        if KEY in request.meta:
            self._crawl.release(request)
        self._seeds.on_enqueued(request, self._downloads.slot_of(request))
        return True

    def _is_filtered(self, request: Request, is_other: bool = False) -> bool:
        """Whether a seed is a duplicate for the project's filter, or another URL of a page asked for."""
        seen = self._shared_filter or filter_of(self._inner)
        if seen is None or request.dont_filter or not (seen.request_seen(request) or is_other):
            return False
        seen.log(request, self._spider)
        return True

    def _next(self) -> Request | None:
        if self._may_have_to_wait and (request := self._next_that_waited()) is not None:
            return request
        while (best := self._seeds.best(self._slots_that_wait())) is not None:
            follow_ups_first = self._seeds.is_for_follow_ups(*best)
            if follow_ups_first and (request := self._next_of_inner()) is not None:
                return request
            slot = best[0]
            if self._is_scrapys_own:
                request = self._take_seed(slot)
            elif self._hand_over(slot):
                request = self._next_of_inner()
            else:
                continue
            if request is not None or slot not in self._slots_that_wait():
                return request
        return self._next_of_inner()

    def _slots_that_wait(self) -> Collection[str]:
        return self._waiting.slots if self._may_have_to_wait else ()

    def _has_to_wait(self, request: Request, slot: str) -> bool:
        return self._may_have_to_wait and not self._waiting.may_send(request, slot)

    def _take_seed(self, slot: str) -> Request | None:
        """Return the best seed of a slot, past Scrapy's scheduler; None if it has to wait."""
        seed = self._seeds.take(slot)
        self._ranker.on_room()
        self._dequeued += 1
        if self._has_to_wait(seed, slot):
            self._waiting.keep(seed, slot)
            return None
        return seed

    def _hand_over(self, slot: str) -> bool:
        """Give the inner scheduler the best seed of a slot; False if another crawl's came before it."""
        seed = self._seeds.take(slot)
        try:
            is_taken = self._give(seed)
        except Exception:  # such as an error of a server that is away for a while
            self._seeds.add_one(seed, -inf)
            raise
        self._ranker.on_room()
        self._enqueued -= 1  # the inner scheduler counts it
        if is_taken:
            self._seeds.on_enqueued(seed, slot)
        else:
            self._ranker.drop([seed], "seen")
        return is_taken

    def _give(self, request: Request) -> bool:
        """Give the inner scheduler a request that was held here; return whether it was taken."""
        if self._shared_filter is None:
            return enqueue_unfiltered(self._inner, pack(request))
        return self._shared_filter.give(self._inner, pack(request))

    def _next_of_inner(self) -> Request | None:
        """Return the inner scheduler's next request that may be sent now.

        If the request's host has a seed of higher priority, the request goes back and the seed is sent.
        """
        while (request := self._inner.next_request()) is not None:
            slot = self._downloads.slot_of(request)
            self._seeds.on_dequeued(request, slot)
            if self._crawl.is_open and self._is_held_again(request):
                continue
            if self._has_to_wait(request, slot):
                if self._goes_back(request, slot):
                    return None
                self._waiting.keep(request, slot)
                continue
            if self._seeds.is_before(request, slot) and enqueue_unfiltered(
                self._inner, pack(request)
            ):
                self._seeds.on_enqueued(request, slot)
                if self._is_scrapys_own:
                    return self._take_seed(slot)
                self._hand_over(slot)
                continue
            self._seeds.on_sent(request, slot)
            return request
        return None

    def _goes_back(self, request: Request, slot: str) -> bool:
        """Put a request that has to wait back into another scheduler's queue, if enough wait here.

        It gets less priority, as Scrapy's retries do, so that requests for other hosts precede it.
        """
        if type(self._inner) is Scheduler or len(self._waiting) < MOST_PAUSED:
            return False
        later = request.replace(priority=request.priority - 1)
        if not enqueue_unfiltered(self._inner, pack(later)):
            return False
        self._seeds.on_enqueued(later, slot)
        call_later(LEAST_SECONDS, lambda: wake(self._crawler))
        return True

    def _is_held_again(self, request: Request) -> bool:
        """Hold a seed that the paused job did not send; returns whether it is one."""
        if not tag_of(request).seed or (page_id := seed_key(request)) is None:
            return False
        if self._shared_filter is None or self._shared_filter.hold_again(request):
            self._enqueued += 1
            self._ranker.seeds.add(request, page_id)
        return True

    def _next_that_waited(self) -> Request | None:
        """Return a request that had to wait, and may be sent now."""
        if not len(self._waiting):
            return None
        self._seeds.update()
        waited = self._waiting.take(self._seeds.is_free)
        if waited is None:
            return None
        self._seeds.on_sent(*waited)
        return waited[0]

    async def _open_and_wake(self) -> None:
        await self._crawl.open()
        wake(self._crawler)

    def _count_seeds(self) -> None:
        """Count seeds as Scrapy's scheduler counts requests, many calls in one step."""
        stats = self._crawler.stats
        for name, number in (("enqueued", self._enqueued), ("dequeued", self._dequeued)):
            if number and stats is not None:
                stats.inc_value(f"scheduler/{name}", number)
                stats.inc_value(f"scheduler/{name}/memory", number)
        self._enqueued = self._dequeued = 0
