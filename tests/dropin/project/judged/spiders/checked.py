"""Spiders for Scrapy's other commands."""

from typing import Any

from ..base import Row, url, urls


class Checked(Row):
    """Has contracts, which `scrapy check` tries."""

    start_urls = urls("/links?to=/a&to=/b")

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        yield from response.follow_all(css="a", callback=self.end)

    def end(self, response: Any) -> Any:
        yield {"end": response.url}

    parse.__doc__ = f"""What it yields.

    @url {url("/links?to=/a&to=/b")}
    @returns items 1 1
    @returns requests 2 2
    @scrapes url
    """
    end.__doc__ = f"""Something that it does not.

    @url {url("/a")}
    @returns items 3
    """
