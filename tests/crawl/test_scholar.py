"""The middlewares of the spider scholar: hosts that cannot be looked up, and slow encodings."""

import logging
from collections.abc import Iterator

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares import robotstxt
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings
from scrapy.utils.misc import load_object
from twisted.internet.error import DNSLookupError

from crawl_support import new_crawler
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.middlewares.scholar import (
    FIRST_HOSTS,
    LOOKUPS,
    SlowEncodingMiddleware,
    UnknownHosts,
)
from hacs_crawler.spiders.scholar import ScholarSpider
from hacs_crawler.spiders.wayback import WaybackSpider


@pytest.fixture
def crawl() -> Crawl:
    return Crawl.of(new_crawler())


@pytest.fixture
def hosts(crawl: Crawl) -> Iterator[UnknownHosts]:
    made = UnknownHosts.from_crawler(crawl.crawler)
    yield made
    robotstxt.logger.removeFilter(made.filter)


def fail(hosts: UnknownHosts, host: str, times: int = LOOKUPS) -> Request:
    """A request for a host, whose look-ups fail."""
    request = Request(f"http://{host}/")
    hosts.process_request(request)
    for _ in range(times):
        hosts.process_exception(request, DNSLookupError(host))
    return request


def answer(hosts: UnknownHosts, host: str) -> None:
    request = Request(f"http://{host}/")
    hosts.process_request(request)
    hosts.process_response(request, Response(request.url))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().split(" ")[0] for record in caplog.records]


def test_a_host_is_asked_for_no_more_after_two_failed_look_ups(hosts: UnknownHosts) -> None:
    assert "dont_retry" not in fail(hosts, "a.example", 1).meta
    assert fail(hosts, "a.example", 1).meta["dont_retry"]
    other = Request("http://a.example/sitemap.xml")
    with pytest.raises(DNSLookupError):
        hosts.process_request(other)
    assert other.meta["dont_retry"]
    hosts.process_request(Request("http://b.example/"))


def test_an_answer_or_another_failure_between_them_takes_the_first_back(
    hosts: UnknownHosts,
) -> None:
    fail(hosts, "a.example", 1)
    hosts.process_exception(Request("http://a.example/"), TimeoutError())
    assert "dont_retry" not in fail(hosts, "a.example", 1).meta


def test_each_host_is_named_once_when_there_is_known_to_be_a_network(
    hosts: UnknownHosts, caplog: pytest.LogCaptureFixture
) -> None:
    fail(hosts, "a.example", 3)
    assert said(caplog) == []
    answer(hosts, "c.example")
    fail(hosts, "b.example", 3)
    assert said(caplog) == ["a.example", "b.example"]


@pytest.mark.parametrize("is_network", [False, True])
def test_the_crawl_fails_where_none_of_the_first_hosts_can_be_looked_up(
    is_network: bool, crawl: Crawl, hosts: UnknownHosts
) -> None:
    if is_network:
        answer(hosts, "a.example")
    for number in range(FIRST_HOSTS):
        assert crawl.failure is None
        fail(hosts, f"h{number}.example")
    said = "none of the first 10 hosts can be looked up: is there a network?"
    assert crawl.failure == (None if is_network else said)


def test_scrapy_does_not_say_it_again_of_the_hosts_robots_txt(hosts: UnknownHosts) -> None:
    request, error = Request("http://a.example/robots.txt"), DNSLookupError("a.example")
    for _ in range(LOOKUPS):
        hosts.process_exception(request, error)
    message = "Error downloading %(request)s: %(f_exception)s"

    def is_logged(exception: Exception) -> bool:
        args = ({"request": request, "f_exception": exception},)
        record = logging.LogRecord("robots", logging.ERROR, "", 0, message, args, None)
        return hosts.filter(record)

    assert not is_logged(error)
    assert is_logged(TimeoutError())


def test_one_is_nearer_the_network_than_retries_the_other_stands_before_what_decodes() -> None:
    settings = Settings()
    settings.setmodule("hacs_crawler.settings")
    named = settings.getwithbase("DOWNLOADER_MIDDLEWARES")
    orders = {load_object(name): order for name, order in named.items()}
    assert orders[UnknownHosts] > orders[RetryMiddleware]
    order = orders[SlowEncodingMiddleware]
    assert orders[MetaRefreshMiddleware] < order < orders[HttpCompressionMiddleware]


class Own(ScholarSpider):
    levels = ""


@pytest.mark.parametrize(
    ("spider", "given", "fault"),
    [
        (ScholarSpider, "levl", "scholar has no argument levl; did you mean level?"),
        (
            ScholarSpider,
            "x",
            "scholar has no argument x: it has seeds, level, depth, forever, pages",
        ),
        (ScholarSpider, "_job", ""),
        (Own, "seed", "scholar has no argument seed; did you mean seeds?"),
        *((Own, name, "") for name in ("levels", "of_its_own", "start_urls", "name")),
        (WaybackSpider, "untill", "wayback has no argument untill; did you mean until?"),
    ],
)
def test_a_mistyped_argument_is_a_fault_but_subclasses_have_their_own(spider, given, fault) -> None:
    assert spider(**{given: "a"}).problem == fault


# Pages that say they are in punycode, whose decoder takes a minute for a megabyte

URL = "http://a.example/"


def passed(response: Response) -> Response:
    return SlowEncodingMiddleware().process_response(Request(URL), response)


@pytest.mark.parametrize(
    "response",
    [
        HtmlResponse(URL, body=b"<meta charset=punycode><p>caf\xe9-x"),
        HtmlResponse(
            URL, headers={"Content-Type": "text/html; charset=PunyCode"}, body=b"<p>caf\xe9-x"
        ),
    ],
)
def test_pages_in_punycode_are_read_as_browsers_read_them(response: HtmlResponse) -> None:
    read = passed(response)
    assert isinstance(read, HtmlResponse)
    assert read.text.endswith("<p>café-x")


@pytest.mark.parametrize(
    "response", [HtmlResponse(URL, body="<p>é".encode(), encoding="utf-8"), Response(URL)]
)
def test_any_other_answer_stays_as_it_is(response: Response) -> None:
    assert passed(response) is response
