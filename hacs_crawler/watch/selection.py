"""Readers of marks: texts selected by an expression, and the main text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from itertools import groupby
from typing import Any, Final
from weakref import WeakKeyDictionary

import jmespath
from cssselect import SelectorError
from jmespath.exceptions import JMESPathError
from lxml import etree
from lxml.etree import Comment, iselement, strip_elements
from lxml.html import HtmlElement
from parsel import Selector, SelectorList
from scrapy.http import Response, TextResponse, XmlResponse

from hacs_crawler.utils.settings import NotAllowedError
from hacs_crawler.watch.items import canonical_json
from hacs_crawler.watch.rules import AnswerType, Reader, Shown, as_read, spaced

_HIDDEN: Final = frozenset({"noscript", "script", "style", "template"})
_NAMES_HIDDEN: Final = re.compile(rf"(?<![\w.#-])(?:{'|'.join(sorted(_HIDDEN))})(?![\w-])")
_BLOCKS: Final = (
    "address|article|aside|blockquote|br|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form"
    "|h1|h2|h3|h4|h5|h6|header|hr|li|main|nav|ol|option|p|pre|section|summary|table|tr|ul"
)
# An element with at most this many blocks is one text; otherwise each block is a text, as in a list.
MOST_WHOLE: Final = 4
# What a stylesheet writes around blocks and links, and before headings: no characters of texts.
_BREAK, _LINK, _LINK_END, _HEADING = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
# lxml walks through a tree in C by a stylesheet, which takes a tenth of the time of a loop.
_STYLESHEET: Final = f"""
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="text"/>
  <xsl:template match="/"><xsl:apply-templates select="*/node()"/></xsl:template>
  <xsl:template match="{"|".join(sorted(_HIDDEN))}"/>
  <xsl:template match="{_BLOCKS}">{_BREAK}<xsl:apply-templates/>{_BREAK}</xsl:template>
  <xsl:template match="td|th">&#160;<xsl:apply-templates/>&#160;</xsl:template>%s
