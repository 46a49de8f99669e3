"""The shared queue inside scrapy-redis's own scheduler, on a real Redis and a real cluster."""

from __future__ import annotations

import logging
import math
import pickle
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from hacs_crawler.exceptions import StateError
from hacs_crawler.fleet.board import partition_of
from hacs_crawler.fleet.partitions import Holdings
from hacs_crawler.fleet.queue import PartitionQueue
from servers import redis_server

pytestmark = [  # scrapy-redis 0.9.1 does both
    pytest.mark.filterwarnings(f"ignore:{text}:scrapy.exceptions.ScrapyDeprecationWarning")
    for text in ("Passing a 'spider' argument to StatsCollector", r"Spider\.log\(\)")
]
FLEET = {
    "SCHEDULER_QUEUE_CLASS": "hacs_crawler.fleet.queue.PartitionQueue",
    "SCHEDULER_SERIALIZER": "hacs_crawler.fleet.serializer",
    "SCHEDULER_PERSIST": True,
    "EXTENSIONS_BASE": {},
    "DUPEFILTER_CLASS": "hacs_crawler.fleet.dupefilter.SharedDupeFilter",
}


class Wanderer(Spider):
    name = "wanderer"

    def parse_page(self, response: Response) -> None: ...

    def failed(self, failure: object) -> None: ...


class One:
    """One crawl's scheduler. What it gives is under way until the test says that it has ended."""

    def __init__(self, settings: dict[str, Any], name: str) -> None:
        self.crawler: Crawler = get_crawler(Wanderer, {**FLEET, **settings})
        self.crawler.spider = self.spider = self.crawler._create_spider()
        self.spider.name = name
        self.under_way: set[Request] = set()
        scraper, downloader = SimpleNamespace(slot=None), SimpleNamespace(active=self.under_way)
        self.crawler.engine = SimpleNamespace(scraper=scraper, downloader=downloader)  # type: ignore[assignment]
        self.scheduler: Any = load_object("scrapy_redis.scheduler.Scheduler").from_crawler(
            self.crawler
        )
        self.scheduler.open(self.spider)
        self.holdings = Holdings.of(self.crawler)

    @property
    def queue(self) -> PartitionQueue:
        queue = self.scheduler.queue
        assert isinstance(queue, PartitionQueue)
        return queue

    def put(self, *requests: Request) -> None:
        for request in requests:
            self.scheduler.enqueue_request(request)

    def next(self) -> Request | None:
        self.queue._next_try = 0.0  # what was found empty just now may be so no more
        request = self.scheduler.next_request()
        assert request is None or isinstance(request, Request)
        if request is not None:
            self.under_way.add(request)
        return request

    def rest(self) -> list[str]:
        """The URLs of all that comes, each ended at once."""
        urls = []
        while (request := self.next()) is not None:
            urls.append(request.url)
            self.under_way.remove(request)
        return urls

    def end(self) -> None:
        self.scheduler.close("finished")
        self.crawler.signals.send_catch_log(
            signals.spider_closed, spider=self.spider, reason="finished"
        )
        self.scheduler.server.close()
        self.scheduler.df.server.close()


@pytest.fixture(params=["redis", "cluster"])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "redis":
        return {"REDIS_URL": f"redis://127.0.0.1:{request.getfixturevalue('redis_port')}/0"}
    return {
        "REDIS_URL": f"redis://127.0.0.1:{request.getfixturevalue('cluster_port')}",
        "REDIS_PARAMS": {"redis_cls": "redis.cluster.RedisCluster"},
    }


@pytest.fixture
def crawl(settings: dict[str, Any]) -> Iterator[Callable[..., One]]:
    """Opens crawls of one spider."""
    opened: list[One] = []
    name = uuid.uuid4().hex

    def open_one(**more: Any) -> One:
        opened.append(One({**settings, **more}, name))
        return opened[-1]

    yield open_one
    for one in opened:
        one.end()


