"""Downloader middlewares of this project's own crawls, for hosts and pages that waste their time."""

import logging
from typing import Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares import robotstxt
from scrapy.http import Response, TextResponse
from scrapy.utils.httpobj import urlparse_cached

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.harvest.dialects import NO_HOST
from hacs_crawler.links import has_slow_encoding
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# The second one in a row that fails is the last: one may be an accident.
LOOKUPS = 2
# If none of this many hosts can be looked up, the network is away, and the crawl ends.
FIRST_HOSTS = 10


class UnknownHosts:
    """Has hosts that DNS does not know cost two look-ups and a line each.

    Nearer the network than Scrapy's RetryMiddleware, which would ask three times for each page,
    robots.txt and sitemap of such a host, and log each failure. Other hosts whose robots.txt cannot be
    fetched cost a line without a traceback.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._failures: dict[str, int] = {}
        self._unknown: dict[str, Exception] = {}
        self._first: dict[str, None] = {}
        # Hosts to be named once there is known to be a network, None since it is.
        self._unsaid: list[str] | None = []
        robotstxt.logger.addFilter(self.filter)
        crawler.signals.connect(self._remove, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Begin immediately."""
        return cls(crawler)

    def process_request(self, request: Request, spider: Spider | None = None) -> None:
        """Fail immediately for an unknown host."""
        host = _host(request)
        if len(self._first) < FIRST_HOSTS:
            self._first[host] = None
        if host in self._unknown:
            request.meta["dont_retry"] = True
            raise self._unknown[host]

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> None:
        """Count look-ups that failed; say of a host once that it is not known."""
        host = _host(request)
        if type(exception).__name__ not in NO_HOST:
            self._failures.pop(host, None)
            return
        self._failures[host] = self._failures.get(host, 0) + 1
        if self._failures[host] >= LOOKUPS:
            request.meta["dont_retry"] = True
            if host not in self._unknown:
                self._unknown[host] = exception
                self._say(host)

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Response:
        """Name the hosts that are left out, as there is a network."""
        self._say_all()
        return response

    def _say(self, host: str) -> None:
        if self._unsaid is None:
            logger.warning("%s cannot be looked up; it is left out of this crawl", host)
            return
        self._unsaid.append(host)
        if len(self._first) == FIRST_HOSTS and self._unknown.keys() >= self._first.keys():
            message = f"none of the first {FIRST_HOSTS} hosts can be looked up: is there a network?"
            Crawl.of(self._crawler).fail(message)

    def _say_all(self) -> None:
        unsaid, self._unsaid = self._unsaid, None
        for host in unsaid or ():
            self._say(host)

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop what Scrapy logs of the robots.txt of an unknown host; of others, drop the traceback."""
        if getattr(record, "spider", None) is self._crawler.spider:
            record.exc_info = None
        args = record.args if isinstance(record.args, dict) else {}
        return args.get("f_exception") not in self._unknown.values()

    def _remove(self) -> None:
        if Crawl.of(self._crawler).failure is None:
            self._say_all()
        robotstxt.logger.removeFilter(self.filter)


class SlowEncodingMiddleware:
    """Reads pages in "punycode", for browsers not an encoding, as they do pages that name none.

    Python's decoder of that name, for host names, takes a minute for a megabyte, and Scrapy decodes
    every page to look for a `meta` refresh.
    """

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Response:
        """Look at the encoding that a page names; nothing is decoded for that."""
        if isinstance(response, TextResponse) and has_slow_encoding(response.encoding):
            return response.replace(encoding="cp1252")
        return response


def _host(request: Request) -> str:
    return urlparse_cached(request).netloc
