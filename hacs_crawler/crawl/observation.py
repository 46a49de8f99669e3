"""Turns a response into a visit of its page, or into the reason why it shows nothing of it."""

from __future__ import annotations

import re
from array import array
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
    has_slow_encoding,
    is_binary,
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
# How HTML begins: as in the standard of MIME sniffing, and what else may hold links.
_FRAGMENT: Final = re.compile(
    rb"\s*<(?:!--|(?:a|article|b|br|dl|div|font|form|h[1-6]|iframe|li|main|nav|ol|p|script|section|span"
    rb"|style|table|title|ul)[\s>])",
    re.IGNORECASE,
)
# Trees of responses that are in use, as several parts of a crawl read them.
_trees: Final[WeakKeyDictionary[TextResponse, HtmlElement | None]] = WeakKeyDictionary()


class Observation(NamedTuple):
    """The visit to record for a response, and the reason if it showed nothing of the page.

    `visit` is None if the answer came from a cache. `reason` is a reason of
    the stat `hacs/not_observed/<reason>`, or "gone", or "" if the page was seen.
    """

    visit: Visit | None
    reason: str = ""


class ShownMarks(NamedTuple):
    """The marks of a page, or None and the reason; and the number of their source."""

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
    """Return the observation that a response makes of a page, at second `at` since 1970 UTC.

    A visit is a 2xx answer of a type that may show a watched mark, as `rules` say, or a 304, which
    shows no update. 404 and 410 mark the page gone. Any other answer is not a visit, nor is an answer
    that is `unseen` for a reason, truncated, or comes from Scrapy's HTTP cache alone. If the source of
    the marks equals the source stored in `page`, the page's row in the state, the marks are equal, too.
    """
    # of an answer that the cache had the server confirm, the request was downloaded
    sent = {} if response.request is None else response.request.meta
    if "cached" in response.flags and "download_latency" not in sent:
        return Observation(None, "cached")
    size = len(response.body)
    if response.status in GONE_STATUSES:
        visit = Visit(page_url, at, News.GONE, prediction=prediction, bytes=size)
        return Observation(visit, "gone")
    if response.status == NOT_MODIFIED and not unseen:
        return Observation(Visit(page_url, at, prediction=prediction, bytes=size))
    links, reason, hrefs = (
        ShownMarks(None, unseen) if unseen else shown_marks(response, rules, page)
    )
    if links is None:
        visit = Visit(page_url, at, News.FAILED, prediction=prediction, bytes=size)
        return Observation(visit, reason)
    visit = Visit(
        page_url,
        at,
        marks=links,
        rules=rules.fingerprint,
        etag=_header(response, b"ETag"),
        last_modified=_header(response, b"Last-Modified"),
        prediction=prediction,
        bytes=size,
        hrefs=hrefs,
    )
    is_awaited = isinstance(rules, MarkRules) and rules.takes_items
    return Observation(visit) if is_awaited else seen_or_failed(visit, page, rules)


def _is_truncated(response: Response, rules: Rules) -> bool:
    """Whether an answer lacks its end: bytes were lost, or it is HTML that ends inside a tag.

    Half a text would be a new one; links are there or not.
    """
    if "dataloss" in response.flags or isinstance(rules, LinkRules):
        return "dataloss" in response.flags
    body = response.body
    start = body.rfind(b"<")
    is_open = start > body.rfind(b">") and body[start + 1 : start + 2].isalpha()
    return is_open and is_html(response) and not body.startswith(_GZIP_MAGIC)


def is_html(response: Response) -> TypeGuard[TextResponse]:
    """Whether a response is HTML: for Scrapy, or as a fragment that comes without a Content-Type."""
    if isinstance(response, HtmlResponse):
        return True
    is_unnamed = type(response) is TextResponse and b"Content-Type" not in response.headers
    return is_unnamed and _FRAGMENT.match(response.body) is not None


def tree_of(response: TextResponse) -> HtmlElement | None:
    """Return the tree of a page, None for an empty body.

    Raises one of `UNREADABLE`, among them MarkupError if building the tree would take too long.
    """
    if response not in _trees:
        page = _unpacked(response)
        encoding = page.encoding  # Scrapy asks several places for it each time
        if is_binary(page.body, encoding) or has_slow_encoding(encoding):
            raise ValueError(f"{page.url} is no text")
        check_markup(page.text)
        _trees[response] = page.selector.root if page.body.strip() else None
    return _trees[response]


def _unpacked(response: TextResponse) -> TextResponse:
    """Return a response unpacked that was packed twice, any other as it is."""
    if response.body.startswith(_GZIP_MAGIC):
        from hacs_crawler.archive import MAX_BODY_BYTES, decoded  # noqa: PLC0415 - of few pages

        body = decoded(response.body, "", MAX_BODY_BYTES)
        # the encoding may be declared inside, which Scrapy could not read
        if body is not None:
            return response.replace(body=body, encoding=None)
    return response


def shown_marks(response: Response, rules: Rules, page: Page | None = None) -> ShownMarks:
    """Return the marks that the page shows, or the reason if it shows no marks."""
    if not 200 <= response.status < 300:
        return ShownMarks(None, "status")
    if _is_truncated(response, rules):
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
    # a function of the user's may read more than the body
    if isinstance(rules, MarkRules) and not rules.answers:
        return ShownMarks(rules.marks(response, None))
    kind = type_of(response)
    if kind not in rules.answers:
        return _OTHER_TYPE
    where = response.url
    if isinstance(rules, MarkRules):  # texts depend on the encoding that is declared
        where += f" {response.headers.get(b'Content-Type')!r}"
    body = body_number(response.body, where, rules.fingerprint)
    source = 0 if page is None else page.hrefs
    # then no tree of it is made, either
    if page is not None and has_same_body(source, body):
        return ShownMarks(page.spells.shown_last(), hrefs=source)
    tree = None
    if kind == "HTML":
        assert isinstance(response, TextResponse)  # noqa: S101 - HTML is text
        tree = tree_of(response)
        if tree is None:
            return ShownMarks(None, "empty")
    if isinstance(rules, MarkRules):
        return ShownMarks(rules.marks(response, tree), hrefs=body << 32 | 1)
    links = source_links(tree, response.url, rules)
    hrefs = links.number(rules, body)
    if page is not None and has_same_links(source, hrefs):
        shown = page.spells.shown_last()
    else:
        shown = links.fingerprints(rules)
    return ShownMarks(shown, hrefs=hrefs)


def type_of(response: Response) -> AnswerType:
    """Return of which type an answer is, by its class."""
    if is_html(response):
        return "HTML"
    if isinstance(response, XmlResponse):
        return "XML"
    if isinstance(response, JsonResponse):
        return "JSON"
    return "text" if isinstance(response, TextResponse) else "binary"


def seen_or_failed(visit: Visit, page: Page | None, rules: Rules) -> Observation:
    """Return a visit as it is, unless it shows no watched mark: then the page was not read.

    A page without links is seen, but its visit is not a baseline. A page that had
    links at every visit before was not read.
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
    """Return a header that a conditional request for the page would carry back."""
    headers = response.headers  # getting a missing header takes five times as long
    return (headers.get(name) or b"").decode("latin-1") if name in headers else ""