def test_a_request_comes_as_it_was_put(crawl: Callable[..., One]) -> None:
    one = crawl()
    request = Request(
        "http://a.example/x?y=%20",
        method="POST",
        headers={"X-A": ["1", "2"], b"Accept": b"\xff"},
        body=b"\x00\xffbody",
        cookies=[{"name": "n", "value": "v", "domain": "a.example"}],
        meta={
            "hacs": {
                "p": 0.5,
                "days_since_visit": math.inf,
                "label": 7,
                "run": 1,
                "is_known": False,
            },
            "hacs_page": "http://a.example/x",
            "hacs_arm": "treated",
            "is_start_request": True,
            "depth": 3,
            "pair": (1, b"2"),
        },
        cb_kwargs={"place": 5, "seen": {"a"}},
        priority=7,
        dont_filter=True,
        flags=["f"],
        encoding="latin-1",
        callback=one.spider.parse_page,
        errback=one.spider.failed,
    )
    one.put(request)
    found = one.next()
    assert found is not None
    assert found is not request
    assert found.to_dict(spider=one.spider) == request.to_dict(spider=one.spider)
    assert found.callback == one.spider.parse_page
    assert type(found.meta["pair"]) is tuple


def test_a_forms_request_stays_one(crawl: Callable[..., One]) -> None:
    one = crawl()
    one.put(FormRequest("http://a.example/", formdata={"q": "ä"}))
    found = one.next()
    assert isinstance(found, FormRequest)
    assert (found.method, found.body) == ("POST", b"q=%C3%A4")


def test_what_one_crawl_puts_another_takes(crawl: Callable[..., One]) -> None:
    one, other = crawl(), crawl()
    one.put(Request("http://a.example/"))
    assert other.rest() == ["http://a.example/"]
    assert one.rest() == []


def test_one_request_goes_to_one_crawl(crawl: Callable[..., One]) -> None:
    crawls = [crawl(), crawl()]
    urls = [f"http://host{n}.example/" for n in range(100)]
    crawls[0].put(*map(Request, urls))
    found: list[str] = []
    while got := [request.url for one in crawls if (request := one.next()) is not None]:
        found += got
    assert sorted(found) == sorted(urls)


def test_a_crawl_takes_only_from_the_partitions_that_it_holds(crawl: Callable[..., One]) -> None:
    one, other = crawl(), crawl()
    urls = [f"http://host{n}.example/" for n in range(100)]
    one.put(*map(Request, urls))
    one.holdings.partitions = frozenset(range(100))
    other.holdings.partitions = frozenset(range(100, 256))
    mine, theirs = one.rest(), other.rest()
    assert sorted(mine + theirs) == sorted(urls)
    assert mine
    assert all(partition_of(url) < 100 for url in mine)
    assert all(partition_of(url) >= 100 for url in theirs)


def test_a_crawl_that_may_not_send_gets_nothing(crawl: Callable[..., One]) -> None:
    one = crawl()
    one.put(Request("http://a.example/"))
    one.holdings.may_send = lambda: False
    assert one.next() is None
    one.holdings.may_send = lambda: True
    assert one.next() is not None


def test_in_a_partition_priority_goes_first_then_arrival(crawl: Callable[..., One]) -> None:
    one = crawl()
    priorities = (0, 5, 0, -3, 10**12, -(10**12), 5)
    one.put(*(Request(f"http://a.example/{n}", priority=p) for n, p in enumerate(priorities)))
    assert [int(url[-1]) for url in one.rest()] == [4, 1, 6, 0, 2, 3, 5]


def test_equal_requests_that_may_repeat_all_come(crawl: Callable[..., One]) -> None:
    one = crawl()
    for _ in range(3):
        one.put(Request("http://a.example/", dont_filter=True))
    assert len(one.rest()) == 3


def test_duplicates_are_filtered_for_all_crawls(crawl: Callable[..., One]) -> None:
    one, other = crawl(), crawl()
    assert one.scheduler.enqueue_request(Request("http://a.example/"))
    assert not other.scheduler.enqueue_request(Request("http://a.example/"))


def test_no_host_waits_for_all_requests_of_another(crawl: Callable[..., One]) -> None:
    one = crawl()
    one.put(*(Request(f"http://a.example/{n}") for n in range(50)))
    one.put(Request("http://b.example/"))
    assert "http://b.example/" in [one.next().url for _ in range(2)]  # type: ignore[union-attr]


def test_what_waits_is_counted_in_the_partitions_held(crawl: Callable[..., One]) -> None:
    one = crawl()
    one.put(Request("http://a.example/1"), Request("http://b.example/1"))
    assert one.scheduler.has_pending_requests()
    one.holdings.partitions = frozenset({partition_of("http://a.example/")})
    assert len(one.queue) == 1
    one.holdings.partitions = frozenset()
    assert not one.scheduler.has_pending_requests()


