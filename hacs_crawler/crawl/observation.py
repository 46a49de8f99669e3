"""Turns a response into a visit of its page, or into the reason why it does not show the page."""

import re
from array import array
from collections import Counter
from typing import Final, NamedTuple, TypeGuard
from weakref import WeakKeyDictionary

from lxml.html import HtmlElement
from msgspec.structs import replace
from scrapy.http import HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse

from hacs_crawler.links import (
    UNREADABLE,
    LinkRules,
    MarkupError,
    body_number,
    check_markup,
    has_same_body,
    has_same_links,
    is_not_text,
    source_links,
)
from hacs_crawler.state import News, Page, Prediction, Visit
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import AnswerType, MarkRules, Rules, UnreadableMarksError

logger = safe_logger(__name__)

GONE_STATUSES: Final = (404, 410)
NOT_MODIFIED: Final = 304
_GZIP_MAGIC: Final = b"\x1f\x8b"
# Reason for an answer whose type cannot show any watched mark, such as an image or a feed.
OTHER_TYPE: Final = "other_type"
# How HTML begins, after the MIME sniffing standard, and other elements that may hold links.
_FRAGMENT: Final = re.compile(
    rb"\s*<(?:!--|(?:a|article|b|br|dl|div|font|form|h[1-6]|iframe|li|main|nav|ol|p|script|section|span"
    rb"|style|table|title|ul)[\s>])",
    re.IGNORECASE,
)
# A bit of a visit's `hrefs`: its marks, not links, came from HTML with the end tag.
_HAD_END: Final = 2
# Tags of elements that have to be closed.
_BLOCKS: Final = re.compile(rb"<(/?)(?:article|div|footer|header|main|nav|section|table|ul)[\s>]")
# How many attempts before its first visit a page may seem to lack its end.
_MOST_WITHOUT_END: Final = 2
# Parsed trees, shared by all parts that read the same response.
_trees: Final[WeakKeyDictionary[TextResponse, HtmlElement | None]] = WeakKeyDictionary()


class Observation(NamedTuple):
    """The visit to record for a response, and the reason if it did not show the page.

    `visit` is None if the answer came from a cache. `reason` is "" if the page was seen, else
    "gone" or a reason of the stat `hacs/not_observed/<reason>`.
    """

    visit: Visit | None
    reason: str = ""


class ShownMarks(NamedTuple):
    """The marks of a page, or None and the reason; `hrefs` identifies the source of the marks."""

    marks: frozenset[int] | None
    reason: str = ""
    hrefs: int = 0


_OTHER_TYPE: Final = ShownMarks(None, OTHER_TYPE)


def observe(
    response: Response,
    page_url: str,
    at: int,
    rules: Rules,
    prediction: Prediction | None = None,
    unseen: str = "",
    *,
    page: Page | None = None,
) -> Observation:
    """Return what a response shows of a page, at second `at` since 1970 UTC.

    A 2xx answer is a visit if its type may show a mark by `rules`; a 304 is a visit without an
    update; 404 and 410 mark the page gone. Other answers are not visits, nor are truncated answers,
    answers with a reason in `unseen`, and answers of Scrapy's HTTP cache unless the server confirmed
    them. If the source of the marks is stored in `page`, the page's row in the state, the stored
    marks are taken over.
    """
    # a cached answer that the server has confirmed counts: its request has a latency
    sent = {} if response.request is None else response.request.meta
    if "cached" in response.flags and "download_latency" not in sent:
        return Observation(None, "cached")
    size = len(response.body)
    if response.status in GONE_STATUSES:
        visit = Visit(page_url, at, News.GONE, prediction=prediction, bytes=size)
        return Observation(visit, "gone")
    if response.status == NOT_MODIFIED and not unseen:
        return Observation(Visit(page_url, at, prediction=prediction, bytes=size))
    links, why, hrefs = ShownMarks(None, unseen) if unseen else shown_marks(response, rules, page)
    if links is None:
        visit = Visit(page_url, at, News.FAILED, prediction=prediction, bytes=size)
        return Observation(visit, why)
    visit = Visit(
        page_url,
        at,
        marks=links,
        rules=rules.fingerprint,
        etag=_header(response, b"Etag"),
        last_modified=_header(response, b"Last-Modified"),
        prediction=prediction,
        bytes=size,
        hrefs=hrefs,
    )
    is_awaited = isinstance(rules, MarkRules) and rules.takes_items
    return Observation(visit) if is_awaited else seen_or_failed(visit, page, rules)


def _is_truncated(response: Response, rules: Rules, page: Page | None) -> bool:
    """Whether bytes were lost, or HTML ends inside a tag, or inside an element and did not before.

    How HTML ends does not matter for links but at a first visit, which would be a baseline without the
    rest. After a few attempts, that is how the page ends.
    """
    if "dataloss" in response.flags:
        return True
    is_first = page is None or not (page.visits or page.failures >= _MOST_WITHOUT_END)
    if isinstance(rules, LinkRules) and not is_first:
        return False
    body = response.body
    start = body.rfind(b"<")
    is_open = start > body.rfind(b">") and (
        body[start + 1 : start + 2].isalpha() or body.endswith((b"<", b"</"))
    )
    had_end = page is not None and page.hrefs & _HAD_END and page.latest_rules == rules.fingerprint
    lost_end = had_end and not _ended(response)
    if not (is_open or lost_end) or not is_html(response) or body.startswith(_GZIP_MAGIC):
        return False
    if is_open:
        return True
    tags = Counter(_BLOCKS.findall(body.lower()))
    return tags[b""] > tags[b"/"]


