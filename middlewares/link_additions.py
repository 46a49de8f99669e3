"""Spider middleware: observes which links pages gained, and records the visits."""

import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from copy import copy
from datetime import UTC, datetime
from typing import Any, Final, Self

from msgspec.structs import replace
from pydispatch.dispatcher import getReceivers
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import (
    KEY,
    Tag,
    is_start,
    mark_added,
    mark_answered,
    page_id_or_none,
    page_url,
    tag_of,
    take_over,
    tell,
)
from hacs_crawler.crawl.observation import OTHER_TYPE, Observation, observe, seen_or_failed, type_of
from hacs_crawler.crawl.outputs import MOST_WITHOUT_ITEMS, AwaitedVisit, Output, Verdict
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.crawl.ranker import Ranker, reading_a_list
from hacs_crawler.crawl.scrapy_internals import is_for_sitemap
from hacs_crawler.crawl.state_access.write_behind import OpenState
from hacs_crawler.links import menu_id, page_id_of
from hacs_crawler.model import CHURNING, chance_of_update, elapsed_days
from hacs_crawler.outcome import Expected, NotObserved, Outcome
from hacs_crawler.signals import page_visited
from hacs_crawler.state import News, Page, Recorded, Visit, is_of_items
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch import ONLY_REQUESTS, MarkRules, Rules

logger = safe_logger(__name__)

_NOTHING: Final = Observation(None)
_ONE_PAGE: Final = (
    "Requests with different URLs or bodies are for one page, %s, and will seem to update it: each "
    'thing to watch needs its own meta["hacs_page"] (a fragment makes no difference)'
)