def test_what_a_dead_crawl_had_comes_to_the_next_holder(crawl: Callable[..., One]) -> None:
    one, other = crawl(), crawl()
    other.holdings.partitions = frozenset()
    urls = [f"http://host{n}.example/" for n in range(5)]
    one.put(*map(Request, urls))
    held = [one.next() for _ in range(2)]  # and the rest in its memory
    assert all(held)
    assert other.rest() == []
    other.holdings.partitions = frozenset(range(256))
    assert sorted(other.rest()) == sorted(urls)


def test_what_has_ended_comes_to_nobody(crawl: Callable[..., One]) -> None:
    one, other = crawl(), crawl()
    other.holdings.partitions = frozenset()
    one.put(Request("http://a.example/"), Request("http://b.example/"))
    assert len(one.rest()) == 2
    other.holdings.partitions = frozenset(range(256))
    assert other.rest() == []


def test_what_has_ended_does_not_go_with_its_partition(crawl: Callable[..., One]) -> None:
    one, other = crawl(), crawl()
    other.holdings.partitions = frozenset()
    one.put(Request("http://a.example/"))
    request = one.next()
    assert request is not None
    one.under_way.remove(request)
    assert one.holdings.busy() == frozenset()  # then the partition is given up
    other.holdings.partitions = frozenset(range(256))
    assert other.rest() == []


def test_what_waits_for_its_host_is_neither_ended_nor_lost(crawl: Callable[..., One]) -> None:
    one = crawl()
    urls = ["http://a.example/1", "http://a.example/2"]
    one.put(*map(Request, urls))
    paused = one.next()
    assert paused is not None
    one.under_way.remove(paused)
    one.holdings.waiting = lambda: [paused]
    assert one.holdings.busy() == one.holdings.left_alone() == {partition_of(paused.url)}
    assert one.rest() == []  # nothing more of its host
    one.end()
    assert sorted(crawl().rest()) == urls


