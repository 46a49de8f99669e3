"""Item pipelines."""

from __future__ import annotations

from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem, NotConfigured

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.middlewares.link_additions import LinkAdditionsMiddleware


class OnlyChanges:
    """Drops items that are no news: their page showed them before, as HACS_UPDATES says.

    A page's first visit, and one after a change of what is watched, pass all. So does a visit whose
    callback failed afterwards: its items come again at the next one.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._are_news: dict[int, tuple[Any, bool]] = {}
        for lost in (signals.item_dropped, signals.item_error):  # by a pipeline before this one
            crawler.signals.connect(self._forget, lost)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> OnlyChanges:
        """Raise NotConfigured where items are not watched."""
        if not Crawl.of(crawler).config.takes_items:
            raise NotConfigured('OnlyChanges needs HACS_WATCH = "items"')
        return cls(crawler)

    def open_spider(self, spider: Spider | None = None) -> None:
        """Ask to be told of each item whether it is news."""
        del spider
        middleware = self._crawler.get_spider_middleware(LinkAdditionsMiddleware)
        assert isinstance(middleware, LinkAdditionsMiddleware)  # noqa: S101 - the add-on put it there
        middleware.are_news = self._are_news

    def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        """Drop an item that is no news; one that another pipeline made anew passes."""
        del spider
        _, is_news = self._are_news.pop(id(item), (item, True))
        if not is_news:
            raise DropItem("its page showed it before", log_level="DEBUG")
        return item

    def _forget(self, item: Any) -> None:
        self._are_news.pop(id(item), None)
