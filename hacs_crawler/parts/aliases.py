"""Pages whose redirects lead to a URL that the crawl asks for anyway: they share its visit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.msgpack import decode, encode
from msgspec.structs import replace
from scrapy import Request, signals

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.crawl.meta import page_url, tag_of, was_sent
from hacs_crawler.crawl.part import Observed
from hacs_crawler.state import Prediction, Visit

# How much of the latest visits is kept, for pages that turn out later to redirect to them.
#
# 25,000 pages of 100 links each. If the visit is older, the page that redirects to it gets none.
MOST_BYTES: Final = 30_000_000


@dataclass(frozen=True, slots=True)
class Alias:
    """A page whose redirect was filtered out, and the prediction for its visit."""

    page_url: str
    prediction: Prediction | None

    def visit(self, shown: Visit) -> Visit:
        """Return this page's visit, given the visit of the URL behind the redirect."""
        return replace(shown, url=self.page_url, prediction=self.prediction)


class Aliases(CrawlPart):
    """Joins redirects that the project's duplicate filter drops with the visits of their targets."""

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._waiting: dict[str, list[Alias]] = {}
        self._shown: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        crawl.crawler.signals.connect(self.on_dropped, signals.request_dropped)

    def on_dropped(self, request: Request) -> None:
        """Record the visit that the redirect of a page leads to; without one the page waits."""
        url = page_url(request)
        if url is None or not self._crawl.is_open or not was_sent(request):
            return
        alias = Alias(url, tag_of(request).prediction)
        if (shown := self._shown.get(request.url)) is None:
            self._waiting.setdefault(request.url, []).append(alias)
        else:
            self._crawl.record_also(alias.visit(decode(shown, type=Visit)), "unfinished")

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Return the visits of the pages that waited for a URL, and remember the URL's visit."""
        target = observed.request.url
        self._remember(target, observed.visit)
        return [alias.visit(observed.visit) for alias in self._waiting.pop(target, ())]

    def _remember(self, target: str, shown: Visit) -> None:
        self._size -= len(self._shown.pop(target, b""))
        # of many visits: a single object, which the collector passes by
        self._shown[target] = encode(shown)
        self._size += len(self._shown[target])
        while self._size > MOST_BYTES and len(self._shown) > 1:
            self._size -= len(self._shown.popitem(last=False)[1])

    async def round_began(self) -> None:
        """Forget the visits of the last round: the URLs are requested again in the new round."""
        self._waiting.clear()
        self._shown.clear()
        self._size = 0
