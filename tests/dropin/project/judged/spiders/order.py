"""The order that a project asks for, and the settings that decide who is sent when."""

import random
from typing import Any

from ..base import Row, urls

ONE_AT_A_TIME = {"CONCURRENT_REQUESTS": 1}


class PrioritiesOfSeeds(Row):
    """A first page gives the others time to be scheduled before the next is chosen."""

    custom_settings = ONE_AT_A_TIME
    in_order = True

    async def start(self) -> Any:
        for priority in (10, 0, 3, -5, 7, 1, -2):
            yield self.page(
                f"/slow/0.3?{priority}" if priority == 10 else f"/{priority}", priority=priority
            )


class SeedsBeforeFollowUps(Row):
    """Seeds of priority 100 go before follow-ups of priority 0, and these before those of -100."""

    custom_settings = ONE_AT_A_TIME
    in_order = True

    async def start(self) -> Any:
        yield self.page("/links?to=/a", priority=200)
        for priority in (102, 104, 103, 101):
            yield self.page(f"/high/{priority}", priority=priority)
        yield self.page("/low", priority=-100)

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        yield from response.follow_all(css="a", callback=self.end)

    def end(self, response: Any) -> Any:
        yield {"end": response.url}


class FollowUpsOfHighPriority(SeedsBeforeFollowUps):
    """Follow-ups that come with 500 go before a seed of 100 that came first."""

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        yield from response.follow_all(css="a", callback=self.end, priority=500)


class BreadthFirst(Row):
    custom_settings = {
        "DEPTH_PRIORITY": 1,
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    }
    start_urls = urls("/links?to=/a&to=/b", "/links?to=/c&to=/d")

    def parse(self, response: Any) -> Any:
        yield {"url": response.url, "depth": response.meta["depth"]}
        yield from response.follow_all(css="a")


class PlainPriorityQueue(BreadthFirst):
    custom_settings = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}


class DepthLimit(BreadthFirst):
    custom_settings = {"DEPTH_LIMIT": 1, "DEPTH_STATS_VERBOSE": True}
    start_urls = urls("/links?to=/links%3Fto=/a&to=/b", "/links?to=/c")


HOSTS = 8
PAGES = 5


class PoliteHostsShuffled(Row):
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, "DOWNLOAD_DELAY": 0.02}

    async def start(self) -> Any:
        pages = [(f"/{number}", host) for number in range(PAGES) for host in range(1, HOSTS + 1)]
        random.Random(7).shuffle(pages)
        for path, host in pages:
            yield self.page(path, host)


class PoliteHostsWithFollowUps(PoliteHostsShuffled):
    def parse(self, response: Any) -> Any:
        yield from super().parse(response)
        if response.url.count("/") == 3:
            yield response.follow(response.url + "/more", errback=self.failed)


class OwnSlots(Row):
    custom_settings = {
        "DOWNLOAD_SLOTS": {"a": {"concurrency": 1, "delay": 0.02, "randomize_delay": False}}
    }

    async def start(self) -> Any:
        for number in range(6):
            yield self.page(f"/{number}", number % 2 + 1, meta={"download_slot": "ab"[number % 2]})
