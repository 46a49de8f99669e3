"""Learns which fields of items differ at nearly every visit, and leaves them out of what is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from weakref import WeakKeyDictionary

from scrapy.http import Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import (
    Page,
    Recorded,
    State,
    Visit,
    fields_left_out,
    note_fields,
    use_rules,
    without_gaps,
)
from hacs_crawler.utils.loop import begin
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import MarkRules, Rules, field_bits, item_key

logger = safe_logger(__name__)

Items = dict[int, dict[str, int]]


class VolatileFields(Part):
    """Has the fields of items kept, and reads items without those that are volatile.

    Which these are is read when a round begins: within one, all pages are read alike.
    """

    def __init__(self, crawl: Crawl, rules: MarkRules) -> None:
        self._crawl = crawl
        self._base = rules.fingerprint
        self._rules = rules
        self._left_out: list[str] = []
        self._outdated: set[int] = set()
        self._shown: WeakKeyDictionary[Response, Items] = WeakKeyDictionary()
        self._waiting: dict[int, Items] = {}
        self._items = self._named = 0

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> VolatileFields | None:
        """Return the part where items can be told apart; None where their fields were chosen."""
        config = crawl.config
        if config.watch is None or not config.watch_key or config.watch_fields:
            return None
        return cls(crawl, config.watch)

    async def opened(self) -> None:
        """Read what is left out."""
        found = await self._crawl.state.once(_begun, self._base, self._crawl.config.without)
        self._left_out, self._rules, self._outdated = found

    round_began = opened  # other crawls may have learned more

    def rules(self, response: Response, rules: Rules) -> Rules:
        """Leave out what is volatile."""
        del response, rules
        return self._rules

    def shown(self, response: Response, item: object, *, is_news: bool) -> None:
        """Take the fields of an item; several of one key cannot be told apart."""
        del is_news
        config, items = self._crawl.config, self._shown.setdefault(response, {})
        self._items += 1
        if (key := item_key(item, config.watch_key)) is not None:
            self._named += 1
            items[key] = {} if key in items else field_bits(item, config.watch_ignore)

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Have the items of a visit kept."""
        items = self._shown.pop(observed.response, {})
        if not observed.reason and any(items.values()):
            kept = {key: bits for key, bits in items.items() if bits}
            self._waiting[page_id_of(observed.visit.url)] = kept
        return ()

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Write what waits, and what visits found by other rules is no gap."""
        changed = (
            without_gaps(visited.after, self._outdated) for visited in batch if self._outdated
        )
        pages = [page for page in changed if page is not None]
        waiting, self._waiting = self._waiting, {}
        if waiting or pages:
            begin(self._write(waiting, pages))

    async def _write(self, waiting: dict[int, Items], pages: list[Page]) -> None:
        try:
            await self._crawl.state.once(_write, self._base, waiting, pages)
        except StateError as error:
            self._crawl.state.on_error(error)
            logger.warning(
                "The fields that differed on %d pages were not kept: %s", len(waiting), error
            )

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Say what is left out from now on."""
        del is_asked_to_end
        left_out = await self._crawl.state.once(_left_out, self._base)
        if left_out != self._left_out:
            logger.info(
                "These fields differ at nearly every visit of nearly every page, and are no news from "
                "the next run on: %s (fields that HACS_WATCH_FIELDS names are)",
                ", ".join(left_out) or "none any more",
            )

    def sum_up(self) -> None:
        """Say where no item has what identifies it."""
        if self._items and not self._named:
            key = self._crawl.config.watch_key
            logger.warning(
                "HACS_WATCH_KEY = %r: none of %d items has such a field", key, self._items
            )
        self._items = self._named = 0


def _begun(
    state: State, base: int, without: Callable[[Iterable[str]], MarkRules]
) -> tuple[list[str], MarkRules, set[int]]:
    """Return which fields are left out, by which rules, and by which others pages were read before."""
    left_out = fields_left_out(state.store, base)
    rules = without(left_out)
    before = use_rules(state.store, base, rules.fingerprints) - rules.fingerprints
    return left_out, rules, before if left_out else set()


def _left_out(state: State, base: int) -> list[str]:
    return fields_left_out(state.store, base)


def _write(state: State, base: int, waiting: dict[int, Items], pages: list[Page]) -> None:
    if waiting:
        note_fields(state.store, base, waiting)
    if pages:
        state.restore(pages)
