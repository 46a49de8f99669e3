"""Pages that redirect to a URL that the crawl requests anyway: they share its visit."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from msgspec.msgpack import decode, encode
from msgspec.structs import replace
from scrapy import Request, signals

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.crawl.meta import page_url, tag_of, was_sent
from hacs_crawler.crawl.part import Observed
from hacs_crawler.state import Visit

# Memory for the latest visits, to which redirects may lead later: 25,000 pages of 100 links. A page
# that redirects to an older visit gets no visit.
MOST_BYTES: Final = 30_000_000


class Aliases(CrawlPart):
    """Records a visit for pages whose redirects the project's duplicate filter drops."""

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        # By URL: what makes the visits of pages that lead to it, given the visit of the URL.
        self._waiting: dict[str, list[Callable[[Visit], Visit]]] = {}
        self._shown: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        crawl.crawler.signals.connect(self.on_dropped, signals.request_dropped)

    def on_dropped(self, request: Request) -> None:
        """Record the target's visit for a page whose redirect was dropped, or wait for that visit."""
        url = page_url(request)
        if url is None or not self._crawl.is_open or not was_sent(request):
            return
        of_page = partial(replace, url=url, prediction=tag_of(request).prediction)
        if (shown := self._shown.get(request.url)) is None:
            self._waiting.setdefault(request.url, []).append(of_page)
        else:
            self._crawl.record_also(of_page(decode(shown, type=Visit)), "unfinished")

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Return visits for the pages that waited for this URL, and remember the URL's visit."""
        target = observed.request.url
        self._size -= len(self._shown.pop(target, b""))
        # encoded, because the garbage collector would have to traverse many visits
        self._shown[target] = encode(observed.visit)
        self._size += len(self._shown[target])
        while self._size > MOST_BYTES and len(self._shown) > 1:
            self._size -= len(self._shown.popitem(last=False)[1])
        return [of_page(observed.visit) for of_page in self._waiting.pop(target, ())]

    async def round_began(self) -> None:
        """Forget the visits of the last round."""
        self._waiting.clear()
        self._shown.clear()
        self._size = 0