def test_while_redis_does_not_know_of_an_end_the_partition_is_busy(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    folder.mkdir()
    with redis_server(folder) as port:
        one = One({"REDIS_URL": f"redis://127.0.0.1:{port}"}, "wanderer")
        one.put(Request("http://a.example/"))
        request = one.next()
        assert request is not None
        one.under_way.remove(request)
    assert one.holdings.busy() == {partition_of("http://a.example/")}
    with redis_server(folder, port=port):
        assert one.holdings.busy() == frozenset()
        one.end()


def test_a_crawl_that_ends_gives_back_what_it_has_not_sent(crawl: Callable[..., One]) -> None:
    one = crawl()
    urls = [f"http://host{n}.example/" for n in range(5)]
    one.put(*map(Request, urls))
    sent = one.next()
    assert sent is not None
    one.end()
    assert one.holdings.busy() == frozenset()  # the worker's last look, which may come after that
    assert sorted([sent.url, *crawl().rest()]) == sorted(urls)


def test_after_a_lease_ran_out_nothing_is_sent_that_was_taken_before(
    crawl: Callable[..., One],
) -> None:
    one, other = crawl(), crawl()
    one.put(*(Request(f"http://host{n}.example/") for n in range(5)))
    one.put(Request("http://a.example/", meta={"hacs": {}, "hacs_planned": True}))
    sent = one.next()
    assert sent is not None
    one.holdings.partitions = frozenset()
    one.holdings.lose([sent])
    one.under_way.remove(sent)
    assert one.holdings.busy() == frozenset()
    other.holdings.partitions = frozenset(range(256))
    assert one.rest() == []
    assert len(other.rest()) == 5


@pytest.mark.parametrize("meta", [{}, {"hacs": {}, "hacs_planned": True}, {"lock": object()}])
def test_a_partition_is_busy_while_a_request_waits_in_memory(
    meta: dict[str, Any], crawl: Callable[..., One]
) -> None:
    one = crawl()
    one.put(*(Request(f"http://{host}.example/", meta=meta) for host in "abc"))
    given = one.next()
    assert given is not None
    waiting = {f"http://{host}.example/" for host in "abc"} - {given.url}
    one.under_way.remove(given)  # what is under way is known from the engine
    assert one.holdings.busy() == {partition_of(url) for url in waiting}


def test_a_partition_is_busy_while_its_request_is_under_way(crawl: Callable[..., One]) -> None:
    one = crawl()
    one.put(Request("http://a.example/"))
    request = one.next()
    assert one.holdings.busy() == {partition_of("http://a.example/")}
    assert request is not None
    one.under_way.remove(request)  # whoever keeps it, as a spider may
    assert one.holdings.busy() == frozenset()


def test_visits_of_the_plan_stay_in_memory(crawl: Callable[..., One]) -> None:
    one, other = crawl(), crawl()
    seed = Request("http://a.example/", meta={"hacs": {"p": 1.0}, "hacs_planned": True})
    one.put(seed)
    assert other.next() is None
    assert one.next() is seed


def test_what_json_cannot_hold_waits_in_memory_and_is_named_once(
    crawl: Callable[..., One], caplog: pytest.LogCaptureFixture
) -> None:
    one = crawl()
    odd = [Request(f"http://a.example/{n}", meta={"lock": object()}) for n in range(3)]
    odd.append(Request("http://a.example/4", callback=lambda response: None))
    one.put(*odd)
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    (line,) = warnings
    assert "<GET http://a.example/0>" in line
    assert "meta['lock'] is a builtins.object" in line
    assert [one.next() for _ in odd] == odd
    assert one.crawler.stats is not None
    assert one.crawler.stats.get_value("scheduler/unserializable") == 4


def test_what_json_cannot_hold_of_anothers_host_is_dropped_with_an_error(
    crawl: Callable[..., One], caplog: pytest.LogCaptureFixture
) -> None:
    one = crawl()
    one.holdings.partitions = frozenset()
    one.put(Request("http://a.example/", meta={"lock": object()}))
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "<GET http://a.example/> is dropped" in record.message
    assert "meta['lock']" in record.message


LOADED: list[str] = []


class Trap:
    def __reduce__(self) -> Any:
        return LOADED.append, ("loaded",)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (pickle.dumps(Trap()), "it is a pickle, which is never loaded"),
        (b"{", "it is no JSON of a request"),
        (b'{"url": "http://a.example/", "_class": "os.system"}', "'os.system' is no request"),
        (b'{"url": "http://a.example/", "_class": "antigravity.x"}', "'antigravity.x' is no req"),
        (b'{"url": "http://a.example/", "callback": "nowhere"}', "Method 'nowhere' not found"),
        (b'{"url": "no url"}', "Missing scheme"),
    ],
)
def test_what_is_no_request_is_put_aside_with_a_line(
    body: bytes, reason: str, crawl: Callable[..., One], caplog: pytest.LogCaptureFixture
) -> None:
    one = crawl()
    one.put(Request("http://a.example/"))
    server = one.scheduler.server
    prefix = f"{{{one.spider.name}:requests}}"
    (member,) = server.hkeys(f"{prefix}:requests")
    server.hset(f"{prefix}:requests", member, body)
    one.put(Request("http://b.example/"))
    assert one.rest() == ["http://b.example/"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert reason in record.message
    assert server.lrange(f"{prefix}:damaged", 0, -1) == [body]
    assert server.hlen(f"{prefix}:requests") <= 1
    assert one.crawler.stats is not None
    assert one.crawler.stats.get_value("scheduler/damaged") == 1
    assert LOADED == []


def test_the_end_of_one_crawl_leaves_the_others_queue(
    crawl: Callable[..., One], caplog: pytest.LogCaptureFixture
) -> None:
    one = crawl(SCHEDULER_PERSIST=False)
    one.put(Request("http://a.example/"))
    one.end()
    assert "SCHEDULER_PERSIST = True" in caplog.text
    assert crawl().rest() == ["http://a.example/"]


def test_a_crawl_that_is_asked_to_begins_with_an_empty_queue(crawl: Callable[..., One]) -> None:
    one = crawl()
    one.put(Request("http://a.example/"))
    assert crawl(SCHEDULER_FLUSH_ON_START=True).rest() == []


def test_a_key_of_another_type_ends_the_crawl_with_a_line(crawl: Callable[..., One]) -> None:
    one = crawl()
    one.scheduler.server.set(f"{{{one.spider.name}:requests}}:waiting", "x")
    with pytest.raises(StateError, match=r":requests\} cannot be used: .*WRONGTYPE"):
        one.next()
    one.scheduler.server.delete(f"{{{one.spider.name}:requests}}:waiting")


def test_while_redis_is_away_requests_wait_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "redis"
    folder.mkdir()
    with redis_server(folder) as port:
        one = One({"REDIS_URL": f"redis://127.0.0.1:{port}"}, "wanderer")
    one.put(Request("http://a.example/"), Request("http://a.example/"))
    assert one.next() is None
    assert len(one.queue) == 2
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2  # of the queue and of the filter, once each
    with redis_server(folder, port=port):
        assert one.rest() == ["http://a.example/"] * 2
        one.end()
