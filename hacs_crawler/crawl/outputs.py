"""What callbacks yield: requests take over what they follow from, and it is counted what came."""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.http import Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.links import page_id_of
from hacs_crawler.outcome import Outcome


class Output:
    """What one callback yields for one response."""

    def __init__(self, response: Response, crawl: Crawl) -> None:
        self._crawl = crawl
        request = response.request
        self._request = request
        meta = {} if request is None else request.meta
        self._inherited = {key: meta[key] for key in crawl.parts.inherited if key in meta}
        self._names_pages = crawl.care is not None and crawl.care.names_pages(response)
        self._is_after_form = request is not None and bool(request.meta.get("hacs_after_form"))
        self._items = self._requests = 0

    def note(self, entry: Any) -> Any:
        """Return an entry of the output, with what it takes over."""
        if not isinstance(entry, Request):
            self._items += entry is not None
            return entry
        self._requests += 1
        meta = entry.meta
        for key, value in self._inherited.items():
            meta.setdefault(key, value)
        if self._names_pages:
            meta.setdefault("hacs_of_list", True)
        if self._is_after_form:
            meta.setdefault("hacs_after_form", True)
        return entry

    def end(self) -> None:
        """Note that nothing else comes."""
        request = self._request
        if request is None or not self._crawl.is_open:
            return
        outcome = request.meta.get("hacs")
        if self._crawl.asked is not None and isinstance(outcome, Outcome):
            page_id = page_id_of(outcome.url)
            self._crawl.asked.note_output(page_id, items=self._items, requests=self._requests)
