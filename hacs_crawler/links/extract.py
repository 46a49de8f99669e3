"""The outgoing links of a page: from a parsed page to canonical links to 64-bit fingerprints.

Fingerprints are of the keys of the linked pages, so that a site that moves to https, or leaves `www.` or
`index.html` out of its links, does not gain links.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from typing import Annotated, ClassVar, Final, Literal, NamedTuple
from zlib import crc32

from lxml import etree
from xxhash import xxh3_64_intdigest

from hacs_crawler.links.anchors import base_of, frame_links
from hacs_crawler.links.canonical import FORM, TRACKERS, Resolver
from hacs_crawler.links.keys import fingerprints_of
from hacs_crawler.links.markup import MarkupError
from hacs_crawler.links.publication import citation_fingerprint, citations
from hacs_crawler.links.sites import domain_of, domain_of_netloc
from hacs_crawler.links.urls import fingerprint
from hacs_crawler.links.volatile import VolatileLinkParts
from hacs_crawler.utils.settings import Setting, patterns

# Not smart strings: each would keep the whole document alive. Two expressions, as libxml2 takes
# quadratic time for a union.
_a_hrefs: Final = etree.XPath("//a/@href", smart_strings=False)
_area_hrefs: Final = etree.XPath("//area/@href", smart_strings=False)

# Exceptions that decoding and parsing of broken pages may raise.
UNREADABLE: Final = (ValueError, LookupError, RecursionError, etree.LxmlError)
MOST_LINKS: Final = 100_000
_LARGEST: Final = 2**32 - 1


def is_not_text(body: bytes, encoding: str) -> bool:
    """Whether a body declared as HTML is PDF, is binary (has NUL bytes), or takes too long to decode."""
    has_nul = b"\0" in body[:1024] and not encoding.startswith(("utf-16", "utf-32"))
    return has_nul or body.startswith(b"%PDF-") or has_slow_encoding(encoding)


def has_slow_encoding(encoding: str) -> bool:
    """Whether the decoder of a page's encoding takes quadratic time: a minute for a megabyte."""
    return encoding == "punycode"


@dataclass(frozen=True)
class LinkRules:
    """Which links count.

    "same-site" compares registrable domains as browsers do (by the Public Suffix List that tldextract
    ships, private part included: each author's pages at github.io are a site). `matched` are the
    patterns that a link has matched, `volatile` the parts to leave out of links, if any are known for
    the page's host. `rendered` says that a browser rendered the page, with links made by its scripts.
    With `citations` publications without a link count, too.
    """

    scope: Annotated[
        Literal["all", "same-site"],
        Setting(
            "HACS_LINKS",
            """
            Which links [count](how-it-works.md#what-counts-as-a-link). All, or only links to the
            page's own registrable domain. After a change of this or the next two settings, each page's
            next visit is a [baseline](how-it-works.md#what-counts-as-a-visit).
            """,
        ),
    ] = "all"
    allow: Annotated[
        tuple[re.Pattern[str], ...],
        Setting(
            "HACS_LINKS_ALLOW",
            """
            Count only links that match one of these regular expressions. They are searched for in
            the link's canonical form. On the command line, separate them by commas.
            """,
            patterns,
            default=[],
        ),
    ] = ()
    deny: Annotated[
        tuple[re.Pattern[str], ...],
        Setting(
            "HACS_LINKS_DENY",
            """
            Do not count links that match one of these regular expressions. Use it for links that
            differ at each visit, such as advertisements or calendars.
            """,
            patterns,
            default=[],
        ),
    ] = ()
    volatile: VolatileLinkParts | None = None
    rendered: bool = False
    citations: bool = False
    matched: set[str] = field(default_factory=set, compare=False)
    # The types of answers that have links.
    answers: ClassVar[tuple[str, ...]] = ("HTML",)

    @cached_property
    def fingerprint(self) -> int:
        """A number of these rules and of the canonical form of links, 1 to 2^32 - 1."""
        return _fingerprint_of(self)

    @property
    def narrowed_by(self) -> list[str]:
        """The settings that leave links out."""
        rules = {"": self.scope != "all", "_ALLOW": self.allow, "_DENY": self.deny}
        return [f"HACS_LINKS{name}" for name, rule in rules.items() if rule]

    def select(self, links: Collection[str], page_url: str) -> Collection[str]:
        """Return which of the canonical `links` of the page at `page_url` count."""
        kept = links
        if self.scope == "same-site":
            own = domain_of(page_url)
            kept = [link for link in kept if domain_of_netloc(link.split("/", 3)[2]) == own]
        if self.allow:
            allowed = {rule.pattern: [*filter(rule.search, kept)] for rule in self.allow}
            self.matched.update(pattern for pattern, some in allowed.items() if some)
            kept = {*chain.from_iterable(allowed.values())}
        for rule in self.deny:
            left = [link for link in kept if not rule.search(link)]
            if len(left) < len(kept):
                self.matched.add(rule.pattern)
            kept = left
        return kept


