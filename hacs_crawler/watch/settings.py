"""The settings that say what is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from lxml.html import HtmlElement
from scrapy.http import Response, TextResponse

from hacs_crawler.utils.settings import NotAllowedError, Setting, loaded
from hacs_crawler.watch.items import item_rules
from hacs_crawler.watch.rules import MarkRules, Reader, Shown
from hacs_crawler.watch.selection import css_reader, jmespath_reader, text_reader, xpath_reader

_EXPRESSIONS: Final[dict[str, Callable[[str], Reader]]] = {
    "css": css_reader,
    "xpath": xpath_reader,
    "jmespath": jmespath_reader,
}
_ALLOWED: Final = (
    "links, items, text, css:…, xpath:…, jmespath:…, or the dotted path of a function of a response"
)


def mark_rules(given: Any) -> MarkRules | None:
    """Return the rules that HACS_WATCH names, None for links; raises NotAllowedError."""
    name = given if isinstance(given, str) else ""
    kind, colon, expression = name.partition(":")
    if name == "links":
        return None
    if name == "items":
        return item_rules()
    if name == "text":
        return MarkRules(name, text_reader())
    if colon and kind in _EXPRESSIONS and expression.strip():
        return MarkRules(name, _EXPRESSIONS[kind](expression), (TextResponse,))
    if not name or colon:
        raise NotAllowedError(_ALLOWED)
    function = loaded(name, _ALLOWED)
    if not callable(function):
        raise NotAllowedError(_ALLOWED)
    return MarkRules(name, _calling(function), (Response,))


def _calling(function: Callable[[Response], Iterable[Shown]]) -> Reader:
    def read(response: Response, tree: HtmlElement | None) -> Iterable[Shown]:
        del tree
        return function(response)

    return read


def _names(given: Any) -> tuple[str, ...]:
    names = tuple(given.split(",") if isinstance(given, str) and given else given or ())
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise NotAllowedError("names of fields")
    return tuple(name.strip() for name in names)


@dataclass(frozen=True)
class WatchSettings:
    """What is watched of pages; None for their links."""

    watch: Annotated[
        MarkRules | None,
        Setting(
            "HACS_WATCH",
            """
            [What of a page is watched](updates.md#what-is-news-to-you): its `"links"`; the `"items"`
            that its callback yields; `"text"`, the paragraphs of its main text (needs the extra `text`);
            `"css:…"`, `"xpath:…"` or `"jmespath:…"`, the texts that an expression selects, the last of
            a JSON answer; or the dotted path of a function that is given the response and returns texts
            or bytes. After a change each page's next visit is a
            [baseline](how-it-works.md#what-counts-as-a-visit).
            """,
            mark_rules,
            default="links",
        ),
    ]
    watch_fields: Annotated[
        tuple[str, ...],
        Setting(
            "HACS_WATCH_FIELDS",
            """
            The fields of items that are watched, where items are; with none, all are. On the command
            line they are separated by commas.
            """,
            _names,
            default=[],
        ),
    ] = ()
    watch_ignore: Annotated[
        tuple[str, ...],
        Setting(
            "HACS_WATCH_IGNORE",
            """
            Fields of items that are not watched, such as the time at which an item was scraped, or its
            position in a list.
            """,
            _names,
            default=[],
        ),
    ] = ()

    def watched_items(self) -> MarkRules:
        """Return the rules by which items are watched."""
        return item_rules(self.watch_fields, self.watch_ignore)
