"""Records of which pages and sites need a browser.

They are annotations in the state: `PageRendering` by page id, `SiteRendering` by the
`links.menu_id` of pages that share a template.
"""

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
# How many pages of a site have to agree for a verdict on the site.
PAGES_THAT_AGREE: Final = 3
# One page in this many may disagree.
_DISSENT: Final = 4
# A failed rendering counts as this many visits: after three, the page is plain until the next check.
_FAILURE_VISITS: Final = 7
R = TypeVar("R", bound="PageRendering | SiteRendering")


class RenderedLinks(Part):
    """Separates links of rendered pages from links of plain answers: see `LinkRules.rendered`."""

    def rules(self, response: Response, rules: Rules, page: object = None) -> Rules:
        """Return the rules for rendered pages if the page is one."""
        return dataclasses.replace(rules, rendered=True) if is_rendered(response) else rules


def is_rendered(response: Response) -> bool:
    """Whether scrapy-playwright rendered a response."""
    return "playwright" in response.flags


class Verdict(IntEnum):
    """Whether a page needs a browser to be complete."""

    UNKNOWN = 0
    PLAIN = 1
    BROWSER = 2


class PageRendering(Struct, frozen=True, array_like=True):
    """The rendering record of a page; `visits` counts the visits since the last check."""

    verdict: Verdict = Verdict.UNKNOWN
    visits: int = 0

    KIND: ClassVar = "rendering"

    def failed(self) -> "PageRendering":
        """Return the record after a failed rendering."""
        if self.visits + _FAILURE_VISITS >= CHECK_EVERY:
            return PageRendering(Verdict.PLAIN)
        return replace(self, visits=self.visits + _FAILURE_VISITS)


class SiteRendering(Struct, frozen=True, array_like=True):
    """How many pages of a site need a browser, how many do not, and the visits since a check."""

    browser: int = 0
    plain: int = 0
    visits: int = 0

    KIND: ClassVar = "rendering-site"

    @property
    def verdict(self) -> Verdict:
        """The verdict of nearly all checked pages, if there are three or more."""
        fewer, more = sorted((self.browser, self.plain))
        if more < PAGES_THAT_AGREE or fewer * _DISSENT > more:
            return Verdict.UNKNOWN
        return Verdict.BROWSER if self.browser == more else Verdict.PLAIN

    def judged(self, before: Verdict, after: Verdict) -> "SiteRendering":
        """Return the record after a check of one page changed its verdict from `before`."""
        counts = [0, self.plain, self.browser]  # by verdict
        if before is not after:
            counts[before] = max(counts[before] - 1, 0)
            counts[after] += 1
        return SiteRendering(browser=counts[Verdict.BROWSER], plain=counts[Verdict.PLAIN])


class Advice(NamedTuple):
    """How to visit a page: with a browser or not, and whether to compare both."""

    rendered: bool
    # Whether to check by comparing both; a plain answer only if its markup is suspicious.
    checked: bool


def advice(page: PageRendering, site: SiteRendering) -> Advice:
    """Return how to visit a page: by its own verdict, else its site's, else without a browser."""
    for record in (page, site):
        if record.verdict is not Verdict.UNKNOWN:
            return Advice(record.verdict is Verdict.BROWSER, record.visits + 1 >= CHECK_EVERY)
    return Advice(rendered=False, checked=True)


def visit_text(page: PageRendering, site: SiteRendering) -> str:
    """Return whether a visit needs a browser, in words; "" if unknown."""
    if page.verdict is Verdict.BROWSER:
        return "a browser shows links that the plain answer lacks"
    if page.verdict is Verdict.PLAIN:
        return "a browser shows no more links than the plain answer"
    return "the site's other pages need a browser" if advice(page, site).rendered else ""


def shows_more(plain: AbstractSet[int], first: AbstractSet[int], second: AbstractSet[int]) -> bool:
    """Whether two renderings of a page show links that its plain answer lacks, apart from churn.

    Both renderings must share some of these links. Random links differ equally between any two
    answers, so compared with the first rendering, the plain answer must lack over twice as many
    links as the second.
    """
    gained = first - plain
    return bool(gained & second) and len(gained) > 2 * len(first - second)


def visited(record: R) -> R:
    """Return the record after a visit without a check."""
    return replace(record, visits=record.visits + 1)


def decoded(kind: type[R], value: bytes | None) -> R:
    """Decode a record; return an empty record if it is missing or damaged."""
    try:
        return msgpack.decode(value, type=kind) if value else kind()
    except DecodeError:
        return kind()
