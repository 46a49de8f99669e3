"""Spider middleware: observes which links pages gained, and records the visits."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from pydispatch.dispatcher import getReceivers
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import (
    KEY,
    Tag,
    mark_added,
    mark_answered,
    page_url,
    tag_of,
    take_over,
    tell,
)
from hacs_crawler.crawl.observation import Observation, is_suddenly_empty, observe
from hacs_crawler.crawl.outputs import AwaitedVisit, Output
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.crawl.ranker import Ranker, reading_a_list
from hacs_crawler.crawl.state_access.write_behind import OpenState
from hacs_crawler.links import page_id_of
from hacs_crawler.model import CHURNING, elapsed_days
from hacs_crawler.outcome import Expected, NotObserved, Outcome
from hacs_crawler.signals import page_visited
from hacs_crawler.state import Estimation, Page, Recorded, Visit
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch import MarkRules, Rules


class LinkAdditionsMiddleware:
    """Records a visit for each response of a page, before the callback runs.

    `observe` says what counts as a visit. The outcome is put into `response.meta["hacs"]`. Where items
    are watched, both happen once the callback has yielded all of them.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._awaited: dict[Response, AwaitedVisit] = {}
        self.are_news: dict[int, tuple[Any, bool]] | None = None
        """Where a pipeline asks for it, by the `id` of items: they, and whether they are news."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LinkAdditionsMiddleware:
        """Use the crawler's crawl."""
        return cls(crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Open the state before the first seed is read, and have seeds ranked as they come in."""
        crawl = self._crawl
        await crawl.open()
        ranker = Ranker.of(self._crawler)
        if ranker is None:  # a scheduler of the project's own
            async for entry in start:
                yield entry
            return
        if _is_list(self._crawler.spider):
            ranker.seeds.ends_surely = True
        try:
            is_added_to = crawl.is_open and crawl.parts.override("start_requests")
            entries = self._with_added(start) if is_added_to else start
            async for entry in ranker.watch.entries(entries):
                if crawl.failure is not None:
                    return
                if isinstance(entry, Request) and KEY in entry.meta:
                    take_over(entry)
                yield entry
                if ranker.wants_ranking:
                    await ranker.rank_ahead()
        except Exception:
            await ranker.send_what_can_be_sent()
            raise

    async def _with_added(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield what parts have the crawl begin with, and what the spider yields."""
        with reading_a_list(self._crawler, ranked_whole=False):
            async for request in self._crawl.parts.start_requests():
                yield mark_added(request)
        async for entry in start:
            yield entry

    def process_spider_input(self, response: Response, spider: Spider | None = None) -> None:
        """Observe the response, if it is a page's."""
        del spider
        request = response.request
        if request is None or not self._crawl.is_open:
            self._crawl.stats.unrecorded += request is not None and page_url(request) is not None
            return
        self._crawl.stats.html_answers += isinstance(response, HtmlResponse)
        tag = tag_of(request)
        url = page_url(request, tag)
        mark_answered(request, tag)
        if url is not None:
            self._observe(request, response, url, tag)

    def process_spider_output(
        self, response: Response, result: Iterable[Any], spider: Spider | None = None
    ) -> Iterator[Any]:
        """Let requests that follow from a page take over what is said of it; see `Output`."""
        del spider
        output = Output(response, self._crawl, self._awaited.get(response))
        try:
            for entry in result:
                yield output.take(entry)
        except BaseException:
            self._end(response, is_whole=False)
            raise
        output.end()
        self._end(response)

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any], spider: Spider | None = None
    ) -> AsyncIterator[Any]:
        """Do the same for callbacks that are asynchronous generators."""
        del spider
        output = Output(response, self._crawl, self._awaited.get(response))
        try:
            async for entry in result:
                yield output.take(entry)
        except BaseException:
            self._end(response, is_whole=False)
            raise
        output.end()
        self._end(response)

    def process_spider_exception(
        self, response: Response, exception: Exception, spider: Spider | None = None
    ) -> None:
        """Observe nothing of a page whose callback failed before it yielded anything."""
        del exception, spider
        self._end(response, is_whole=False)

    def _observe(self, request: Request, response: Response, url: str, tag: Tag) -> None:
        crawl = self._crawl
        at = int(crawl.clock())
        crawl.stats.answers += 1
        rules = crawl.rules(response)
        known = crawl.state.write_behind.page(url)
        if known is not None and crawl.parts.override("known"):
            crawl.parts.tell(Part.known, known)
            if not crawl.is_open:
                return
        visit, reason = observe(response, url, at, rules, tag.prediction, tag.unseen, known=known)
        if visit is not None and reason == "not_html" and not self._was_seen(url):
            visit = None  # a feed, an image: no page, and no attempt at one
        if (
            visit is not None
            and visit.marks is not None
            and isinstance(rules, MarkRules)
            and rules.takes_items
        ):
            updates = crawl.state.estimation.updates
            marks = () if known is None else known.known_marks(updates, rules.fingerprint)
            self._awaited[response] = AwaitedVisit(
                request, response, visit, rules, crawl.parts, marks, self.are_news
            )
            crawl.state.read_ahead.on_answer(url)
            tell(request, _expected(url, known, visit, crawl.state))
        else:
            self._conclude(request, response, url, rules, Observation(visit, reason))

    def _end(self, response: Response, *, is_whole: bool = True) -> None:
        """Record what a page showed whose callback has ended; one that was cut may have shown more."""
        awaited = self._awaited.pop(response, None)
        if awaited is None or not self._crawl.is_open:
            self._crawl.stats.unrecorded += awaited is not None
            return
        url = awaited.visit.url
        self._crawl.state.read_ahead.on_answer(url, -1)
        observation = awaited.observation() if is_whole else Observation(None, "callback_failed")
        self._conclude(awaited.request, response, url, awaited.rules, observation)

    def _conclude(
        self, request: Request, response: Response, url: str, rules: Rules, observation: Observation
    ) -> None:
        """Record what was found, and say what it brought."""
        crawl = self._crawl
        visit, reason = observation
        if (
            visit is not None
            and visit.keeps_spells
            and is_suddenly_empty(visit, crawl.state.write_behind.page(url))
        ):
            visit, reason = Observation(None, "nothing_shown")
        if visit is None:
            crawl.state.read_ahead.drop(url)
        else:
            recorded = crawl.state.write_behind.record(visit)
            for also in crawl.parts.observed(Observed(request, response, recorded, reason)):
                crawl.record_also(also, reason)
            if not reason:
                self._tell_outcome(request, rules, recorded)
                return
        if reason != "gone":
            crawl.stats.count_not_observed(reason)
        tell(request, NotObserved(request.url, reason))

    def _was_seen(self, url: str) -> bool:
        page = self._crawl.state.write_behind.page(url)
        return page is not None and bool(page.visits)

    def _tell_outcome(self, request: Request, rules: Rules, recorded: Recorded) -> None:
        crawl, page, visit = self._crawl, recorded.before, recorded.visit
        estimation = crawl.state.estimation
        p = visit.prediction.p if visit.prediction else _p(page, estimation, visit.at)
        if page.churn >= CHURNING:
            crawl.stats.count_churning(visit.url, is_update=recorded.updated)
        outcome = Outcome(
            url=visit.url,
            requested_url=request.url,
            visited_at=datetime.fromtimestamp(visit.at, UTC),
            is_known=recorded.is_known,
            is_first=not page.visits,
            is_update=recorded.updated and recorded.is_known,
            new_marks=set(recorded.new_marks) if recorded.is_known else set(),
            new_to_site=set(recorded.new_to_site or ()) if estimation.updates == "site" else None,
            p=p,
            churn=page.churn,
            rate_before_per_day=_rate(page, estimation),
            page=recorded.after,
            estimate=estimation.rate_per_day,
            rules=rules,
            lost_marks=recorded.lost,
        )
        tell(request, outcome)
        if getReceivers(self._crawler, page_visited):  # to send it to nobody takes 20 times as long
            signals = self._crawler.signals
            signals.send_catch_log(page_visited, page=visit.url, outcome=outcome)


