"""scrapy-zyte-api: every request goes through an API, which the site plays."""

from typing import Any

from ..base import Row, url, urls


class GoesThroughAnApi(Row):
    start_urls = urls("/1", "/links?to=/a&to=/b", "/2", "/1")

    async def start(self) -> Any:
        async for one in super().start():
            yield one
        yield self.page("/3", meta={"zyte_api_automap": {"browserHtml": True}})
        yield self.page("/4", meta={"zyte_api_automap": False})

    def parse(self, response: Any) -> Any:
        yield {
            "url": response.url,
            "flags": response.flags,
            "title": response.css("title::text").get(),
        }
        for link in response.css("a::attr(href)").getall():
            yield self.page(link)
        if response.url == url("/2"):
            yield self.page("/status/503")
