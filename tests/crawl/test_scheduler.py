"""What the scheduler decides between follow-ups and ranked seeds."""

import gc
import weakref
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest
import scrapy
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from scrapy import Request
from scrapy.core.scheduler import Scheduler

from crawl_support import PREDICTION, UnderWay, new_crawler
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import (
    claim,
    mark_answered,
    mark_unranked,
    page_url,
    planned_meta,
    tag_of,
)
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.scheduler import MOST_PAUSED, HacsScheduler

QUEUES = ("scrapy.pqueues.DownloaderAwarePriorityQueue", "scrapy.pqueues.ScrapyPriorityQueue")


class LeaveAlone(Part):
    """Says of hosts that they are to be left alone."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()

    @classmethod
    def from_crawl(cls, crawl: object) -> Self:
        return cls()

    def admit(self, request: Request) -> float:
        return 60.0 if request.url.split("/")[2] in self.hosts else 0.0

    def takes(self, page_url: str, request: Request | None) -> bool:
        return not page_url.startswith("http://elsewhere/")


class Full(Scheduler):
    """Another scheduler, which takes a request back once."""

    def enqueue_request(self, request: Request) -> bool:
        return request.priority >= -1 and super().enqueue_request(request)


class World:
    """A scheduler around Scrapy's own, before Scrapy's own downloader."""

    def __init__(self, queue: str = QUEUES[0], **more: object) -> None:
        parts = {"HACS_PARTS": {LeaveAlone: 1}}
        self.crawler = new_crawler(SCHEDULER_PRIORITY_QUEUE=queue, **parts, **more)
        self.under_way = UnderWay(self.crawler)
        self.leave_alone = Crawl.of(self.crawler).parts.of(LeaveAlone).hosts
        self.scheduler = HacsScheduler.from_crawler(self.crawler)
        self.scheduler.open(self.crawler.spider)

    def add_seed(self, path: str, priority: int = 0) -> None:
        """Add a seed that was ranked; each comes after the ones before it."""
        url = f"http://{path}"
        meta = planned_meta(url, PREDICTION)
        assert self.scheduler.enqueue_request(Request(url, priority=priority, meta=meta))

    def add_follow_up(self, path: str, priority: int = 0, **more: Any) -> None:
        assert self.scheduler.enqueue_request(Request(f"http://{path}", priority=priority, **more))

    def send(self) -> str | None:
        """Send the next request; return host and path."""
        request = self.scheduler.next_request()
        if request is None:
            return None
        self.under_way.begin(request)
        return request.url.removeprefix("http://")

    def send_all(self) -> list[str]:
        return list(iter(self.send, None))


# Scrapy 2.13 opens the files of start requests twice
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("queue", ["PickleFifoDiskQueue", "MarshalFifoDiskQueue"])
def test_queues_on_disk_keep_what_is_known_of_a_request(
    queue: str, tmp_path: Path, asyncio_reactor: None
) -> None:
    queues = {"SCHEDULER_DISK_QUEUE": f"scrapy.squeues.{queue}", "JOBDIR": str(tmp_path)}
    world = World(**queues)
    world.add_seed("a/seed")
    seed = world.scheduler.next_request()
    assert tag_of(seed).prediction == PREDICTION
    world.add_seed("a/left")
    world.add_follow_up("b/link")
    world.scheduler.close("shutdown")
    assert world.crawler.hacs_crawl.stats.unsent == 1
    assert world.crawler.stats.get_value("scheduler/enqueued/disk") == 3

    resumed = World(**queues)
    Crawl.of(resumed.crawler).is_open = True
    assert resumed.send() == "b/link"
    (left,) = resumed.scheduler._ranker.seeds.all()
    resumed.scheduler.close("finished")
    crawl, stats = resumed.crawler.hacs_crawl, resumed.crawler.stats
    assert crawl.stats.unsent == stats.get_value("scheduler/enqueued") == 1
    assert tag_of(left).seed
    assert page_url(left) == "http://a/left"


def test_a_seed_that_the_inner_scheduler_fails_to_take_is_given_to_it_again(
    tmp_path: Path, asyncio_reactor: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: Request) -> bool:
        raise ConnectionError

    world = World(JOBDIR=str(tmp_path))
    for path in ("a/1", "a/2"):
        world.add_seed(path)
    with monkeypatch.context() as away:
        away.setattr(world.scheduler._inner, "enqueue_request", fail)
        for _ in range(2):
            with pytest.raises(ConnectionError):
                world.send()
    assert world.send_all() == ["a/1", "a/2"]
    world.scheduler.close("finished")


def test_what_start_yields_when_the_queues_are_closed_is_dropped(
    tmp_path: Path, asyncio_reactor: None
) -> None:
    scheduler = World(JOBDIR=str(tmp_path)).scheduler
    scheduler.close("shutdown")
    assert not scheduler.enqueue_request(Request("http://a/late"))


@pytest.mark.parametrize("is_open", [False, True])
def test_a_seed_in_another_schedulers_queue_is_held_to_be_ranked_once_the_state_is_open(
    is_open: bool, asyncio_reactor: None
) -> None:
    world = World(HACS_INNER_SCHEDULER=Full)
    world.scheduler._inner.enqueue_request(mark_unranked(Request("http://a/1")))
    Crawl.of(world.crawler).is_open = is_open
    assert world.send() == (None if is_open else "a/1")
    assert len(world.scheduler._ranker.seeds) == is_open


@pytest.mark.parametrize("inner", [Full, Scheduler])
def test_of_many_that_wait_some_go_back_to_another_scheduler_if_it_takes_them(
    inner: type[Scheduler], asyncio_reactor: None
) -> None:
    world = World(HACS_INNER_SCHEDULER=inner)
    world.leave_alone.add("a")
    for number in range(MOST_PAUSED + 2):
        world.add_follow_up(f"a/{number}")
    for paused in (MOST_PAUSED, MOST_PAUSED, MOST_PAUSED + 2):
        assert world.send() is None
        assert len(world.scheduler._waiting) == (paused if inner is Full else MOST_PAUSED + 2)
        assert len(world.scheduler) == MOST_PAUSED + 2


def test_a_page_of_anothers_is_left_alone_unless_the_spider_asks_for_it_again(
    asyncio_reactor: None,
) -> None:
    world = World()
    page = Request("http://elsewhere/page", meta={"hacs": True})
    assert not world.scheduler.enqueue_request(page)
    claim(page, page.url)
    mark_answered(page)
    world.add_follow_up("elsewhere/page", meta=page.meta)
    assert world.send() == "elsewhere/page"


@pytest.mark.skipif(scrapy.version_info < (2, 14), reason="its log counter keeps the crawler")
def test_a_crawl_that_ends_while_seeds_wait_is_freed(asyncio_reactor: None) -> None:
    world = World()
    seed = Request("http://a/seed", world.crawler.spider.parse, meta=planned_meta("http://a/seed"))
    world.scheduler.enqueue_request(seed)
    world.scheduler.close("closespider_pagecount")
    scheduler = weakref.ref(world.scheduler)
    del world, seed
    gc.collect()
    assert scheduler() is None


@pytest.fixture(params=QUEUES)
def world(request: pytest.FixtureRequest, asyncio_reactor: None) -> World:
    return World(request.param)


def test_a_seed_of_a_free_host_goes_before_follow_ups_of_busy_ones(world: World) -> None:
    world.add_follow_up("a/1")
    assert world.send() == "a/1"
    world.add_follow_up("a/2")
    world.add_seed("b/seed")
    assert world.send_all() == ["b/seed", "a/2"]


def test_requests_of_a_host_that_is_to_be_left_alone_wait_and_others_go_on(world: World) -> None:
    world.leave_alone.add("a")
    world.add_follow_up("a/page")
    world.add_seed("a/seed")
    world.add_seed("b/seed")
    assert world.send_all() == ["b/seed"]
    assert world.scheduler.has_pending_requests()


def test_what_is_asked_for_twice_is_sent_once_as_the_projects_filter_has_it(world: World) -> None:
    world.add_follow_up("a/page")
    assert not world.scheduler.enqueue_request(Request("http://a/page"))
    assert not world.scheduler._is_quiet()
    assert world.send_all() == ["a/page"]
    assert not world.scheduler._is_quiet()
    world.under_way.clear()
    assert world.scheduler._is_quiet()


@pytest.mark.parametrize("budget", [None, 5])
@pytest.mark.parametrize(
    ("meta", "is_one"),
    [({}, True), ({"hacs_page": "http://a/page"}, False), ({"hacs": False}, False)],
)
def test_of_several_urls_of_a_page_a_crawl_with_a_budget_asks_for_one(
    meta: dict[str, object], is_one: bool, budget: int | None, asyncio_reactor: None
) -> None:
    world = World(HACS_PAGES="all", HACS_BUDGET=budget)
    Crawl.of(world.crawler).is_open = True
    urls = "http://a/page", "http://a/page?utm_source=b", "http://a/page?utm_source=c"
    taken = [world.scheduler.enqueue_request(Request(url, meta=dict(meta))) for url in urls]
    assert taken == [True, *[not is_one or budget is None] * 2]
    assert world.scheduler.enqueue_request(Request(urls[0], dont_filter=True, meta=dict(meta)))


hosts, priorities = st.sampled_from(("a", "b", "c")), st.integers(-1, 2)


class Story(RuleBasedStateMachine):
    """A scheduler beside a plain list of what waits."""

    @initialize(queue=st.sampled_from(QUEUES))
    def begin(self, queue: str) -> None:
        self.world = World(queue, DUPEFILTER_CLASS="scrapy.dupefilters.BaseDupeFilter")
        self.numbers = count()
        self.waiting: dict[str, tuple[str, int, bool]] = {}
        """Host, priority, and whether it is a seed, by host and path in the order of arrival."""
        self.sent: list[Request] = []

    @rule(host=hosts, priority=priorities)
    def add_seed(self, host: str, priority: int) -> None:
        path = f"{host}/{next(self.numbers)}"
        self.world.add_seed(path, priority)
        self.waiting[path] = (host, priority, True)

    @rule(host=hosts, priority=priorities)
    def add_follow_up(self, host: str, priority: int) -> None:
        path = f"{host}/{next(self.numbers)}"
        self.world.add_follow_up(path, priority)
        self.waiting[path] = (host, priority, False)

    @rule()
    def send(self) -> None:
        request = self.world.scheduler.next_request()
        if request is None:
            assert not self.waiting
            return
        path = request.url.removeprefix("http://")
        host, priority, is_seed = self.waiting[path]
        here = {one: rest for one, rest in self.waiting.items() if rest[0] == host}
        assert priority == max(other for _, other, _ in here.values())
        equal = [one for one, (_, other, _) in here.items() if other == priority]
        if is_seed:
            assert equal[0] == path, "follow-ups go first, and seeds by their rank"
            assert all(self.waiting[one][2] for one in equal)
        del self.waiting[path]
        self.world.under_way.begin(request)
        self.sent.append(request)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        ended = data.draw(st.sampled_from(self.sent))
        self.sent.remove(ended)
        self.world.under_way.end(ended)

    @invariant()
    def says_whether_anything_waits(self) -> None:
        assert self.world.scheduler.has_pending_requests() == bool(self.waiting)

    def teardown(self) -> None:
        while self.waiting:
            self.send()
        assert self.world.scheduler.next_request() is None


def test_within_a_host_priority_decides_then_follow_ups_then_rank_and_nothing_is_lost() -> None:
    short = settings(max_examples=15, stateful_step_count=40, report_multiple_bugs=False)
    run_state_machine_as_test(Story, settings=short)
