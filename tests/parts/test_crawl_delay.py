"""A host is asked as slowly as the Crawl-delay of its robots.txt says, where robots.txt is obeyed."""

from types import SimpleNamespace
from typing import cast

import pytest
from scrapy import Request, signals
from scrapy.robotstxt import ProtegoRobotParser

from crawl_support import UnderWay, new_crawler, run
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.scrapy_internals import Downloads
from hacs_crawler.parts.pauses import CrawlDelays
from integration_support import Project
from servers import Site

pytestmark = pytest.mark.skipif(
    not hasattr(signals, "robots_parsed"), reason="Scrapy 2.18 is the first to tell of robots.txt"
)
URL = "http://a.example/page"


def delay_of(asked: str, request: Request | None = None, **settings: object) -> tuple[float, int]:
    """The delay in seconds, and the requests at once, of a slot after its host's robots.txt was read."""
    given = {"ROBOTSTXT_OBEY": True, "CONCURRENT_REQUESTS_PER_DOMAIN": 8, **settings}
    crawler = UnderWay(new_crawler(**given)).crawler
    part = CrawlDelays.from_crawl(cast(Crawl, SimpleNamespace(crawler=crawler)))
    body = f"User-agent: hacs\nCrawl-delay: {asked}\n\nUser-agent: *\nCrawl-delay: 7\n"
    request = request or Request(URL)
    part.obey(ProtegoRobotParser(body.encode(), None), request)

    async def slot() -> tuple[float, int]:
        slot = Downloads(crawler)._slot_for(request)
        found = slot.delay, slot.concurrency
        slot.delay = 0.0  # as AutoThrottle may
        answered = {"request": request.replace(meta={"download_slot": "a.example"}), "spider": None}
        crawler.signals.send_catch_log(signals.response_downloaded, **answered)
        assert (slot.delay, slot.concurrency) == found
        return found

    return run(slot())


AGENT = {"ROBOTSTXT_USER_AGENT": "hacs"}


@pytest.mark.parametrize(
    ("asked", "request_", "settings", "slot"),
    [
        ("2.5", None, AGENT, (2.5, 1)),
        ("2.5", Request(URL, headers={"User-Agent": "hacs/1"}), {}, (2.5, 1)),
        ("2.5", None, {"USER_AGENT": "other"}, (7.0, 1)),
        ("2", None, {**AGENT, "DOWNLOAD_DELAY": 4}, (4.0, 1)),
        ("86400", None, AGENT, (300.0, 1)),
        ("2", Request(URL, meta={"hacs_archive": "other"}), AGENT, (0.0, 8)),
        *((asked, None, AGENT, (0.0, 8)) for asked in ("0", "-5", "nan", "inf", "soon", "")),
    ],
)
def test_requests_of_a_host_that_asks_for_a_delay_go_one_by_one(
    asked: str, request_: Request | None, settings: dict[str, object], slot: tuple[float, int]
) -> None:
    """The user agent is that of the other rules, a longer delay stays, and none is above 5 minutes."""
    assert delay_of(asked, request_, **settings) == slot


def test_a_project_that_does_not_obey_robotstxt_has_no_such_part() -> None:
    crawl = SimpleNamespace(crawler=new_crawler(ROBOTSTXT_OBEY=False))
    assert CrawlDelays.from_crawl(cast(Crawl, crawl)) is None


@pytest.mark.slow
@pytest.mark.parametrize("throttled", [False, True], ids=["own delay", "AutoThrottle"])
def test_a_server_that_asks_for_a_delay_gets_it(
    site: Site, project: Project, throttled: bool
) -> None:
    """AutoThrottle would halve it each time, to 1.2 s for all six: this server answers at once."""
    robots = b"User-agent: *\nCrawl-delay: 0.6\n"
    site.pages["/robots.txt"] = (200, {"Content-Type": "text/plain"}, robots)
    paths = [f"/{number}" for number in range(6)]
    for path in paths:
        site.set(path)
    settings = {"AUTOTHROTTLE_ENABLED": throttled, "AUTOTHROTTLE_START_DELAY": 0.1}
    crawl = project.crawl(
        [f"{site.url}{path}" for path in paths], CONCURRENT_REQUESTS_PER_DOMAIN=8, **settings
    )
    assert crawl.stat("hacs/visits") == 6
    assert (
        site.times[-1] - site.times[0] > 2.4
    )  # 3.6, but for what a busy machine adds to the first
    assert crawl.log.count("127.0.0.1 asks in robots.txt for 0.6 s between requests") == 1
