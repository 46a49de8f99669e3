"""scrapy-playwright: pages through a browser, beside others without."""

from typing import Any

from ..base import Row


class OpensABrowser(Row):
    async def start(self) -> Any:
        yield self.page("/1", meta={"playwright": True})
        yield self.page(
            "/links?to=/a&to=/b", meta={"playwright": True, "playwright_include_page": True}
        )
        yield self.page("/status/404", meta={"playwright": True})
        yield self.page("/2")

    async def parse(self, response: Any) -> Any:
        page = response.meta.get("playwright_page")
        title = await page.title() if page is not None else response.css("title::text").get()
        if page is not None:
            await page.close()
        yield {"url": response.url, "title": title}
        for link in response.css("a"):
            yield response.follow(link, callback=self.parse, errback=self.failed)
