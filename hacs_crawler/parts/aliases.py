"""Pages whose redirects lead to a URL that the crawl asks for anyway: they share its visit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from scrapy import Request

from hacs_crawler.crawl.meta import prediction_of
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.state import Prediction, Visit

MOST_REMEMBERED: Final = 256
"""So many of the latest visits are kept for pages that turn out later to redirect to them."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A page whose redirect was filtered out, and what was predicted of its visit."""

    page_url: str
    prediction: Prediction | None

    def visit(self, shown: Visit) -> Visit:
        """Return what a visit of the URL behind the redirect shows of this page."""
        return replace(shown, url=self.page_url, prediction=self.prediction)


class Aliases(Part):
    """Brings redirects that the project's duplicate filter drops together with what they led to."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Alias]] = {}
        self._shown: OrderedDict[str, Visit] = OrderedDict()

    def filtered(self, request: Request, page_url: str) -> Iterable[Visit]:
        """Return the visit that the redirect of a page leads to; where there is none yet, it waits."""
        alias = Alias(page_url, prediction_of(request))
        shown = self._shown.get(request.url)
        if shown is not None:
            return [alias.visit(shown)]
        self._waiting.setdefault(request.url, []).append(alias)
        return []

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Return the visits of the pages that waited for a URL, and remember what it showed."""
        target = observed.request.url
        self._shown[target] = observed.visit
        if len(self._shown) > MOST_REMEMBERED:
            self._shown.popitem(last=False)
        return [alias.visit(observed.visit) for alias in self._waiting.pop(target, ())]

    async def round_began(self) -> None:
        """Forget what was shown in the last round: it is asked for again in this one."""
        self._waiting.clear()
        self._shown.clear()
