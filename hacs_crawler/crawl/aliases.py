"""Pages whose redirects lead to a URL that the crawl asks for anyway: they share its visit."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

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


class Aliases:
    """Brings redirects that the project's duplicate filter drops together with what they led to."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Alias]] = {}
        self._shown: OrderedDict[str, Visit] = OrderedDict()

    def add(self, target: str, alias: Alias) -> Visit | None:
        """Return the alias's visit if its target was visited already, else None until it is."""
        shown = self._shown.get(target)
        if shown is not None:
            return alias.visit(shown)
        self._waiting.setdefault(target, []).append(alias)
        return None

    def take(self, target: str, shown: Visit) -> list[Visit]:
        """Return the visits of the aliases that waited for a URL, and remember what it showed."""
        self._shown[target] = shown
        if len(self._shown) > MOST_REMEMBERED:
            self._shown.popitem(last=False)
        return [alias.visit(shown) for alias in self._waiting.pop(target, ())]