@cache  # a crawl has few rules, though it may make new objects for each page
def _fingerprint_of(rules: LinkRules) -> int:
    patterns = [
        sorted((rule.pattern, rule.flags) for rule in some) for some in (rules.allow, rules.deny)
    ]
    volatile = sorted(rules.volatile.parts) if rules.volatile is not None else []
    switches = [name for name in ("rendered", "citations") if getattr(rules, name)]
    more = [*([volatile] if volatile else []), *switches]
    what = (FORM, sorted(TRACKERS), rules.scope, patterns, *more)
    # even: the fingerprints of rules for other marks are odd
    return (fingerprint(repr(what)) & 0xFFFF_FFFE) or 2


class SourceLinks(NamedTuple):
    """The links of a page as written in its source: `hrefs` relative to `base`, and canonical `frames`.

    `citations` are the texts of publications without a link, if these count.
    """

    page_url: str
    base: str
    hrefs: list[str]
    frames: list[str]
    citations: list[str]

    def number(self, rules: LinkRules, body: int) -> int:
        """Return a number that identifies the links' source; 0 without links.

        Its upper half is `body`, a `body_number`; its lower half a hash of everything that the page's
        fingerprints are computed from.
        """
        shown = *self.citations, *self.frames, *self.hrefs
        if not shown:
            return 0
        where = f"{rules.fingerprint}", self.page_url, self.base, f"{len(self.frames)}"
        text = "\0".join((*where, *shown))  # lxml never returns NUL
        return body << 32 | (xxh3_64_intdigest(text.encode()) & _LARGEST or 1)

    def counted(self, rules: LinkRules) -> set[str]:
        """Return the canonical links that count; raises MarkupError if there are too many."""
        return {*rules.select(self._lines().split("\n")[1:], self.page_url)}

    def fingerprints(self, rules: LinkRules) -> frozenset[int]:
        """Return the fingerprints of the links, and citations, that count; raises as `counted`."""
        if rules.scope == "all" and not (rules.allow or rules.deny or rules.volatile):
            lines = self._lines()
        else:
            links: Iterable[str] = self.counted(rules)
            if rules.volatile is not None:
                links = map(rules.volatile.identity, links)
            lines = "\n".join(["", *links])
        marks = fingerprints_of(lines)
        return marks.union(map(citation_fingerprint, self.citations)) if self.citations else marks

    def _lines(self) -> str:
        """Return all canonical links, each after a line feed."""
        hrefs = {*self.hrefs}
        if len(hrefs) > MOST_LINKS:
            raise MarkupError(f"it has more than {MOST_LINKS:,} links")
        return Resolver(self.base).lines(hrefs) + "\n".join(["", *self.frames])


def body_number(body: bytes, where: str, rules: int) -> int:
    """Return a 32-bit number of a page's body, URL and rules: equal numbers mean equal marks."""
    seed = crc32(where.encode("utf-8", "replace"), rules)
    return xxh3_64_intdigest(body, seed) & _LARGEST


def has_same_body(source: int, body: int) -> bool:
    """Whether the number of a source (0: unknown) is for the body with that number."""
    return source >> 32 == body and source != 0


def has_same_links(source: int, other: int) -> bool:
    """Whether the links of two sources, given by number, are identical; False if either is unknown."""
    return (source ^ other) & _LARGEST == 0 and source != 0 != other


def link_fingerprints(
    root: etree._Element | None, base_url: str, rules: LinkRules | None = None
) -> frozenset[int]:
    """Return the fingerprints (signed 64-bit) of the distinct links of a parsed HTML page.

    `root` is lxml's tree of the page, or None for an empty document, `base_url` the page's own URL.
    Links are taken from `a` and `area`, and from frames within the domain, relative to the first `base`;
    a link to the page itself counts, too. Hrefs that are not http(s) links are skipped. Raises
    MarkupError if there are too many.
    """
    rules = rules or LinkRules()
    return source_links(root, base_url, rules).fingerprints(rules)


def source_links(root: etree._Element | None, base_url: str, rules: LinkRules) -> SourceLinks:
    """Return the links of a page as written in its source; see `link_fingerprints`."""
    hrefs = [] if root is None else _a_hrefs(root)
    texts = citations(root, base_url) if rules.citations else []
    if root is None or next(root.iter("area", "base", "frame", "iframe"), None) is None:
        return SourceLinks(base_url, base_url, hrefs, [], texts)
    base = base_of(root, base_url)
    frames = [link for link, _ in frame_links(root, base_url, base)]
    return SourceLinks(base_url, base, hrefs + _area_hrefs(root), frames, texts)
