"""Keeps the items of each page's last visit, so that a changed item can show its old values."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
from scrapy import Request
from scrapy.http import Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import PageWriter
from hacs_crawler.crawl.part import Observed
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Page, State, Visit, change_annotations
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.watch import EMPTY, item_fields, item_key

logger = safe_logger(__name__)

KIND: Final = "items"
# How many items of a page are kept.
MOST_ITEMS: Final = 100
ENOUGH_ITEMS: Final = 20
ENOUGH_EMPTIED: Final = 5
# If an item has fewer filled fields beside its page's address, an update may replace all of them.
FEWEST_FIELDS: Final = 3
# A field that changes, or becomes empty, in this share of the items is logged.
NEARLY_ALL: Final = 0.9

Items = dict[int, dict[str, Any]]


class Kept(msgspec.Struct, array_like=True):
    """The items of the visit at second `at`, and the items that they `replaced`."""

    at: int = 0
    items: Items = {}
    replaced: Items = {}


_NONE: Final = Kept()
_decode: Final = msgspec.json.Decoder(Kept).decode
_encode: Final = msgspec.json.Encoder().encode


class LastItems(PageWriter[Kept]):
    """Keeps the fields of items by the field HACS_WATCH_KEY, and of a page's only item without it.

    The key of items without such a field is 0.
    """

    content = "the fields of items"

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._before: dict[str, Kept] = {}
        self._shown: WeakKeyDictionary[Response, list[tuple[int, dict[str, Any]]]]
        self._shown = WeakKeyDictionary()
        self._begin()

    def _begin(self) -> None:
        self._differed, self._emptied, self._fields = Counter[str](), Counter[str](), set[str]()
        self._compared = self._items = self._named = self._replaced = 0
        # How many more items are on pages whose items all have the same key, and such a key.
        self._alike, self._example = 0, None
        # Pages whose only item `doubts` rejected.
        self._unlike: list[str] = []
        # Whether any page was visited by these settings before.
        self._is_again = False

    async def answered(self, request: Request, response: Response, page_url: str) -> Response:
        """Read the items of the page's last visit."""
        self._before[page_url] = await self._crawl.state.once(_read, page_id_of(page_url))
        return response

    def items_before(self, page_url: str, response: Response) -> Items:
        """Return the fields of the page's items at its last visit, by their keys."""
        items = self._items_before(page_url)
        # several items without a key cannot be matched with a single one
        is_several = [key for key, _ in self._shown.get(response, ())].count(0) > 1
        return {key: of for key, of in items.items() if key} if is_several else items

    def _items_before(self, page_url: str) -> Items:
        kept = self._before.get(page_url, _NONE)
        page = self._crawl.state.write_behind.page(page_url)
        if page is not None and kept.at in page.visits and kept.at not in page.sound.shown_at:
            # that visit turned out not to show the page
            return {**kept.items, **kept.replaced} if kept.replaced else {}
        return kept.items

    def doubts(self, page: Page, item: object, marks: frozenset[int]) -> bool:
        """Whether a page's only item has lost fields, and kept none but the page's address.

        So does a block page, also if it shows something else at each request. The next attempt decides.
        """
        before, watches = self._items_before(page.url), self._crawl.config.watches_field
        if len(before) != 1 or page.failures:
            return False
        (had,), has = before.values(), item_fields(item)
        filled = {name: was for name, was in had.items() if was not in EMPTY and watches(name)}
        names = [name for name, was in filled.items() if was != page.url]
        is_doubted = (
            len(names) >= FEWEST_FIELDS
            and any(has.get(name) in EMPTY for name in names)
            and not any(has.get(name) == had[name] for name in names)
        )
        if is_doubted:
            self._unlike.append(page.url)
        return is_doubted

    def shown(
        self, response: Response, item: object, marks: frozenset[int], *, may_be_news: bool
    ) -> None:
        """Keep the fields of an item now: pipelines may change the item before the visit ends."""
        config = self._crawl.config
        key = item_key(item, config.watch_key)
        self._items += 1
        self._named += key is not None or not config.watch_key
        shown = self._shown.setdefault(response, [])
        # without a key, only the fields of a page's only item are kept
        if len(shown) < 2 or config.watch_key or config.watch_fields or config.watch_ignore:
            fields = item_fields(item)
            self._fields |= fields.keys()
            shown.append((key or 0, fields))

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Keep the items of a visit, and compare their fields with the visit before."""
        config, shown = self._crawl.config, self._shown.pop(observed.response, [])
        url, rules_before = observed.visit.url, observed.recorded.before.latest_rules
        before = self._items_before(url)
        latest = self._before.pop(url, _NONE)
        keys = Counter(key for key, _ in shown)
        items = {key: fields for key, fields in shown[:MOST_ITEMS] if keys[key] == 1}
        # a field that always differs makes a visit doubtful
        if observed.reason not in {"", "doubtful"} or not shown:
            return ()
        self._is_again |= rules_before == observed.visit.rules
        if items != latest.items and not observed.reason:
            replaced = {key: of for key, of in before.items() if items.get(key) != of}
            self.unwritten[page_id_of(url)] = Kept(observed.visit.at, items, replaced)
        named, is_alike = shown[0][1].get(config.watch_key), len(keys) == 1
        if named is not None and len(observed.visit.marks or ()) > 1:
            self._alike += len(shown) if is_alike else -len(shown)
            self._example = named if is_alike else self._example
        elif observed.reason and not config.watch_key:
            had, has = (
                observed.recorded.before.sound.spells.shown_last(),
                observed.visit.marks or (),
            )
            self._replaced += len(had) == len(has) and had.isdisjoint(has)
        self._compared += len(keys_of_both := items.keys() & before.keys())
        for key in keys_of_both:
            for name, value in items[key].items():
                if value == (was := before[key].get(name)):
                    continue
                if was not in EMPTY:
                    (self._emptied if value in EMPTY else self._differed)[name] += 1
                if config.watches_field(name):
                    logger.debug("%s: %s %s, was %s", url, name, value, was)
        return ()

    def write(self, state: State, unwritten: Mapping[int, Kept]) -> None:
        """Replace the items of the visits before."""
        change_annotations(
            state.store, KIND, unwritten, lambda page_id, _: _encode(unwritten[page_id])
        )

    def sum_up(self) -> None:
        """Log fields that nearly always change or became empty, and wrong fields in settings."""
        config = self._crawl.config
        # one of several spiders with these settings may have no such field
        level = logging.INFO if self._is_again else logging.WARNING
        if self._items and not self._named:
            said = "HACS_WATCH_KEY = %r: none of %d items has such a field"
            logger.warning(said, config.watch_key, self._items)
        for setting, names in (
            ("HACS_WATCH_FIELDS", config.watch_fields),
            ("HACS_WATCH_IGNORE", config.watch_ignore),
        ):
            if self._items and (unknown := [name for name in names if name not in self._fields]):
                none_of = counted(self._items, "item")
                logger.log(level, "%s: none of %s has %s", setting, none_of, ", ".join(unknown))
        self._say_what_was_doubted()
        if self._replaced:
            logger.info(
                "%s showed as many items as before, but none of them again. If a field differs at every "
                "visit, the log will name it once HACS_WATCH_KEY is set, such as to an id or a URL",
                counted(self._replaced, "page"),
            )
        if self._alike > 0:
            logger.log(
                level,
                "HACS_WATCH_KEY = %r distinguishes nothing: all items of a page have the same, such as "
                "%r. Set it to a field that differs between the items of a page, such as an id or a URL",
                config.watch_key,
                self._example,
            )
        for name, items in self._emptied.most_common():
            if items >= max(ENOUGH_EMPTIED, NEARLY_ALL * self._compared):
                said = "The field %r has become empty in %d of %d items: a selector may no longer match"
                logger.warning(said, name, items, self._compared)
        for name, items in self._differed.most_common():
            is_often = self._compared >= ENOUGH_ITEMS and items >= NEARLY_ALL * self._compared
            if is_often and config.watches_field(name):
                said = (
                    "The field %r differed in %d of %d items: HACS_WATCH_IGNORE = [%r] leaves it out; "
                    "then each page's next visit is a baseline. The updates that it has made stay in "
                    "the estimates: another HACS_NAMESPACE begins without them"
                )
                logger.info(said, name, items, self._compared, name)
                break
        self._begin()

    def _say_what_was_doubted(self) -> None:
        if self._unlike:
            logger.warning(
                "%s none of the values of the page's own, and fewer, as of a block page or a login: "
                "they do not count; one is of %s",
                counted(len(self._unlike), "item had", "items had"),
                self._unlike[0],
            )


def _read(state: State, page_id: int) -> Kept:
    value = state.store.annotations(KIND, [page_id]).get(page_id)
    try:
        return _decode(value) if value else _NONE
    except msgspec.DecodeError:
        return _NONE
