"""The scheduler: holds start requests, ranks them, and sends the best whose host is free."""

from collections.abc import Collection
from itertools import count
from math import inf
from typing import Any, Final, Self

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

# How often to check whether callbacks have ended: Scrapy sends no signal if they yield nothing.
PARSING_SECONDS: Final = 0.05

# How many requests from an external queue may wait here for their hosts: a kill would lose them.
MOST_PAUSED: Final = 16


class HacsScheduler(BaseScheduler):
    """Ranks start requests; passes everything else to the inner scheduler.

    A start request passes the project's duplicate filter on arrival, as in any scheduler, and is
    held until it is ranked and sent; scrapy-redis's filter notes it only then (`SharedFilter`).
    Follow-up requests precede start requests of the same priority; hosts with a free slot come
    first. No method blocks.
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
        self._ranker = Ranker(
            crawl, self._seeds, self._is_quiet, self._is_filtered, self._forget_seen
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
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
        """Close the inner scheduler; if it outlasts the crawl, it gets the unsent seeds."""
        unsent, waiting = [*self._seeds.all()], self._waiting.take_all()
        if keeps_requests(self._inner, self._crawler):
            unsent += self._ranker.take_all()
            self._enqueued -= len(unsent)  # the inner scheduler counts them again
            for request in (*map(mark_unranked, unsent), *waiting):
                self._give(request)
        else:
            self._ranker.drop_all()
            unsent += self._ranker.seeds.all()
        waiting = [request for request in waiting if page_url(request) is not None]
        self._crawl.stats.unsent = len(unsent) + len(waiting)
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
        """Hold a start request to be ranked; pass anything else to the inner scheduler.

        A seed of a plan is ranked already, and joins the queue in the order of arrival.
        """
        if self._is_closed:  # Scrapy may still ask start() for more
            return False
        tag = renew(request)
        if tag.stage == "planned":
            # another page may have linked to it; hubs, which lack a prediction, may be visited often
            is_seen = tag.prediction is not None and self._is_filtered(request)
            if not is_seen:
                self._seeds.add_one(request, next(self._planned))
            return not is_seen
        if self._page_filter.is_needed or tag is not UNTAGGED:
            self._page_filter.mark(request)
            tag = tag_of(request)
        is_again = tag.stage == "again"
        if self._crawl.parts.override("takes") and not is_again:
            # None if the request is not for a page, or was sent before
            url = None if was_sent(request) else page_url(request)
            if url is not None and not self._crawl.parts.takes(url, request):
                return False
        page_id = self._page_to_rank(request, tag)
        # "again": for example a spider's own retry, whose page was ranked before
        if page_id is None or is_again:
            return self._pass_on(request)
        seeds = self._ranker.seeds
        is_asked = page_id in self._ranker.asked or page_id in seeds.added
        # with a budget or threshold, another spelling of a requested page's URL is a duplicate
        is_other = is_asked and not (tag.seed or is_start(request) or "hacs_page" in request.meta)
        if not seeds.passes_filter(request, page_id) and self._is_filtered(request, is_other):
            return False
        self._enqueued += 1
        seeds.add(request, page_id)
        if not tag.added and self._crawl.config.ranking.leaves_out:
            self._ranker.asked.add(page_id)
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
        if not self._ranker.watch.is_starving:  # else it is waiting already
            self._count_seeds()
            self._rank_soon()
        return None

    def __getattr__(self, name: str) -> Any:
        """Give the project's code the attributes of its own scheduler, such as `df`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __len__(self) -> int:
        """Return the number of waiting requests; TypeError if the inner scheduler lacks a length."""
        own = len(self._waiting) + len(self._seeds) + len(self._ranker.seeds)
        return own + len(self._inner)  # type: ignore[arg-type]

    def _page_to_rank(self, request: Request, tag: Tag) -> int | None:
        """Return the id of a request's page if it is to be ranked, else None.

        Start requests are always ranked, requests of callbacks only with a budget or a threshold.
        """
        if not self._crawl.is_open:
            return None
        if tag.seed or not self._ranker.watch.is_over:
            page_id = seed_key(request, tag)
            if tag.seed or page_id is not None:
                return page_id
        return followed_key(request) if self._crawl.config.ranking.leaves_out else None

    def _rank_soon(self) -> None:
        """Rank the held seeds soon: there is nothing else to send."""
        ranker = self._ranker
        if ranker.is_ranking:
            return
        if not ranker.watch.is_over:
            if ranker.has_work:
                ranker.watch.begin_starving()
            return
        # the pages of all lists compete for the budget
        is_reading = (
            self._page_filter.reads_lists
            and self._crawl.config.ranking.budget is not None
            and (
                any(tag_of(request).page is None for request in self._downloads.active)
                or is_parsing(self._crawler)
            )
        )
        if is_reading and ranker.wants_ranking:
            ranker.on_pause(is_last=False)
        elif not is_reading and (len(ranker.seeds) or (ranker.seeds.is_kept and self._is_quiet())):
            ranker.on_pause()
        elif (is_reading or ranker.seeds.is_kept) and not self._downloads.active:
            call_later(PARSING_SECONDS, lambda: wake(self._crawler))

    def _is_quiet(self) -> bool:
        """Whether no request waits, and none is in progress or in a callback."""
        waits = len(self._seeds) or self._waiting or self._inner.has_pending_requests()
        return not (waits or self._downloads.active or is_parsing(self._crawler))

    def _forget_seen(self) -> None:
        """Let pages be visited again in a new round."""
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
        if shared is None and self._ranker.has_left_out(request):
            is_taken = enqueue_unfiltered(self._inner, request)
        else:
            is_taken = not is_held and self._inner.enqueue_request(request)
        if not is_taken:
            return False
        if KEY in request.meta:
            self._crawl.release(request)
        self._seeds.on_enqueued(request, self._downloads.slot_of(request))
        return True

    def _is_filtered(self, request: Request, is_other: bool = False) -> bool:
        """Whether a seed is a duplicate; `is_other` says that its page was requested by another URL."""
        seen = self._shared_filter or filter_of(self._inner)
        if seen is None or request.dont_filter or not (seen.request_seen(request) or is_other):
            return False
        seen.log(request, self._spider)
        return True

    def _next(self) -> Request | None:
        if self._may_have_to_wait and (request := self._next_waiting()) is not None:
            return request
        while (best := self._seeds.best(self._waiting_slots())) is not None:
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
            if request is not None or slot not in self._waiting_slots():
                return request
        return self._next_of_inner()

    def _waiting_slots(self) -> Collection[str]:
        return self._waiting.slots if self._may_have_to_wait else ()

    def _has_to_wait(self, request: Request, slot: str) -> bool:
        return self._may_have_to_wait and not self._waiting.may_send(request, slot)

    def _take_seed(self, slot: str) -> Request | None:
        """Return the best seed of a slot, bypassing Scrapy's scheduler; None if it has to wait."""
        seed = self._seeds.take(slot)
        self._ranker.on_room()
        self._dequeued += 1
        if self._has_to_wait(seed, slot):
            self._waiting.keep(seed, slot)
            return None
        return seed

    def _hand_over(self, slot: str) -> bool:
        """Give the inner scheduler the best seed of a slot; False if its filter rejects the seed."""
        seed = self._seeds.take(slot)
        try:
            is_taken = self._give(seed)
        except Exception:  # for example, Redis may be unreachable for a while
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
        """Give the inner scheduler a held request; return whether it was accepted."""
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
            if self._crawl.is_open and self._hold_again(request):
                continue
            if self._has_to_wait(request, slot):
                if self._give_back(request, slot):
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

    def _give_back(self, request: Request, slot: str) -> bool:
        """Return a waiting request to an external queue if too many wait here.

        It gets a lower priority, as Scrapy's retries do, so that requests for other hosts precede it.
        """
        if type(self._inner) is Scheduler or len(self._waiting) < MOST_PAUSED:
            return False
        later = request.replace(priority=request.priority - 1)
        if not enqueue_unfiltered(self._inner, pack(later)):
            return False
        self._seeds.on_enqueued(later, slot)
        call_later(LEAST_SECONDS, lambda: wake(self._crawler))
        return True

    def _hold_again(self, request: Request) -> bool:
        """Hold a request again if it is a seed that a paused job did not send; return whether it is."""
        if not tag_of(request).seed or (page_id := seed_key(request)) is None:
            return False
        if self._shared_filter is None or self._shared_filter.hold_again(request):
            self._enqueued += 1
            self._ranker.seeds.add(request, page_id)
        return True

    def _next_waiting(self) -> Request | None:
        """Return a request that had to wait and may be sent now."""
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
        """Add the numbers of seeds to the stats of Scrapy's scheduler."""
        stats = self._crawler.stats
        for name, number in (("enqueued", self._enqueued), ("dequeued", self._dequeued)):
            if number and stats is not None:
                stats.inc_value(f"scheduler/{name}", number)
                stats.inc_value(f"scheduler/{name}/memory", number)
        self._enqueued = self._dequeued = 0
