"""Keeps what updates brought as text, so that a report can say what was found, and not only how much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from weakref import WeakKeyDictionary

from scrapy.http import Response, TextResponse

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.observation import is_html, tree_of
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import link_fingerprint, page_id_of, page_links
from hacs_crawler.state import Findings, Recorded, State, Visit, findings_text, write_findings
from hacs_crawler.utils.loop import begin
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import MarkRules

logger = safe_logger(__name__)


class FindingsWriter(Part):
    """Notes what is new where a visit finds an update, and has it written once the visit is."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._waiting: dict[int, Findings] = {}
        self._items: WeakKeyDictionary[Response, list[str]] = WeakKeyDictionary()

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> FindingsWriter:
        """Return the part of a crawl."""
        return cls(crawl)

    def shown(self, response: Response, item: object, *, is_news: bool) -> None:
        """Keep the text of an item: pipelines may change it before the visit ends."""
        if is_news:
            from hacs_crawler.watch import item_text  # noqa: PLC0415 - few crawls watch items

            items = self._items.setdefault(response, [])
            if len(items) < self._crawl.config.findings:
                items.append(item_text(item))

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Keep what an update brought; most visits find none."""
        recorded = observed.recorded
        items = self._items.pop(observed.response, ()) if self._items else ()
        if recorded.updated and recorded.is_known and not observed.reason:
            texts = items or _new_things(self._crawl, observed.response, recorded.new_marks)
            things = tuple(map(findings_text, islice(texts, self._crawl.config.findings)))
            if things:
                page_id = page_id_of(observed.visit.url)
                self._waiting[page_id] = Findings(observed.visit.at, things)
        return ()

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Write what waits."""
        del batch
        if self._waiting:
            begin(self._write())

    async def closing(self) -> None:
        """Write the rest."""
        await self._write()

    async def _write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        try:
            await self._crawl.state.once(_write, waiting)
        except StateError as error:
            self._crawl.state.on_error(error)
            logger.warning(
                "What %d updates brought could not be written as text: %s", len(waiting), error
            )


def _new_things(crawl: Crawl, response: Response, marks: frozenset[int]) -> Iterator[str]:
    """Yield what a response shows that has one of the marks: links with their texts, or other texts."""
    rules = crawl.rules(response)
    tree = tree_of(response) if isinstance(response, TextResponse) and is_html(response) else None
    if isinstance(rules, MarkRules):
        for thing in rules.read(response, tree):
            if not rules.marks_of(thing).isdisjoint(marks):
                yield thing if isinstance(thing, str) else thing.decode("utf-8", "replace")
        return
    for link, text in page_links(tree, response.url):
        identity = rules.volatile.identity(link) if rules.volatile is not None else link
        if link_fingerprint(identity) in marks:
            yield f"{text} {link}".strip()


def _write(state: State, found: dict[int, Findings]) -> None:
    write_findings(state.store, found)
