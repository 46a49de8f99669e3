"""scrapy-redis inside, whose duplicate filter outlasts a crawl: what it forgets to send is gone."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.dupefilters import RFPDupeFilter as ScrapysFilter
from scrapy_redis.dupefilter import RFPDupeFilter

from hacs_crawler.crawl.inner_scheduler import shared_filter
from hacs_crawler.crawl.scheduler import MOST_PAUSED
from integration_support import AnySpider, Crawl
from servers import Site

SCHEDULER = "scrapy_redis.scheduler.Scheduler"
PLAIN = {"SCHEDULER": SCHEDULER, "ADDONS": "{}"}
INSIDE = {"HACS_INNER_SCHEDULER": SCHEDULER}
PAGES = {f"/{number}" for number in range(40)}
AT_ONCE = 2

LISTED = """
    class Listed(scrapy.Spider):
        name = "listed"

        async def start(self):
            for number in range(40):
                yield scrapy.Request(f"{self.url}/{number}")

        def parse(self, response):
            yield {"url": response.url}
"""


class Queue:
    """A queue and a filter in Redis, and spiders that use it."""

    def __init__(self, folder: Path, site: Site, url: str, name: str) -> None:
        self._spider = AnySpider(folder, site)
        self._site = site
        self._shared = {
            "REDIS_URL": url,
            "SCHEDULER_QUEUE_KEY": f"{name}:requests",
            "SCHEDULER_DUPEFILTER_KEY": f"{name}:seen",
            "SCHEDULER_PERSIST": True,
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "CONCURRENT_REQUESTS": AT_ONCE,
        }

    def run(self, way: dict[str, str], code: str = LISTED, **settings: Any) -> Crawl:
        return self._spider.run(code, **{**self._shared, **way, **settings})

    def killed(self, way: dict[str, str], moment: str, code: str = LISTED) -> list[str]:
        """What a crawl asked for before it was killed."""
        kill = {"EXTENSIONS": '{"tests.killing.KillAt": 1}', "KILL_AT": moment}
        kill["ACKNOWLEDGED"] = f"{self._spider.folder}/acknowledged"
        self.run(way, code, status=-signal.SIGKILL, **kill)
        return self._site.visited()

    def asked(self, way: dict[str, str], code: str = LISTED, **settings: Any) -> list[str]:
        """What a crawl asked for, which came to its end."""
        self.run(way, code, **settings)
        return self._site.visited()


@pytest.fixture
def queue(tmp_path: Path, site: Site, redis_port: int, namespace: str) -> Queue:
    for path in PAGES:
        site.set(path)
    return Queue(tmp_path, site, f"redis://127.0.0.1:{redis_port}", namespace)


@pytest.mark.parametrize(
    ("way", "moment"),
    [(PLAIN, "downloading"), (INSIDE, "downloading"), (INSIDE, "ranking")],
    ids=["plain", "inside", "inside-ranking"],
)
def test_a_crawl_that_is_killed_loses_of_start_what_was_under_way(
    way: dict[str, str], moment: str, queue: Queue
) -> None:
    before = queue.killed(way, moment)
    after = queue.asked(way)
    assert not set(before) & set(after)
    assert len(PAGES - {*before, *after}) <= AT_ONCE
    assert not queue.asked(way)


def test_what_a_crawl_left_in_the_queue_survives_the_kill_of_the_one_that_ranks_it_again(
    queue: Queue,
) -> None:
    stopped = queue.asked(INSIDE, CLOSESPIDER_PAGECOUNT=3)
    assert len(stopped) < len(PAGES)
    assert not queue.killed(INSIDE, "ranking")
    assert sorted([*stopped, *queue.asked(INSIDE)]) == sorted(PAGES)


def test_what_was_left_is_sent_by_scrapy_redis_alone(queue: Queue) -> None:
    stopped = queue.asked(INSIDE, CLOSESPIDER_PAGECOUNT=3)
    assert sorted([*stopped, *queue.asked(PLAIN)]) == sorted(PAGES)


def test_what_a_budget_leaves_out_is_left_for_the_next_crawl(queue: Queue) -> None:
    each = [queue.asked(INSIDE, HACS_BUDGET=10) for _ in range(5)]
    assert [len(paths) for paths in each] == [10, 10, 10, 10, 0]
    assert set().union(*each) == PAGES


def test_of_the_same_start_requests_two_crawls_send_each_once(queue: Queue, site: Site) -> None:
    with ThreadPoolExecutor() as threads:
        both = [*threads.map(lambda way: queue.run(way, DOWNLOAD_DELAY=0.02), (INSIDE, INSIDE))]
    assert sorted(site.visited()) == sorted(PAGES)
    assert sum(len(one.items) for one in both) == len(PAGES)
    ranked, seen = (
        sum(one.stat(f"hacs/{name}") for one in both) for name in ("ranked", "dropped/seen")
    )
    assert ranked - seen == len(PAGES)


def test_a_filter_that_decides_for_itself_is_asked_when_start_yields() -> None:
    class Own(RFPDupeFilter):
        def request_seen(self, request: Request) -> bool:
            return False

    filters = (RFPDupeFilter(None, "key"), Own(None, "key"), ScrapysFilter(), None)
    known = [shared_filter(SimpleNamespace(df=one)) is not None for one in filters]
    assert known == [True, False, False, False]


FOLLOWING = """
    class Following(scrapy.Spider):
        name = "following"

        async def start(self):
            for path in ("/0", "/1", "/0"):
                yield scrapy.Request(self.url + path, cb_kwargs={"by": "start"})
            yield scrapy.Request(self.url + "/list", priority=1)
            yield scrapy.Request(self.url + "/2", cb_kwargs={"by": "start"}, dont_filter=True)

        def parse(self, response, by=None):
            yield {"path": response.url.removeprefix(self.url), "by": by}
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, cb_kwargs={"by": "list"}, priority=1)
"""


def test_a_page_that_is_held_for_start_is_not_asked_for_by_what_follows(
    queue: Queue, site: Site
) -> None:
    site.set("/list", "/0", "/1", "/2", "/3")

    def seen(way: dict[str, str], **settings: Any) -> list[tuple[str, str]]:
        items = queue.run(way, FOLLOWING, SCHEDULER_PERSIST=False, **settings).items
        return sorted((item["path"], str(item["by"])) for item in items)

    plain = seen(PLAIN)
    assert seen(INSIDE) == plain
    budgeted = seen(INSIDE, HACS_PAGES="all", HACS_BUDGET=5)
    assert len(budgeted) == 5
    assert not [one for one in budgeted if one not in plain]


PAUSED = """
    class Paused(scrapy.Spider):
        name = "paused"

        async def start(self):
            yield scrapy.Request(f"{self.url}/list")

        def parse(self, response):
            yield {}
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, priority=link == "/busy")
            other_host = self.url.replace("127.0.0.1", "localhost")
            for number in range(20):
                yield scrapy.Request(f"{other_host}/other/{number}")
"""


def test_what_waits_for_a_host_that_asks_for_time_stays_in_the_queue(
    queue: Queue, site: Site
) -> None:
    site.set("/list", "/busy", *sorted(PAGES))
    site.set("/busy", status=429, **{"Retry-After": "60"})
    before = queue.killed(INSIDE, "downloading", PAUSED)
    assert "/other/5" in before  # the other host does not wait
    site.set("/busy")
    after = queue.asked(INSIDE, PAUSED)
    assert len(PAGES - {*before, *after}) <= MOST_PAUSED
