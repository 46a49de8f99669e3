"""What servers answer, and what goes wrong."""

import logging
from typing import Any

from scrapy import Request
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import HtmlResponse

from ..base import FIVE, Row, facts, follows, rows, through, url, urls


class RetryAfterOfOneHost(Row):
    async def start(self) -> Any:
        yield self.page("/flaky/503/1?after=20")
        for path in FIVE:
            yield self.page(path)
            yield self.page(path, 2)


class RetriesOfItsOwn(Row):
    handle_httpstatus_list = [503]
    start_urls = urls("/flaky/503/1?after=20", "/status/503", "/1")
    custom_settings = {"RETRY_ENABLED": False}

    def parse(self, response: Any) -> Any:
        if response.status == 503:
            again = get_retry_request(
                response.request, spider=self, reason="busy", max_retry_times=1
            )
            yield again or {"given up": response.url}
        else:
            yield {"url": response.url}


class DontRetry(Row):
    async def start(self) -> Any:
        yield self.page("/status/500", meta={"dont_retry": True})
        yield self.page("/status/404", meta={"handle_httpstatus_all": True})
        yield self.page("/redirect?to=/1", meta={"dont_redirect": True})


class ConnectionsThatFail(Row):
    custom_settings = {"RETRY_TIMES": 1}

    async def start(self) -> Any:
        yield Request("http://127.0.0.1:1/", errback=self.failed)
        yield self.page("/broken", 2)  # a host of its own: a kept connection would be tried twice
        yield self.page("/slow/3", meta={"download_timeout": 1, "dont_retry": True})
        yield self.page("/1")


class CallbackRaises(Row):
    start_urls = urls(*FIVE)

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        if response.url.endswith("3"):
            raise ValueError("three")


class ErrbackRaises(Row):
    start_urls = urls("/status/404", "/1")

    def failed(self, failure: Any) -> Any:
        raise ValueError("in the errback")


class FingerprintFails:
    def fingerprint(self, request: Any) -> bytes:
        if request.url.endswith(("2", "4")):
            raise ValueError(f"no fingerprint of {request.url[-2:]}")
        return request.url.encode()


class FilterFails(BaseDupeFilter):
    def request_seen(self, request: Any) -> bool:
        if request.url.endswith("3"):
            raise RuntimeError("the filter is away")
        return False


class FingerprinterRaises(Row):
    since = (2, 19)  # with 2.13 Scrapy itself never ends
    custom_settings = {"REQUEST_FINGERPRINTER_CLASS": FingerprintFails}
    start_urls = urls(*FIVE)
    is_endless = True


class FilterRaises(FingerprinterRaises):
    custom_settings = {"DUPEFILTER_CLASS": FilterFails}


class Ignores:
    def process_request(self, request: Any, spider: Any = None) -> None:
        if request.url.endswith(("2", "3")):
            raise IgnoreRequest("not wanted")


class Answers:
    def process_request(self, request: Any, spider: Any = None) -> Any:
        if request.url.endswith(("2", "3")):
            return HtmlResponse(request.url, body=b"<a href='/x'>made up</a>", request=request)
        return None


class Reschedules:
    """Sends each request round once more, as middlewares that get a proxy or a session first do."""

    def process_request(self, request: Any, spider: Any = None) -> Any:
        if request.meta.get("is_round"):
            return None
        return request.replace(meta={**request.meta, "is_round": True}, dont_filter=True)


class ReschedulesAnswers:
    def process_response(self, request: Any, response: Any, spider: Any = None) -> Any:
        if request.meta.get("is_round"):
            return response
        return request.replace(meta={**request.meta, "is_round": True}, dont_filter=True)


class StopsDownloads(Row):
    """Wants the headers only; on hosts of their own, as connections are closed."""

    async def start(self) -> Any:
        for host, path in enumerate(FIVE, 1):
            yield self.page(path, host)

    def headers_received(self, request: Any) -> None:
        raise StopDownload(fail=request.url.endswith("3"))


class LogsErrors(Row):
    start_urls = urls(*FIVE)

    def parse(self, response: Any) -> Any:
        self.logger.error("an error of the spider's own")
        logging.getLogger("elsewhere").warning("a warning")
        yield facts(response)


class CachesPages(Row):
    """The second run asks nothing of the site."""

    custom_settings = {"HTTPCACHE_ENABLED": True}
    start_urls = urls("/links?to=/a&to=/b", "/1", "/status/404", "/redirect?to=/2")
    runs = ((), ())
    parse = follows


class CachesAsServersSay(CachesPages):
    custom_settings = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy",
    }


class Throttled(Row):
    custom_settings = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.05}

    async def start(self) -> Any:
        for path in FIVE:
            yield self.page(path)
            yield self.page(path, 2, meta={"autothrottle_dont_adjust_delay": True})


class RefusesInput:
    def process_spider_input(self, response: Any, spider: Any = None) -> None:
        if response.url.endswith(("2", "3")):
            raise ValueError("not for the spider")


REFRESH = "data:text/html,<meta http-equiv=refresh content='0;url={}'>"
rows(
    globals(),
    Row,
    # what is broken, today and tomorrow
    LinkChecker={
        "start_urls": urls("/1", "/status/404", "/status/410", "/status/404?again"),
        "handle_httpstatus_list": [404, 410],
    },
    UnavailableForAnHour={"start_urls": urls("/status/503?after=3600", *FIVE)},
    TooManyRequestsAndRetryAfter={"start_urls": urls("/flaky/429/1?after=30", *FIVE)},
    Retries={"start_urls": urls("/flaky/500/1", "/flaky/503/2", "/status/500", "/1")},
    MetaRefresh={"start_urls": [REFRESH.format(url("/1"))]},
    MiddlewareIgnores=through(Ignores, 100, "DOWNLOADER"),
    MiddlewareAnswers=through(Answers, 100, "DOWNLOADER"),
    MiddlewareReschedules=through(Reschedules, 100, "DOWNLOADER", visits=5),
    MiddlewareReschedulesAnswers=through(ReschedulesAnswers, 100, "DOWNLOADER", visits=5),
    MiddlewareRefusesInput=through(RefusesInput, 100),
    MiddlewareRefusesInputNearTheEngine=through(RefusesInput, 20),
)


class TellsWhyItClosed(Row):
    start_urls = urls(*FIVE)

    def closed(self, reason: str) -> None:
        self.logger.warning("closed: %s", reason)
        self.crawler.stats.set_value("closed", reason)
