"""Item pipelines."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem, NotConfigured
from scrapy.utils.misc import load_object

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.middlewares.link_additions import LinkAdditionsMiddleware
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import MarkRules, UnreadableMarksError

logger = safe_logger(__name__)

# Spider middlewares of a lower order see items after HACS, and may make others of them.
_MIDDLEWARE_ORDER = 40


class _ToldItem(NamedTuple):
    item: Any
    marks: frozenset[int]
    is_news: bool


class OnlyChanges:
    """Drops items that are not news: their page showed them before, as HACS_UPDATES says.

    A page's first visit, and the first after a change of HACS_WATCH, pass all items. So does a visit
    whose callback failed later: its items come again at the next visit. An item is recognized if it is
    the same object, or has the same values in the watched fields. A copy with other values passes, is
    counted in `hacs/unknown_items`, and logged once.
    """

    def __init__(self, crawler: Crawler, rules: MarkRules) -> None:
        self._crawler = crawler
        self._rules = rules
        self._by_id: dict[int, _ToldItem] = {}
        self._by_marks: dict[frozenset[int], list[_ToldItem]] = defaultdict(list)
        self._has_warned = False
        # in an earlier pipeline
        for lost in (signals.item_dropped, signals.item_error):
            crawler.signals.connect(self._forget, lost)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> OnlyChanges:
        """Raise NotConfigured unless items are watched."""
        rules = Crawl.of(crawler).config.watch
        if rules is None or not rules.takes_items:
            raise NotConfigured('OnlyChanges needs HACS_WATCH = "items"')
        return cls(crawler, rules)

    def open_spider(self, spider: Spider | None = None) -> None:
        """Ask the middleware to say of each item whether it is news."""
        del spider
        middleware = self._crawler.get_spider_middleware(LinkAdditionsMiddleware)
        if isinstance(middleware, LinkAdditionsMiddleware):
            middleware.told_items = self._tell
        else:
            msg = "OnlyChanges needs the add-on: add hacs_crawler.addon.HacsAddon to ADDONS"
            Crawl.of(self._crawler).fail(msg)

    def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        """Drop an item that is not news."""
        del spider
        told, stats = self._taken(item), Crawl.of(self._crawler).stats
        if told is None:
            stats.count("unknown_items")
            self._warn()
        elif not told.is_news:
            stats.count("unchanged_items")
            raise DropItem("its page showed it before", log_level="DEBUG")
        return item

    def _tell(self, item: Any, is_news: bool) -> None:
        told = _ToldItem(item, self._marks_of(item), is_news)
        self._by_id[id(item)] = told
        self._by_marks[told.marks].append(told)

    def _taken(self, item: Any) -> _ToldItem | None:
        """Return the verdict on an item, and forget it."""
        told = self._by_id.get(id(item))
        if told is None or told.item is not item:
            told = next(iter(self._by_marks.get(self._marks_of(item), ())), None)
        if told is not None:
            del self._by_id[id(told.item)]
            others = [other for other in self._by_marks.pop(told.marks) if other is not told]
            if others:
                self._by_marks[told.marks] = others
        return told

    def _forget(self, item: Any) -> None:
        self._taken(item)

    def _marks_of(self, item: Any) -> frozenset[int]:
        try:
            return self._rules.marks_of(item)
        except UnreadableMarksError:
            return frozenset()

    def _warn(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        settings = self._crawler.settings
        pipelines = settings.getwithbase("ITEM_PIPELINES")
        own = [order for key, order in pipelines.items() if _is_this(key)]
        before = [key for key, order in pipelines.items() if order is not None and order < min(own)]
        others = [
            key
            for key, order in settings.getdict("SPIDER_MIDDLEWARES").items()
            if order is not None and order < _MIDDLEWARE_ORDER
        ]
        names = ", ".join(getattr(key, "__name__", str(key)) for key in [*before, *others])
        logger.warning(
            "OnlyChanges passes items that it does not know, as something before it makes new ones: "
            "move it before the pipelines, and move spider middlewares to an order above %d (%s)",
            _MIDDLEWARE_ORDER,
            names or "none is set before it",
        )


def _is_this(key: Any) -> bool:
    try:
        return load_object(key) is OnlyChanges
    except (ImportError, NameError, TypeError, ValueError):
        return False
