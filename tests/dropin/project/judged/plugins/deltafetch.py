"""scrapy-deltafetch: a second run leaves out the pages of which the first has items."""

from typing import Any

from scrapy_deltafetch import DeltaFetch

from ..base import Row, urls


class FetchesDeltas(DeltaFetch):
    """What scrapy-deltafetch 2.1 lacks, and Scrapy 2.19 asks for."""

    async def process_spider_output_async(
        self, response: Any, result: Any, spider: Any = None
    ) -> Any:
        found = [one async for one in result]
        for one in self.process_spider_output(response, found, spider or self):
            yield one


class SkipsWhatItHas(Row):
    custom_settings = {"DELTAFETCH_ENABLED": True, "SPIDER_MIDDLEWARES": {FetchesDeltas: 100}}
    start_urls = urls("/links?to=/a&to=/b&to=/status/404", "/1")
    item = Row.parse

    def parse(self, response: Any) -> Any:
        yield from response.follow_all(css="a", callback=self.item, errback=self.failed)
