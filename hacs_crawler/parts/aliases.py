"""Pages that redirect to a URL that the crawl requests anyway: they share its visit."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from msgspec.structs import replace
from scrapy import Request, signals

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.crawl.meta import page_url, tag_of, was_sent
from hacs_crawler.crawl.part import Observed
from hacs_crawler.state import Spells, Visit

# Memory for the latest visits, to which redirects may lead later: 25,000 pages of 100 links. A page
# that redirects to an older visit gets no visit.
MOST_BYTES: Final = 30_000_000


class Aliases(CrawlPart):
    """Records a visit for pages whose redirects the project's duplicate filter drops."""

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        # By URL: what makes the visits of pages that lead to it, given the visit of the URL.
        self._waiting: dict[str, list[Callable[[Visit], Visit]]] = {}
        # Visits without their marks, which their pages' spells hold packed.
        self._shown: OrderedDict[str, tuple[Visit, Spells]] = OrderedDict()
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
            visit, spells = shown
            marks = spells.shown_last() if visit.rules else None
            self._crawl.record_also(replace(of_page(visit), marks=marks), "unfinished")

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Return visits for the pages that waited for this URL, and remember the URL's visit."""
        target, visit, spells = observed.request.url, observed.visit, observed.recorded.after.spells
        self._forget(target)
        self._shown[target] = replace(visit, marks=None), spells
        self._size += _size(spells)
        while self._size > MOST_BYTES and len(self._shown) > 1:
            self._forget(next(iter(self._shown)))
        return [of_page(visit) for of_page in self._waiting.pop(target, ())]

    async def round_began(self) -> None:
        """Forget the visits of the last round."""
        self._waiting.clear()
        self._shown.clear()
        self._size = 0

    def _forget(self, target: str) -> None:
        if (shown := self._shown.pop(target, None)) is not None:
            self._size -= _size(shown[1])


def _size(spells: Spells) -> int:
    return 400 + 8 * len(spells.marks)  # about the bytes of a visit, and of its page's marks
