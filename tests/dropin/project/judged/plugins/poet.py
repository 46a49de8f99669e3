"""scrapy-poet: callbacks that ask for page objects."""

from typing import Any

from scrapy_poet import DummyResponse, callback_for
from web_poet import WebPage, field

from ..base import Row, urls


class Titled(WebPage):
    @field
    def title(self) -> str | None:
        return self.css("title::text").get()

    @field
    def links(self) -> list[str]:
        return self.css("a::attr(href)").getall()


class AsksForPages(Row):
    start_urls = urls("/1", "/links?to=/a&to=/b", "/status/404")

    async def parse(self, response: DummyResponse, page: Titled) -> Any:
        yield await page.to_item()
        for link in page.links:
            yield response.follow(link, self.linked, errback=self.failed)

    linked = callback_for(Titled)
