"""Which pages a browser showed, and records of pages and their sites: whether one is needed, its cost.

Both are annotations of the state: `PageRendering` by page id, `SiteRendering` by the `links.menu_id` of
pages that share a template.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple, TypeVar

from msgspec import DecodeError, Struct, msgpack
from msgspec.structs import replace
from scrapy.http import Response

from hacs_crawler.crawl.part import Part
from hacs_crawler.watch import Rules

# After how many visits a verdict is checked again.
CHECK_EVERY: Final = 20
# How many pages of a site speak for all its pages.
PAGES_THAT_AGREE: Final = 3
# One page in this many that spoke for a site may disagree.
_DISSENT: Final = 4
# How many visits a failure to render counts as: after the third a page is due to be checked again.
_FAILURE_VISITS: Final = 7
R = TypeVar("R", bound="PageRendering | SiteRendering")


class RenderedLinks(Part):
    """Keeps links of rendered pages apart from links of plain answers: see `LinkRules.rendered`."""

    def rules(self, response: Response, rules: Rules, page: object = None) -> Rules:
        """Return the rules for a page as a browser shows it if it is one."""
        del page
        return dataclasses.replace(rules, rendered=True) if is_rendered(response) else rules


def is_rendered(response: Response) -> bool:
    """Whether a response shows a page as a browser does: scrapy-playwright says so."""
    return "playwright" in response.flags


class Verdict(IntEnum):
    """What is needed to see a page whole."""

    UNKNOWN = 0
    PLAIN = 1
    BROWSER = 2


class PageRendering(Struct, frozen=True, array_like=True):
    """The rendering record of one page: `visits` counts the visits since the verdict was checked."""

    verdict: Verdict = Verdict.UNKNOWN
    visits: int = 0

    KIND: ClassVar = "rendering"

    def failed(self) -> PageRendering:
        """Return the record after a visit at which the page could not be rendered: no verdict."""
        if self.visits + _FAILURE_VISITS >= CHECK_EVERY:
            return PageRendering(Verdict.PLAIN)
        return replace(self, visits=self.visits + _FAILURE_VISITS)


class SiteRendering(Struct, frozen=True, array_like=True):
    """How many pages of a site need a browser, how many do not, and visits since one was checked."""

    browser: int = 0
    plain: int = 0
    visits: int = 0

    KIND: ClassVar = "rendering-site"

    @property
    def verdict(self) -> Verdict:
        """What three pages or more agree on, nearly without dissent."""
        fewer, more = sorted((self.browser, self.plain))
        if more < PAGES_THAT_AGREE or fewer * _DISSENT > more:
            return Verdict.UNKNOWN
        return Verdict.BROWSER if self.browser == more else Verdict.PLAIN

    def judged(self, before: Verdict, after: Verdict) -> SiteRendering:
        """Return the record after a check of one of its pages, whose verdict was `before`."""
        counts = [0, self.plain, self.browser]  # by verdict
        if before is not after:
            counts[before] = max(counts[before] - 1, 0)
            counts[after] += 1
        return SiteRendering(browser=counts[Verdict.BROWSER], plain=counts[Verdict.PLAIN])


class Advice(NamedTuple):
    """How to visit a page: with a browser or not, and whether to compare both."""

    rendered: bool
    # Whether a plain answer is compared only if its markup is suspicious.
    checked: bool


def advice(page: PageRendering, site: SiteRendering) -> Advice:
    """Return how to visit a page of a site: by its own verdict, else its site's, else plainly."""
    for record in (page, site):
        if record.verdict is not Verdict.UNKNOWN:
            return Advice(record.verdict is Verdict.BROWSER, record.visits + 1 >= CHECK_EVERY)
    return Advice(rendered=False, checked=True)


def shows_more(plain: AbstractSet[int], first: AbstractSet[int], second: AbstractSet[int]) -> bool:
    """Whether two renderings of a page show links that its plain answer lacks, not counting churn.

    Some of these links must be in both renderings; and the first must have more than twice as many links
    missing in the plain answer as missing in the second: links drawn at random for each request differ
    equally between any two answers.
    """
    gained = first - plain
    return bool(gained & second) and len(gained) > 2 * len(first - second)


def visited(record: R) -> R:
    """Return the record after a visit that followed its verdict without checking it."""
    return replace(record, visits=record.visits + 1)


def decoded(kind: type[R], value: bytes | None) -> R:
    """Return the record that bytes stand for, an empty one for none or damaged bytes."""
    try:
        return msgpack.decode(value, type=kind) if value else kind()
    except DecodeError:
        return kind()
