"""The settings that say what is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from lxml.html import HtmlElement
from scrapy.http import Response, TextResponse

from hacs_crawler.utils.settings import NotAllowedError, Setting, loaded
from hacs_crawler.watch.rules import MarkRules, Reader, Shown
from hacs_crawler.watch.selection import css_reader, jmespath_reader, text_reader, xpath_reader

_EXPRESSIONS: Final[dict[str, Callable[[str], Reader]]] = {
    "css": css_reader,
    "xpath": xpath_reader,
    "jmespath": jmespath_reader,
}
_ALLOWED: Final = (
    "links, text, css:…, xpath:…, jmespath:…, or the dotted path of a function of a response"
)


def mark_rules(given: Any) -> MarkRules | None:
    """Return the rules that HACS_WATCH names, None for links; raises NotAllowedError."""
    name = given if isinstance(given, str) else ""
    kind, colon, expression = name.partition(":")
    if name == "links":
        return None
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


@dataclass(frozen=True)
class WatchSettings:
    """What is watched of pages; None for their links."""

    watch: Annotated[
        MarkRules | None,
        Setting(
            "HACS_WATCH",
            """
            [What of a page is watched](updates.md): `"links"`; `"text"`, the paragraphs of its main
            text (needs the extra `text`); `"css:…"`, `"xpath:…"` or `"jmespath:…"`, the texts that an
            expression selects, the last of a JSON answer; or the dotted path of a function that is
            given the response and returns texts or bytes. After a change each page's next visit is a
            [baseline](how-it-works.md#what-counts-as-a-visit).
            """,
            mark_rules,
            default="links",
        ),
    ]
