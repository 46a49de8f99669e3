"""The kinds of spiders that people write."""

import json
from typing import Any

from scrapy import FormRequest, Request
from scrapy.exceptions import DropItem
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider, XMLFeedSpider

from ..base import Judged, Row, facts, follows, url, urls


class FollowsRules(Judged, CrawlSpider):
    start_urls = urls(
        "/links?to=/page/1&to=/page/2&to=/other", "/links?to=/page/3&to=/links%3Fto=/page/4"
    )
    rules = (
        Rule(LinkExtractor(allow="/page/"), callback="page", cb_kwargs={"kind": "page"}),
        Rule(LinkExtractor(allow="/links"), follow=True),
    )
    parse = CrawlSpider.parse

    def page(self, response: Any, kind: str) -> Any:
        yield {"kind": kind, **facts(response)}

    def parse_start_url(self, response: Any) -> Any:
        yield {"start": response.url}


class ReadsASitemap(Judged, SitemapSpider):
    sitemap_urls = urls("/sitemap.xml")
    sitemap_rules = [("/map/[012]", "parse")]


class ReadsAFeed(Judged, XMLFeedSpider):
    start_urls = urls("/feed.xml")
    itertag = "entry"
    parse = XMLFeedSpider.parse
    entry = Judged.parse

    def parse_node(self, response: Any, node: Any) -> Any:
        number = node.xpath("id/text()").get()
        yield {"id": number}
        yield response.follow(f"/entry/{number}", callback=self.entry)


class LogsIn(Row):
    """Fills in the form, CSRF token and all."""

    start_urls = urls("/login")
    page_of_account = Judged.parse

    def parse(self, response: Any) -> Any:
        yield FormRequest.from_response(response, formdata={"user": "ada"}, callback=self.account)

    def account(self, response: Any) -> Any:
        yield facts(response)
        yield from response.follow_all(css="a", callback=self.page_of_account)


class LogsInBeforeItStarts(Row):
    """Logs in within start(), past the scheduler, and then yields its seeds."""

    async def start(self) -> Any:
        download = self.crawler.engine.download_async
        form = await download(Request(url("/login")))
        answer = await download(FormRequest.from_response(form, formdata={"user": "ada"}))
        yield {"location": answer.url}
        for path in ("/account", "/account/1"):
            yield self.page(path)


class ScrollsOn(Row):
    """Asks for the next part of the list, which is JSON, until there is none."""

    start_urls = urls("/scroll?page=0")
    item = Judged.parse

    def parse(self, response: Any) -> Any:
        found = json.loads(response.text)
        yield from response.follow_all(found["links"], callback=self.item)
        if found["next"] is not None:
            yield response.follow(f"/scroll?page={found['next']}")


class AsyncCallbacks(Row):
    start_urls = urls("/links?to=/a&to=/b", "/links?to=/c")

    async def parse(self, response: Any) -> Any:
        for link in response.css("a::attr(href)").getall():
            found = await self.crawler.engine.download_async(Request(response.urljoin(link)))
            yield {"link": found.url, "status": found.status}
        yield facts(response)


class CoroutineCallbacks(Row):
    start_urls = urls("/links?to=/a&to=/b")

    async def parse(self, response: Any) -> Any:
        return [facts(response), *response.follow_all(css="a", callback=self.end)]

    async def end(self, response: Any) -> Any:
        return {"end": response.url}


class PassesArguments(Row):
    start_urls = urls("/links?to=/a&to=/b")

    def parse(self, response: Any, **kwargs: Any) -> Any:
        yield {**facts(response), **kwargs}
        if not kwargs:
            yield from response.follow_all(
                css="a", cb_kwargs={"from": response.url}, flags=["ours"]
            )


class Numbers:
    """Gives items a number, and drops every second."""

    number = 0

    def process_item(self, item: Any, spider: Any = None) -> Any:
        self.number += 1
        if self.number % 2:
            raise DropItem("odd")
        return {"number": self.number}


class DropsItems(Row):
    custom_settings = {"ITEM_PIPELINES": {Numbers: 300}}
    start_urls = urls("/1", "/2", "/3", "/4")


class FetchesFiles(Row):
    custom_settings = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": "files",
    }
    start_urls = urls("/1", "/2")

    def parse(self, response: Any) -> Any:
        yield {
            "url": response.url,
            "file_urls": urls("/file/a.txt", f"/file/{response.url[-1]}.txt"),
        }


class ChangesOutput:
    def process_spider_output(self, response: Any, result: Any, spider: Any = None) -> Any:
        for one in result:
            if isinstance(one, Request):
                one.headers["X-Middleware"] = "seen"
            yield one

    async def process_spider_output_async(
        self, response: Any, result: Any, spider: Any = None
    ) -> Any:
        async for one in result:
            yield one


class MiddlewareChangesOutput(Row):
    custom_settings = {"SPIDER_MIDDLEWARES": {ChangesOutput: 20}}
    start_urls = urls("/links?to=/a&to=/b", "/1")
    parse = follows


class KeepsState(Row):
    """Spider.state, which JOBDIR keeps."""

    start_urls = urls("/1", "/2")
    runs = (("-s", "JOBDIR=job"), ("-s", "JOBDIR=job"))

    def parse(self, response: Any) -> Any:
        self.state["seen"] = self.state.get("seen", 0) + 1
        yield {"seen": self.state["seen"] > 0}