def _is_list(spider: Spider | None) -> bool:
    """Whether a spider's start requests are its `start_urls`, read by Scrapy's own `start()`."""
    return all(
        getattr(type(spider), name, None) is getattr(Spider, name, None)
        for name in ("start", "start_requests")
    )


def _expected(url: str, known: Page | None, visit: Visit, state: OpenState) -> Expected:
    page, estimation = known or Page(url), state.estimation
    expected = Expected(
        p=_p(page, estimation, visit.at),
        rate_per_day=_rate(page, estimation),
        days_since_visit=(visit.at - page.last_visit) / DAY if page.last_visit else math.inf,
        churn=page.churn,
        is_known=known is not None or state.read_ahead.has_read(page_id_of(url)),
        is_first=not page.visits,
        last_update=page.last_update and datetime.fromtimestamp(page.last_update, UTC),
    )
    if visit.prediction is not None:
        expected.update(visit.prediction._asdict())
    return expected


def _rate(page: Page, estimation: Estimation) -> float:
    return page.rate if page.visits else estimation.prior.mean_rate


def _p(page: Page, estimation: Estimation, at: int) -> float:
    if page.last_visit is None:
        return 1.0
    elapsed = elapsed_days(at / DAY, page.last_visit / DAY)
    return float(estimation.kept_rates(page).probability(elapsed)[0])