def _ended(response: Response) -> int:
    return _HAD_END * (response.body.rfind(b"</html", -4096) >= 0)


def is_html(response: Response) -> TypeGuard[TextResponse]:
    """Whether a response is HTML to Scrapy, or looks like HTML and lacks a Content-Type."""
    if isinstance(response, HtmlResponse):
        return True
    is_unnamed = type(response) is TextResponse and b"Content-Type" not in response.headers
    return is_unnamed and _FRAGMENT.match(response.body) is not None


def tree_of(response: TextResponse) -> HtmlElement | None:
    """Return the tree of a page, None for an empty body.

    Raises an exception in `UNREADABLE`, such as MarkupError if building the tree would take too long.
    """
    if response not in _trees:
        page = _unpacked(response)
        if is_not_text(page.body, page.encoding):
            raise ValueError(f"{page.url} is not text")
        check_markup(page.text)
        _trees[response] = page.selector.root if page.body.strip() else None
    return _trees[response]


def _unpacked(response: TextResponse) -> TextResponse:
    """Unpack a response that was gzipped twice; return any other unchanged."""
    if response.body.startswith(_GZIP_MAGIC):
        from hacs_crawler.archive import MAX_BODY_BYTES, decoded  # noqa: PLC0415 - of few pages

        body = decoded(response.body, "", MAX_BODY_BYTES)
        # the encoding may be declared in the body, which Scrapy could not read
        if body is not None:
            return response.replace(body=body, encoding=None)
    return response


def shown_marks(response: Response, rules: Rules, page: Page | None = None) -> ShownMarks:
    """Return the marks that the page shows, or the reason if it shows no marks."""
    if not 200 <= response.status < 300:
        return ShownMarks(None, "status")
    if _is_truncated(response, rules, page):
        return ShownMarks(None, "truncated")
    try:
        return _shown_marks(response, rules, page)
    except UnreadableMarksError as error:
        logger.warning("%s is not read: %s", response.url, error)
        return ShownMarks(None, "unreadable")
    except MarkupError as error:
        logger.warning("%s is not read: %s", response.url, error)
        return ShownMarks(None, "markup")
    except UNREADABLE:
        return ShownMarks(None, "unreadable")


def _shown_marks(response: Response, rules: Rules, page: Page | None) -> ShownMarks:
    # the user's function may read headers, too, so an equal body does not suffice
    if isinstance(rules, MarkRules) and not rules.answers:
        return ShownMarks(rules.marks(response, None), hrefs=_ended(response))
    kind = type_of(response)
    if kind not in rules.answers:
        return _OTHER_TYPE
    where = response.url
    if isinstance(rules, MarkRules):  # texts depend on the encoding that is declared
        where += f" {response.headers.get(b'Content-Type')!r}"
    body = body_number(response.body, where, rules.fingerprint)
    source = 0 if page is None else page.hrefs
    # saves building the tree
    if page is not None and has_same_body(source, body):
        return ShownMarks(page.spells.shown_last(), hrefs=source)
    tree = None
    if kind == "HTML":
        assert isinstance(response, TextResponse)  # noqa: S101 - HTML is text
        tree = tree_of(response)
        if tree is None:
            return ShownMarks(None, "empty")
    if isinstance(rules, MarkRules):
        return ShownMarks(rules.marks(response, tree), hrefs=body << 32 | 1 | _ended(response))
    links = source_links(tree, response.url, rules)
    hrefs = links.number(rules, body)
    if page is not None and has_same_links(source, hrefs):
        shown = page.spells.shown_last()
    else:
        shown = links.fingerprints(rules)
    return ShownMarks(shown, hrefs=hrefs)


def type_of(response: Response) -> AnswerType:
    """Return the type of an answer, by its class."""
    if is_html(response):
        return "HTML"
    if isinstance(response, XmlResponse):
        return "XML"
    if isinstance(response, JsonResponse):
        return "JSON"
    return "plain text" if isinstance(response, TextResponse) else "binary files"


def seen_or_failed(visit: Visit, page: Page | None, rules: Rules) -> Observation:
    """Return the visit, or a failed attempt if it unexpectedly shows no mark.

    Showing no link is unexpected only if every earlier visit showed links; a first visit without
    links does not become the baseline. Showing no mark of another kind is always unexpected.
    """
    if visit.marks is None or visit.marks:
        return Observation(visit)
    if isinstance(rules, LinkRules):
        shown_at = array("I") if page is None else page.shown_at
        if page is None or not shown_at:
            return Observation(replace(visit, marks=None, rules=0))
        if page.latest_rules != visit.rules or not all(page.spells.shown_by(shown_at).values()):
            return Observation(visit)
    return Observation(
        Visit(visit.url, visit.at, News.FAILED, prediction=visit.prediction, bytes=visit.bytes),
        "nothing_shown",
    )


def _header(response: Response, name: bytes) -> str:
    """Return a header for later conditional requests, "" if it is missing."""
    headers = response.headers
    # a name not in the case of its keys would cost Scrapy ten times as much
    return (headers.get(name) or b"").decode("latin-1") if name in headers.keys() else ""  # noqa: SIM118
