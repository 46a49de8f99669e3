"""Item pipelines."""

from dataclasses import dataclass
from typing import Any, Final, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem, NotConfigured
from twisted.python.failure import Failure

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.outputs import Verdict
from hacs_crawler.middlewares.link_additions import LinkAdditionsMiddleware
from hacs_crawler.utils.settings import object_at
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.watch import MarkRules, UnreadableMarksError

logger = safe_logger(__name__)

# Spider middlewares of a lower order see items after HACS, and may replace them.
_MIDDLEWARE_ORDER: Final = 40
_DROPPED: Final = "its page showed it before, or was not read"


@dataclass(frozen=True, slots=True, eq=False)
class _JudgedItem:
    item: Any
    marks: frozenset[int]
    verdict: Verdict | None


class OnlyChanges:
    """Drops items that are not new: their page showed them before, by HACS_UPDATES.

    All items pass at a page's first visit, and at the first after a change of HACS_WATCH; if
    HACS_UPDATES is "site", only those that no other page has shown. If a callback fails, its new
    items pass, and again at the next visit. Items of answers that are not the page are dropped,
    too: of rejected answers, and from the page's second visit on, of 2xx answers that are not
    observed, such as truncated ones, items without a value in any watched field, and items that
    most pages of the site show in place of their own. An item is recognized by identity, or by its
    values in the watched fields. A copy with other values passes, is counted in
    `hacs/unknown_items`, and logged once.
    """

    def __init__(self, crawler: Crawler, rules: MarkRules) -> None:
        self._crawler = crawler
        self._rules = rules
        # By id and by marks, in the order of the output: an object may be yielded several times.
        self._verdicts: dict[int | frozenset[int], list[_JudgedItem]] = {}
        # Unknown items in later pipelines, by id; False if unreadable, which has its own line.
        self._unknown: dict[int, bool] = {}
        self._outside = 0
        self._has_warned = False
        for lost in (signals.item_dropped, signals.item_error):
            crawler.signals.connect(self._forget, lost)
        for end in (signals.item_scraped, signals.item_dropped, signals.item_error):
            crawler.signals.connect(self._judge_unknown, end)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raise NotConfigured unless items are watched."""
        crawl = Crawl.of(crawler)
        if crawl.failure is not None:  # such as a wrong setting, which has its own line
            raise NotConfigured
        rules = crawl.config.watch
        if rules is None or not rules.takes_items:
            raise NotConfigured('OnlyChanges needs HACS_WATCH = "items"')
        return cls(crawler, rules)

    def open_spider(self, spider: Spider | None = None) -> None:
        """Subscribe to the middleware's verdicts on items."""
        middleware = self._crawler.get_spider_middleware(LinkAdditionsMiddleware)
        if isinstance(middleware, LinkAdditionsMiddleware):
            middleware.on_item = self._tell
        else:
            msg = "OnlyChanges needs the add-on: add hacs_crawler.addon.HacsAddon to ADDONS"
            Crawl.of(self._crawler).fail(msg)

    def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        """Drop an item that is not new."""
        judged, stats = self._taken(item), Crawl.of(self._crawler).stats
        if judged is None:
            stats.count("unknown_items")
            self._unknown[id(item)] = bool(self._marks_of(item))
        elif judged.verdict in {"known", "passed", "unread"}:
            is_unread = judged.verdict == "unread"
            stats.count("unread_items") if is_unread else stats.count("unchanged_items")
            raise DropItem(_DROPPED, log_level="DEBUG")
        return item

    def close_spider(self, spider: Spider | None = None) -> None:
        """Warn of items that are not from pages."""
        crawl = Crawl.of(self._crawler)
        if any(self._unknown.values()):  # a later pipeline replaced these
            self._warn()
        if self._outside and crawl.failure is None:
            remedies, stats = list[str](), crawl.stats
            if stats.not_a_page is not None:
                remedies += ['HACS_PAGES = "all"'] * (crawl.config.pages != "all")
                remedies.append('meta["hacs"] = True in requests')
            if remedies or stats.posted:
                remedies.append('meta["hacs_page"] of each POST request to a URL of its own')
                stats.posted = ""  # else the summary repeats this advice
            logger.warning(
                "%s came from start() or answers that are not pages, and will pass in every run%s",
                counted(self._outside, "item"),
                f": set {', or '.join(remedies)}" * bool(remedies),
            )

    def _tell(self, item: Any, verdict: Verdict | None) -> None:
        self._outside += verdict is None
        judged = _JudgedItem(item, self._marks_of(item), verdict)
        for key in (id(item), judged.marks):
            self._verdicts.setdefault(key, []).append(judged)

    def _taken(self, item: Any) -> _JudgedItem | None:
        """Remove and return the verdict on an item, or on an item with the same values."""
        waiting = self._verdicts.get(id(item)) or self._verdicts.get(self._marks_of(item))
        if not waiting:
            return None
        judged = waiting[0]
        for key in (id(judged.item), judged.marks):
            self._verdicts[key].remove(judged)
            if not self._verdicts[key]:
                del self._verdicts[key]
        return judged

    def _forget(self, item: Any, exception: DropItem | None = None) -> None:
        """Forget the verdict on an item that an earlier pipeline dropped or failed on."""
        is_own = exception is not None and exception.args[:1] == (_DROPPED,)
        # if dropped here, the item may be a copy that took the verdict on an equal item
        if not is_own and id(item) in self._verdicts:
            self._taken(item)

    def _judge_unknown(self, item: Any, response: object) -> None:
        """Warn of an unknown item, but not if an errback yielded it, whose items only Scrapy sees."""
        is_readable = self._unknown.pop(id(item), None)
        if is_readable is not None and isinstance(response, Failure):
            Crawl.of(self._crawler).stats.count("unknown_items", -1)
        elif is_readable:
            self._warn()

    def _marks_of(self, item: Any) -> frozenset[int]:
        try:
            return self._rules.marks_of(item)
        except UnreadableMarksError:
            return frozenset()

    def _warn(self) -> None:
        if self._has_warned or Crawl.of(self._crawler).failure is not None:
            return
        self._has_warned = True
        settings = self._crawler.settings
        pipelines = settings.getwithbase("ITEM_PIPELINES")
        own = [order for key, order in pipelines.items() if object_at(key) is OnlyChanges]
        before = [key for key, order in pipelines.items() if order is not None and order < min(own)]
        others = [
            key
            for key, order in settings.getdict("SPIDER_MIDDLEWARES").items()
            if order is not None and order < _MIDDLEWARE_ORDER
        ]
        names = ", ".join(getattr(key, "__name__", str(key)) for key in [*before, *others])
        logger.warning(
            "OnlyChanges passes unknown items, since a component before it replaces items: move it "
            "before other pipelines, and move spider middlewares to an order above %d (%s)",
            _MIDDLEWARE_ORDER,
            names or "none is set before it",
        )