class LinkAdditionsMiddleware:
    """Records a visit for each response of a page, once its callback is over.

    `observe` decides whether it is a visit. The outcome is put into `response.meta["hacs"]` before the
    callback, unless items are watched: then it follows from the callback's output.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._awaited: dict[Response, AwaitedVisit] = {}
        # By page, if POST or hacs_page: the first URL and body of this round, and a hash of its marks.
        self._asked: dict[int, tuple[str, bytes, int]] = {}
        self._warnings = set[str]()
        # Called with each item, and the verdict on it (None: it is outside pages), if a pipeline asks.
        self.on_item: Callable[[Any, Verdict | None], None] | None = None
        self._crawl.before_end(self._end_all)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
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
        # read by Scrapy's own `start()`, its start requests are its `start_urls`
        kind, names = type(self._crawler.spider), ("start", "start_requests")
        ranker.seeds.ends_surely |= all(
            getattr(kind, name, None) is getattr(Spider, name, None) for name in names
        )
        try:
            is_added_to = crawl.is_open and crawl.parts.override("start_requests")
            entries = self._with_added(start) if is_added_to else start
            async for entry in ranker.watch.entries(entries):
                if crawl.failure is not None:
                    return
                if isinstance(entry, Request):
                    if KEY in entry.meta:
                        take_over(entry)
                elif self.on_item is not None:
                    self.on_item(entry, None)
                yield entry
                if ranker.wants_ranking:
                    await ranker.rank_ahead()
        except Exception:
            await ranker.send_what_can_be_sent()
            raise

    async def _with_added(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the requests of parts that begin the crawl, and the spider's output."""
        with reading_a_list(self._crawler, ranked_whole=False):
            async for request in self._crawl.parts.start_requests():
                yield mark_added(request)
        async for entry in start:
            yield entry

    def process_spider_input(self, response: Response, spider: Spider | None = None) -> None:
        """Observe the response, if it is a page's."""
        request = response.request
        if request is None or not self._crawl.is_open:
            self._crawl.stats.unrecorded += request is not None and page_url(request) is not None
            return
        stats, answers = self._crawl.stats, self._crawl.config.rules.answers
        may_show = not answers or type_of(response) in answers
        stats.readable_answers += may_show
        tag = tag_of(request)
        url = page_url(request, tag)
        mark_answered(request, tag)
        if url is not None:
            self._observe(request, response, url, tag)
        elif (
            (said := request.meta.get("hacs")) is not False
            and (named := request.meta.get("hacs_page")) is not None
            and page_id_or_none(str(named)) is None
        ):
            self._warn("hacs_page = %r is not a URL", named)
        elif said is not False and request.method != "GET" and is_start(request):
            posted = f"{response.url} was requested by {request.method}"
            why = "only pages requested by GET are ranked and recorded"
            stats.posted = stats.posted or f"{posted}, and {why}"
        elif not is_for_sitemap(request, self._crawler.spider):
            stats.not_a_page = stats.not_a_page or response.url
            if not may_show:
                stats.unread_answers[type_of(response)] += 1

    def process_spider_output(
        self, response: Response, result: Iterable[Any], spider: Spider | None = None
    ) -> Iterator[Any]:
        """Let requests that follow from a page inherit its tag; see `Output`."""
        with self._output(response) as output:
            for entry in result:
                yield output.take(entry)

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any], spider: Spider | None = None
    ) -> AsyncIterator[Any]:
        """Do the same for callbacks that are asynchronous generators."""
        with self._output(response) as output:
            async for entry in result:
                yield output.take(entry)

    def _output(self, response: Response) -> Output:
        return Output(response, self._crawl, self._awaited.get(response), self.on_item, self._end)

    def process_spider_exception(
        self, response: Response, exception: Exception, spider: Spider | None = None
    ) -> None:
        """End the visit of a page whose callback failed before it yielded anything."""
        self._end(response, False)

    def _observe(self, request: Request, response: Response, url: str, tag: Tag) -> None:
        """Observe a page's marks, and report the outcome; it is recorded after the callback."""
        crawl, state = self._crawl, self._crawl.state
        at = int(crawl.clock())
        crawl.stats.answers += 1
        before = state.write_behind.page(url)
        rules = crawl.rules(response, before)
        if not crawl.is_open:
            return
        expected = request.meta.get("hacs")
        if isinstance(expected, Expected) and expected.rejected:
            self._conclude(AwaitedVisit(request, response, url, rules, _NOTHING, reported=expected))
            return
        observation = observe(response, url, at, rules, tag.prediction, tag.unseen, page=before)
        visit, reason = observation
        if reason == OTHER_TYPE:
            crawl.stats.other_answers[type_of(response)] += 1
            # a feed or an image is not a page
            if before is None or not before.visits:
                visit, observation = None, Observation(None, reason)
        awaited = AwaitedVisit(request, response, url, rules, observation)
        self._awaited[response] = awaited
        state.read_ahead.on_answer(url)
        items = rules if isinstance(rules, MarkRules) and rules.takes_items else None
        if visit is not None and visit.marks is not None and items is not None:
            awaited.takes_items = True
            awaited.rules = items.of_page(url, request.url, response.url)
            page = copy(before) if before is not None else Page(url)
            # the page's own are those of its last visit
            page.count(state.estimation.updates)
            awaited.verdict_on = self._verdict(page, rules, at)
            awaited.shown = self._shown
            awaited.reported = _expected(page, visit, state, is_known=before is not None)
        elif visit is None or reason:
            awaited.reported = NotObserved(request.url, reason)
            # a spider that handles an error's status may say so in an item
            if reason not in {"gone", "status"} and before is not None and before.visits:
                awaited.verdict_on = lambda *_: "unread"
        else:
            awaited.recorded = state.write_behind.judge(visit)
            awaited.reported = self._outcome_of(request, rules, awaited.recorded)
        tell(request, awaited.reported)

    def _verdict(
        self, page: Page, rules: Rules, at: int
    ) -> Callable[[Any, frozenset[int]], Verdict]:
        """Return what says of an item and its marks whether they are news, as HACS_UPDATES says."""
        sound, is_by_site = page.sound, self._crawl.state.estimation.updates == "site"
        passed = page.known_marks(rules.fingerprint, at)
        known = passed if sound is page else sound.known_marks(rules.fingerprint, at)
        is_elsewhere = self._crawl.state.read_ahead.elsewhere(page.url)
        had_one = page.visits and len(sound.spells.shown_last()) == 1

        def verdict_on(item: Any, mine: frozenset[int]) -> Verdict:
            if page.visits and (
                not mine or (had_one and self._crawl.parts.doubts(page, item, mine))
            ):
                return "unread"
            if not mine.isdisjoint(known) or (mine and all(map(is_elsewhere, mine))):
                return "known"
            is_shown_now = is_by_site and mine and self._is_shown_now(page.url, mine)
            return "passed" if is_shown_now or not mine.isdisjoint(passed) else "news"

        return verdict_on

    def _is_shown_now(self, url: str, marks: frozenset[int]) -> bool:
        """Whether another page of the site shows marks in a callback that runs: it claims them later."""
        return any(
            marks <= other.marks and menu_id(other.url) == menu_id(url)
            for other in self._awaited.values()
            if other.url != url and not other.rejected
        )

    def _shown(
        self, response: Response, item: Any, marks: frozenset[int], verdict: Verdict
    ) -> None:
        if self.on_item is not None:
            self.on_item(item, verdict)
        may_be_news = verdict in {"news", "passed"}
        self._crawl.parts.tell(Part.shown, response, item, marks, may_be_news=may_be_news)

    def _end(self, response: Response, is_whole: bool) -> None:
        """Record the visit of a page whose callback has ended."""
        awaited = self._awaited.pop(response, None)
        if awaited is None or not self._crawl.is_open:
            self._crawl.stats.unrecorded += awaited is not None
            return
        self._crawl.state.read_ahead.on_answer(awaited.url, -1)
        self._conclude(awaited, is_whole=is_whole)

    def _end_all(self) -> None:
        """Record the remaining visits at the end: of pages whose callback's output nobody read."""
        for response in list(self._awaited):
            self._end(response, False)
        self._asked.clear()

    def _compare(self, request: Request, visit: Visit) -> None:
        """Warn if requests for different things share a page."""
        if visit.marks is not None and (request.body or "hacs_page" in request.meta):
            asked = request.url, request.body, hash(visit.marks)
            url, body, shown = self._asked.setdefault(page_id_of(visit.url), asked)
            # a page may have many URLs
            if body != request.body or (url != request.url and shown != asked[2]):
                self._warn(_ONE_PAGE, visit.url)

    def _warn(self, message: str, page: object) -> None:
        """Warn of the first page with a problem, once in a run."""
        if message not in self._warnings:
            self._warnings.add(message)
            logger.warning(message, page)

    def _conclude(self, awaited: AwaitedVisit, *, is_whole: bool = True) -> None:
        """Record an observation, and report its outcome."""
        crawl, request, url = self._crawl, awaited.request, awaited.url
        state = crawl.state
        page = state.write_behind.page(url) if awaited.takes_items else None
        had_items = (
            page is not None
            and is_of_items(page.latest_rules)
            and page.latest_rules != ONLY_REQUESTS.fingerprint
            and page.failures < MOST_WITHOUT_ITEMS
        )
        visit, reason = awaited.end(is_whole=is_whole, had_items=had_items)
        if visit is not None and visit.news is News.SEEN and awaited.takes_items:
            visit, reason = seen_or_failed(visit, page, awaited.rules)
        if visit is not None and awaited.only_requests and (visit.etag or visit.last_modified):
            # a 304 leaves a callback nothing to yield
            visit, awaited.recorded = replace(visit, etag="", last_modified=""), None
        if visit is None:
            has_budget = crawl.config.ranking.budget is not None
            if has_budget and reason not in {"asked_again", "cached"}:
                # otherwise the budget would be spent on the same pages for ever
                crawl.record_failure(url, tag_of(request).prediction)
            else:
                state.read_ahead.drop(url)
        else:
            self._compare(request, visit)
            items_before = (
                crawl.parts.items_before(url, awaited.response) if awaited.takes_items else None
            )
            recorded = state.write_behind.record(visit, awaited.recorded)
            if recorded.is_doubtful:
                reason = "doubtful"
            leads = awaited.only_requests, awaited.leads_to
            observed = Observed(request, awaited.response, recorded, reason, *leads)
            for also in crawl.parts.observed(observed):
                crawl.record_also(also, reason)
            if not reason:
                if recorded is not awaited.recorded:
                    awaited.reported = self._outcome_of(
                        request, awaited.rules, recorded, items_before
                    )
                    tell(request, awaited.reported)
                self._send(visit, recorded, awaited.reported)
                return
        if reason != "gone":
            cause = f"status {awaited.response.status}" * (reason == "status")
            crawl.stats.count_not_observed(reason, url, awaited.rejected, cause=cause)
        not_seen = NotObserved(request.url, reason)
        not_seen.rejected = awaited.rejected
        tell(request, not_seen)

    def _outcome_of(
        self,
        request: Request,
        rules: Rules,
        recorded: Recorded,
        items_before: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> Outcome | NotObserved:
        if recorded.is_doubtful:
            return NotObserved(request.url, "doubtful")
        page, visit = recorded.before, recorded.visit
        estimation = self._crawl.state.estimation
        return Outcome(
            url=visit.url,
            requested_url=request.url,
            visited_at=datetime.fromtimestamp(visit.at, UTC),
            is_known=recorded.is_known,
            is_first=not page.visits,
            is_update=recorded.is_update(estimation.updates) and recorded.is_known,
            new_marks=set(recorded.new_marks) if recorded.is_known else set(),
            new_to_site=set(recorded.new_to_site or ()) if estimation.updates == "site" else None,
            p=visit.prediction.p if visit.prediction else _p(page, visit.at),
            churn=page.churn,
            rate_before_per_day=page.rate if page.visits else estimation.prior.mean_rate,
            page=recorded.after,
            estimate=estimation.rate_per_day,
            rules=rules,
            lost_marks=recorded.lost,
            items_before=items_before,
        )

    def _send(self, visit: Visit, recorded: Recorded, outcome: object) -> None:
        """Send the signal of a visit that is recorded."""
        if isinstance(outcome, Outcome):
            outcome.is_recorded = True
        if recorded.before.churn >= CHURNING and not recorded.has_other_rules:
            is_update = recorded.is_update(self._crawl.config.estimation.updates)
            self._crawl.stats.count_churning(visit.url, is_update=is_update)
        # to send it to nobody takes 20 times as long
        if getReceivers(self._crawler, page_visited):
            signals = self._crawler.signals
            signals.send_catch_log(page_visited, page=visit.url, outcome=outcome)


def _expected(before: Page, visit: Visit, state: OpenState, *, is_known: bool) -> Expected:
    page, estimation = before.sound, state.estimation
    last_update = page.last_update
    if visit.prediction is not None:
        expected = Expected(visit.prediction._asdict())
    else:
        expected = Expected(
            p=_p(page, visit.at),
            rate_per_day=page.rate if page.visits else estimation.prior.mean_rate,
            days_since_visit=(visit.at - page.last_visit) / DAY if page.last_visit else math.inf,
            churn=page.churn,
        )
    expected.update(
        is_known=is_known or state.read_ahead.has_read(page_id_of(page.url)),
        is_first=not page.visits,
        last_update=last_update and datetime.fromtimestamp(last_update, UTC),
    )
    return expected


def _p(page: Page, at: int) -> float:
    elapsed = elapsed_days(at / DAY, (page.last_visit or math.nan) / DAY)
    return float(chance_of_update(page.share, page.fast, page.slow, elapsed))
