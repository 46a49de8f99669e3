"""What spiders of tests have in common that begin with a few pages of a site."""

from typing import Any, ClassVar, Self

import scrapy
from scrapy.crawler import Crawler

from hacs_crawler.signals import page_visited


class Seeded(scrapy.Spider):
    """Begins with `paths` of the site whose address it is given; `visited` is told of each visit."""

    name = "seeded"
    paths: ClassVar[list[str]] = ["/"]

    def __init__(self, url: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.start_urls = [url + path for path in self.paths]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        if hasattr(spider, "visited"):
            crawler.signals.connect(spider.visited, page_visited)
        return spider
