"""The rules for reading marks from a page, as 64-bit fingerprints of canonical bytes."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, Self
from unicodedata import normalize
from urllib.parse import urlsplit
from zlib import crc32

from lxml.html import HtmlElement
from scrapy.http import Response

from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import LinkRules, canonical_url, fingerprint, fingerprints

# Pages with more marks are not read.
MOST_MARKS: Final = 10_000
# To be raised if canonical bytes change, so that pages get baselines.
_FORM: Final = 7

# Characters that Unicode has ignored in display, such as soft hyphens, joiners and variants of emoji;
# and half surrogate pairs, as of texts that were cut off in JSON.
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff\ud800-\udfff]"
)

Shown = str | bytes
AnswerType = Literal["HTML", "XML", "JSON", "plain text", "binary files"]
# Returns the watched things of a response; gets the tree of HTML, None for other types.
Reader = Callable[[Response, HtmlElement | None], Iterable[Shown]]


class UnreadableMarksError(HacsError):
    """Marks cannot be made from a page's content; the message says from what and why."""


@dataclass(frozen=True)
class MarkRules:
    """Which marks are watched. `name` is the value of HACS_WATCH, `options` the other settings of marks.

    `answers` are the types of answers that may show such marks, empty for all types. `rendered` says
    that a browser rendered the page. With `takes_items` the marks are the output of the page's callback,
    and `read` finds none. `canonical` turns a thing into text or bytes, and says whether it has its
    page's `own` address. The upper half of a thing's mark is the signed 32-bit number that `key_of`
    returns for it, or, without a key, a hash of its own address, if it has it; in both cases
    `content_of` hashes the rest.
    """

    name: str
    read: Reader = field(compare=False)
    answers: tuple[AnswerType, ...] = field(default=("HTML",), compare=False)
    options: str = ""
    rendered: bool = False
    takes_items: bool = False
    canonical: Callable[[Any, Collection[str]], tuple[Shown, bool]] = field(
        default=lambda thing, _: (thing, False), compare=False
    )
    key_of: Callable[[Any], int | None] | None = field(default=None, compare=False)
    own: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def fingerprint(self) -> int:
        """A number of these rules, 1 to 2^32 - 1: odd, while link rules have even numbers.

        The second bit is set if the marks are items: see `state.rule_changes`.
        """
        what = (_FORM, self.name, self.options, self.rendered)
        return fingerprint(repr(what)) & 0xFFFF_FFFC | 2 * self.takes_items | 1

    def of_page(self, page_url: str, *urls: str) -> Self:
        """Return these rules for the things of a page; its own address, in any form, is not news."""
        path = urlsplit(page_url)._replace(scheme="", netloc="").geturl() or "/"
        return replace(self, own=(page_url, path, *urls, *filter(None, map(canonical_url, urls))))

    def marks(self, response: Response, tree: HtmlElement | None) -> frozenset[int]:
        """Return a response's marks; raises UnreadableMarksError for any exception of the reader."""
        try:
            return marks_of(self.read(response, tree))
        except Exception as error:
            problem = error if isinstance(error, HacsError) else f"{type(error).__name__}: {error}"
            raise UnreadableMarksError(f"{self.name}: {problem}") from error

    def marks_of(self, thing: Any) -> frozenset[int]:
        """Return the mark of one thing that a page may show; an empty set for an empty thing.

        Raises UnreadableMarksError if the thing cannot be made a mark.
        """
        try:
            shown, has_own = self.canonical(thing, self.own)
            key = None if self.key_of is None else self.key_of(thing)
        except Exception as error:  # values of the project's own may raise anything
            problem = error if isinstance(error, HacsError) else f"{type(error).__name__}: {error}"
            raise UnreadableMarksError(problem) from error
        marks = marks_of([shown])
        if key is None and has_own:
            key = crc32(self.own[0].encode("utf-8", "replace")) - 2**31
        if key is None:
            return marks
        return frozenset(key << 32 | (mark ^ key) & 0xFFFF_FFFF for mark in marks)


# If items are watched, and a page yields only requests, as lists do, the requests are its marks.
ONLY_REQUESTS: Final = MarkRules("requests", lambda *_: (), takes_items=True)


def content_of(marks: frozenset[int]) -> int:
    """Return a hash of marks that is the same for things that differ only in their own addresses."""
    return hash(frozenset((mark ^ mark >> 32) & 0xFFFF_FFFF for mark in marks))


# The rules by which a page's marks are read.
Rules = LinkRules | MarkRules


def spaced(text: str) -> str:
    """Return a text with one space for white space."""
    # of what is printable, spaces alone are white space; to split takes five times as long as to look
    return text.strip(" ") if text.isprintable() and "  " not in text else " ".join(text.split())


def as_read(text: str) -> str:
    """Return a text as a reader sees it: white space collapsed, in NFC, without invisible characters."""
    return spaced(text if text.isascii() else normalize("NFC", _UNSEEN.sub("", text)))


def marks_of(shown: Iterable[Any]) -> frozenset[int]:
    """Return the marks of texts, normalised by `as_read`, and of bytes; empty ones are skipped.

    Raises UnreadableMarksError if there are too many, or for other types.
    """
    marks = []
    for thing in shown:
        if not isinstance(thing, str | bytes):
            raise UnreadableMarksError(f"{thing!r:.100} is neither a text nor bytes")
        data = as_read(thing).encode("utf-8", "replace") if isinstance(thing, str) else thing
        if data:
            marks.append(data)
        if len(marks) > MOST_MARKS:
            raise UnreadableMarksError(f"it shows more than {MOST_MARKS:,} marks")
    return fingerprints(marks)
