"""Rejects two spiders that watch a page differently in one namespace: each visit would be a baseline."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct, to_builtins
from scrapy.http import Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.state import News, Page, Recorded, State, change_note, read_note
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.watch import ONLY_REQUESTS, Rules

logger = safe_logger(__name__)

NOTE: Final = "watchers"
_READ_FROM: Final[dict[str, str]] = {
    "JSON": '"items", or "jmespath:…"',
    "plain text": '"items", or a function',
    "XML": '"items", or "xpath:…"',
    "HTML": '"items", or "css:…"',
}


class _Watcher(Struct):
    watch: str
    rules: list[int]
    # The rules of the spider's runs with other settings.
    former: list[int] = []


class Watchers(CrawlPart):
    """Ends a crawl when it visits a page that another spider watches differently.

    Also warns if no page shows the watched marks.
    """

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._others: dict[int, tuple[str, str]] = {}
        self._visits = 0
        self._without_links, self._bare = 0, ""
        self._is_ours = crawl.crawler.spidercls.__module__.startswith("hacs_crawler.")

    async def opened(self) -> None:
        """Read the rules of other spiders, and note this spider's."""
        crawl = self._crawl
        config = crawl.config
        rules = [replace(config.rules, rendered=rendered) for rendered in (False, True)]
        own = _Watcher(config.watched_as, sorted(each.fingerprint for each in rules))
        # wayback gives other spiders' pages a past
        is_noted = own.watch != "links" or not self._is_ours
        noted = own if is_noted else None
        others = await crawl.state.once(_note, crawl.crawler.spidercls.name, noted)
        # a page by former rules may be this spider's own; if not, the other spider notices it
        mine = {*own.rules, *own.former}
        self._others = {
            fingerprint: (name, watcher.watch)
            for name, watcher in others.items()
            for fingerprint in watcher.rules
            if fingerprint not in mine
        }
        self.unneeded = () if self._others else ("rules",)

    def rules(self, response: Response, rules: Rules, page: Page | None) -> Rules:
        """End the crawl if another spider reads the page by other rules."""
        other = None if page is None else self._others.get(page.latest_rules)
        if page is not None and other is not None:
            (spider, watch), config = other, self._crawl.config
            how = f"HACS_WATCH = {watch!r}"
            if watch == config.watched_as:
                of_items = "fields, HACS_WATCH_KEY or HACS_WATCH_IGNORE"
                of_links = "HACS_LINKS, HACS_LINKS_ALLOW or HACS_LINKS_DENY"
                how += f" with other {of_links if config.watch is None else of_items}"
            self._crawl.fail(
                f"{page.url} is also watched by the spider {spider!r}, but differently ({how}): let "
                "both watch the same, or give one of them its own HACS_NAMESPACE"
            )
        return rules

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Count visits with watched marks, and new pages without a link."""
        self._visits += sum(
            recorded.visit.marks is not None and recorded.visit.rules != ONLY_REQUESTS.fingerprint
            for recorded in batch
        )
        bare = [
            recorded.visit.url
            for recorded in batch
            if recorded.visit.marks is None
            and recorded.visit.news is News.SEEN
            and not (recorded.visit.digest or recorded.before.visits)
            and not (recorded.visit.hrefs and self._crawl.config.link_rules.narrowed_by)
        ]
        self._without_links += len(bare)
        self._bare = self._bare or next(iter(bare), "")

    def sum_up(self) -> None:
        """Log why pages are not recorded, or show no watched mark: a setting may be wrong."""
        stats, config = self._crawl.stats, self._crawl.config
        others, answers, read_from = stats.other_answers, stats.answers, _READ_FROM
        if not stats.has_pages and not stats.readable_answers:
            # such as the feeds of an XMLFeedSpider, which are pages only if items are watched
            others, answers, read_from = stats.unread_answers, stats.unread_answers.total(), {}
        if others.total():
            kinds, number = [kind for kind, _ in others.most_common()], others.total()
            are_most = 2 * number > answers
            advice = ". Set HACS_WATCH = " + read_from.get(kinds[0], '"items"')
            logger.log(
                logging.WARNING if are_most else logging.INFO,
                "HACS_WATCH = %r cannot read %s: %d of %s%s",
                config.watched_as,
                " or ".join(kinds),
                number,
                counted(answers, "answer"),
                advice if are_most else "",
            )
        if stats.posted:
            # a form that leads to other requests, such as a login, is rarely a page
            has_others = stats.has_pages or stats.not_a_page is not None
            logger.log(
                logging.INFO if has_others else logging.WARNING,
                '%s: set meta["hacs_page"] of the request to a URL that no other request has (a '
                'fragment makes no difference), as in meta={"hacs_page": f"{url}?page={page}"}',
                stats.posted,
            )
        empty = stats.get("not_observed/nothing_shown")
        if empty and not self._visits and config.watch is not None:
            lists = {"FIELDS": config.watch_fields, "IGNORE": config.watch_ignore}
            fields = "".join(f", HACS_WATCH_{k} = {[*v]}" for k, v in lists.items() if v)
            # lists were visited: their requests are watched
            advice = "; leave pages out by HACS_PAGES if they never have items" * bool(
                stats.get("visits")
            )
            said = "HACS_WATCH = %r%s: found on none of the pages that answered (%d)%s"
            logger.warning(said, config.watched_as, fields, empty, advice)
        if config.watch is None and self._without_links:
            logger.info(
                'Nothing is watched on %s without a link, such as %s: HACS_WATCH = "text" or "css:…" '
                "watches words",
                counted(self._without_links, "new page"),
                self._bare,
            )
        items = stats.collector.get_value("item_scraped_count")
        baselines = stats.get("first_visits") + stats.get("baselines")
        is_quiet = stats.get("visits") > baselines and not stats.get("updates")
        if config.watch is None and items and is_quiet and not self._is_ours:
            logger.info(
                'No page had a new link. To watch the items of this spider, set HACS_WATCH = "items"'
            )


def _note(state: State, spider: str, own: _Watcher | None) -> dict[str, _Watcher]:
    """Write a spider's rules if they changed, with its former ones; return the rules of the others."""
    watchers = read_note(state.store, NOTE, dict[str, _Watcher]) or {}
    before = watchers.pop(spider, None)
    if own is not None and before is not None:
        own.former = sorted({*before.rules, *before.former} - {*own.rules})
    if own == before:
        return watchers

    def changed(notes: dict[str, _Watcher] | None) -> object:
        kept = {name: watcher for name, watcher in (notes or {}).items() if name != spider}
        if own is not None:
            kept[spider] = own
        return to_builtins(kept)

    change_note(state.store, NOTE, dict[str, _Watcher], changed)
    return watchers