</xsl:stylesheet>"""
# Later templates count first.
_OF_MAIN_TEXT: Final = f"""
  <xsl:template match="a[@href]">{_LINK}<xsl:apply-templates/>{_LINK_END}</xsl:template>
  <xsl:template match="h1|h2|h3|h4|h5|h6">{_BREAK}{_HEADING}<xsl:apply-templates/>{_BREAK}</xsl:template>
  <xsl:template match="aside|audio|button|canvas|datalist|dialog|figure|footer|head|iframe|menu|nav"/>
  <xsl:template match="object|select|svg|textarea|video"/>"""
_VISIBLE, _MAIN_TEXT = (etree.XSLT(etree.XML(_STYLESHEET % more)) for more in ("", _OF_MAIN_TEXT))
_LINKED: Final = re.compile(f"{_LINK}[^{_LINK_END}]*{_LINK_END}?")
_MOST_LINKED: Final = 0.3
_FEWEST_CHARACTERS: Final = 200
# Main texts of responses in use: findings are read from what was read for the marks.
_texts: Final[WeakKeyDictionary[Response, list[bytes]]] = WeakKeyDictionary()


def visible_texts(element: Any) -> list[str]:
    """Return the visible texts of an element; scripts and styles only if it is one itself."""
    blocks = [text for text in map(spaced, str(_VISIBLE(element)).split(_BREAK)) if text]
    return blocks if len(blocks) > MOST_WHOLE else [" ".join(blocks)]


def _blocks(tree: HtmlElement) -> Iterator[str]:
    """Yield the text of each block of a page, "" if it is mostly links."""
    begun = ""
    for block in str(_MAIN_TEXT(tree)).split(_BREAK):
        shown = begun + block
        text = own = spaced(shown.replace(_LINK, "").replace(_LINK_END, ""))
        if _LINK in shown:
            begun = _LINK if shown.rfind(_LINK) > shown.rfind(_LINK_END) else ""
            own = spaced(_LINKED.sub("", shown))
        if text.strip(_HEADING):
            yield "" if len(own) < (1 - _MOST_LINKED) * len(text) else text


def _without_hidden(tree: HtmlElement) -> HtmlElement:
    """Return a copy of a page without comments and invisible elements."""
    copy = deepcopy(tree)
    strip_elements(copy, Comment, *_HIDDEN, with_tail=False)
    return copy


def _seen(elements: SelectorList[Selector]) -> SelectorList[Selector]:
    """Return the elements outside of invisible ones; invisible elements only if there are no others."""
    outside = [one for one in elements if next(one.root.iterancestors(*_HIDDEN), None) is None]
    seen = [one for one in outside if one.root.tag not in _HIDDEN]
    return SelectorList(seen or outside)


def selecting_reader(kind: str, expression: str) -> Reader:
    """Return the reader of the texts that a parsel expression selects; `kind` is "css" or "xpath"."""

    def select(page: Selector) -> SelectorList[Selector]:
        selection: SelectorList[Selector] = getattr(page, kind)(expression)
        return selection

    names_hidden = _NAMES_HIDDEN.search(expression) is not None

    def read(response: Response, tree: HtmlElement | None) -> Iterator[Shown]:
        if tree is not None:
            selection = select(Selector(root=tree, type="html"))
            if not names_hidden:
                if all(iselement(selected.root) for selected in selection):
                    selection = _seen(selection)
                else:
                    selection = select(Selector(root=_without_hidden(tree), type="html"))
        elif isinstance(response, XmlResponse):
            selection = select(response.selector)
        else:
            return
        for selected in selection:
            if iselement(selected.root):
                yield from visible_texts(selected.root)
            else:
                yield selected.get() or ""

    try:
        select(Selector("<p></p>", type="html"))
    except (ValueError, SelectorError) as error:
        raise NotAllowedError(f"an expression that can be read ({error})") from error
    return read


def jmespath_reader(expression: str) -> Reader:
    """Return the reader for a JMESPath expression on a JSON answer; each element of a list is a mark."""
    try:
        compiled = jmespath.compile(expression)
    except JMESPathError as error:
        reason = " ".join(str(error).split())
        raise NotAllowedError(f"an expression that can be read ({reason})") from error

    def read(response: Response, tree: HtmlElement | None) -> Iterator[Shown]:
        del tree
        assert isinstance(response, TextResponse)  # noqa: S101 - no other answer is read
        selected = compiled.search(response.json())
        for value in selected if isinstance(selected, list) else [selected]:
            if isinstance(value, str):
                yield value
            elif value is not None:
                yield canonical_json(value)

    return read


def read_text(response: Response, tree: HtmlElement | None) -> list[bytes]:
    """Return the blocks of a page's main text: paragraphs, headings, entries of lists, rows of tables.

    Left out are menus, footers, asides, forms' controls, figures, and blocks that consist of links
    by more than `_MOST_LINKED`. Of the blocks between two of the latter, headings at the end are
    theirs, and fewer than `_FEWEST_CHARACTERS` are captions, unless the page has no longer text.
    """
    if response not in _texts:
        assert tree is not None  # noqa: S101 - only HTML is read
        runs = [[*run] for counts, run in groupby(_blocks(tree), key=bool) if counts]
        for run in runs:
            while run and run[-1].startswith(_HEADING):
                run.pop()
        long = [run for run in runs if sum(map(len, run)) >= _FEWEST_CHARACTERS]
        texts = (text.lstrip(_HEADING).lstrip() for run in long or runs for text in run)
        _texts[response] = [
            (text if text.isascii() else as_read(text)).encode("utf-8", "replace") for text in texts
        ]
    return _texts[response]


# By the prefix in HACS_WATCH; with the types of answers that each reads.
READERS: Final[dict[str, tuple[Callable[[str], Reader], tuple[AnswerType, ...]]]] = {
    "css": (partial(selecting_reader, "css"), ("HTML", "XML")),
    "xpath": (partial(selecting_reader, "xpath"), ("HTML", "XML")),
    "jmespath": (jmespath_reader, ("JSON", "text")),
}
