"""What callbacks yield: it is counted, and requests inherit marks of the request they follow from."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from scrapy import Request
from scrapy.http import Response

from hacs_crawler.crawl.awaited import AwaitedVisit
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import KEY, tag_of, take_over
from hacs_crawler.crawl.page_filter import names_pages
from hacs_crawler.crawl.part import Part


class Output:
    """What one callback yields for one response; its visit may be one that waits for the items."""

    def __init__(
        self, response: Response, crawl: Crawl, awaited: AwaitedVisit | None = None
    ) -> None:
        self._crawl = crawl
        self._awaited = awaited
        self._response = response
        self._items = self._requests = 0

    def take(self, entry: Any) -> Any:
        """Count an entry of the output, and return it with what it inherits."""
        if not isinstance(entry, Request):
            self._items += entry is not None
            if self._awaited is not None and entry is not None:
                self._awaited.see(entry)
            return entry
        self._requests += 1
        meta = entry.meta
        for key, value in self._inherited.items():
            meta.setdefault(key, value)
        if self._names_pages or KEY in meta:
            take_over(entry, listed=self._names_pages)
            if self._awaited is not None and tag_of(entry).stage == "again":
                self._awaited.is_asked_again = True
        return entry

    @cached_property
    def _inherited(self) -> dict[str, Any]:
        meta = {} if self._response.request is None else self._response.request.meta
        return {key: meta[key] for key in self._crawl.parts.inherited if key in meta}

    @cached_property
    def _names_pages(self) -> bool:
        return self._crawl.config.pages == "start" and names_pages(self._response)

    def end(self) -> None:
        """Tell parts how much the callback yielded, once nothing else comes."""
        crawl = self._crawl
        if (
            crawl.parts.override("finished")
            and self._response.request is not None
            and crawl.is_open
        ):
            crawl.parts.tell(Part.finished, self._response, self._items, self._requests)
