"""What travels with a request: meta, and what is written to disk of it."""

from typing import Any

from scrapy import FormRequest, Request

from ..base import TIMED, Row, facts, url, urls

RESUMED = ("-s", "JOBDIR=job")
PAUSED = (*RESUMED, "-s", "CLOSESPIDER_PAGECOUNT=3", "-s", "CONCURRENT_REQUESTS=1")


class FeedOfMeta(Row):
    """Exports response.meta, as people do to find mistakes."""

    custom_settings = {
        "FEEDS": {"out.jsonl": {"format": "jsonlines"}, "out.json": {"format": "json"}}
    }
    start_urls = urls("/1", "/links?to=/a", "/status/404", "/redirect?to=/2")
    handle_httpstatus_list = [404]

    def parse(self, response: Any) -> Any:
        yield {
            "url": response.url,
            "meta": {k: v for k, v in response.meta.items() if k not in TIMED},
        }
        yield from response.follow_all(css="a")


class FeedOfRequests(Row):
    custom_settings = {"FEEDS": {"out.json": {"format": "json"}}}
    start_urls = urls("/1", "/2")

    def parse(self, response: Any) -> Any:
        request = response.request.to_dict(spider=self)
        del request["headers"]  # bytes, which feeds do not take
        yield {**request, "meta": {k: v for k, v in request["meta"].items() if k not in TIMED}}


class CopiesMeta(Row):
    """Gives the meta of a seed to what follows from it."""

    start_urls = urls("/links?to=/a&to=/b", "/links?to=/c")
    visits = 2

    def parse(self, response: Any) -> Any:
        yield facts(response)
        yield from response.follow_all(css="a", meta=response.meta)


class CopiesMetaOfAPost(Row):
    visits = 0
    end = Row.parse

    async def start(self) -> Any:
        yield FormRequest(url("/echo"), formdata={"q": "1"}, callback=self.parse)

    def parse(self, response: Any) -> Any:
        yield Request(url("/found/1"), callback=self.end, meta=response.meta)
        yield Request(url("/found/2"), callback=self.end, meta=response.request.meta.copy())


class ReplacesTheRequest(Row):
    """Asks again for the page it has, with other arguments."""

    start_urls = urls("/1", "/2")

    def parse(self, response: Any) -> Any:
        yield facts(response)
        if not response.meta.get("again"):
            meta = {**response.meta, "again": True}
            yield response.request.replace(dont_filter=True, meta=meta, callback=self.parse)


class Paused(Row):
    """JOBDIR: paused after three pages, and gone on with."""

    start_urls = urls(*(f"/{number}" for number in range(10)))
    runs = (PAUSED, RESUMED)
    adds_up = True


class PausedWithFollowUps(Row):
    start_urls = urls(*(f"/links?to=/{number}&to=/more/{number}" for number in range(5)))
    runs = (PAUSED, PAUSED, RESUMED)
    adds_up = True

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        yield from response.follow_all(css="a", callback=self.parse)


class PausedWithLambdas(Row):
    """Requests that cannot be written to disk stay in memory, and are lost with it."""

    runs = (RESUMED, RESUMED)

    async def start(self) -> Any:
        for number in range(5):
            yield Request(url(f"/{number}"), callback=lambda response: {"url": response.url})


class PausedByPriority(Row):
    runs = (PAUSED, RESUMED)
    adds_up = True

    async def start(self) -> Any:
        for number in range(10):
            yield self.page(f"/{number}", priority=number % 3, meta={"n": number})


class PausedWithWarnings(PausedWithLambdas):
    """What cannot be written to disk is said once, and counted."""

    custom_settings = {"SCHEDULER_DEBUG": True}


class PausedBeforeTheAddOn(Paused):
    """Gone on with after the line was added."""

    runs = ((*PAUSED, "-s", "ADDONS={}"), RESUMED)


class PausedAfterTheAddOn(Paused):
    """Gone on with after the line was taken out."""

    runs = (PAUSED, (*RESUMED, "-s", "ADDONS={}"))
