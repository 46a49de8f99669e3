"""Readers of marks: texts selected by an expression, and the main text."""

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
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

from hacs_crawler.exceptions import needing
from hacs_crawler.utils.settings import NotAllowedError
from hacs_crawler.watch.items import canonical_json
from hacs_crawler.watch.rules import AnswerType, Reader, Shown, spaced

_HIDDEN: Final = frozenset({"iframe", "noscript", "object", "script", "style", "template"})
# A reader sees these elements of an inline SVG as a tooltip, or not at all.
_OF_SVG: Final = "title", "desc"
_NAMES_HIDDEN: Final = re.compile(rf"(?<![\w.#-])(?:{'|'.join(sorted(_HIDDEN))}|svg)(?![\w-])")
# An expression for texts, with the expression for their element.
_TEXTS_OF: Final = re.compile(r"(.*[\w)\]])(?:\s*::text|//?text\(\))\s*", re.DOTALL)
_BLOCKS: Final = (
    "address|article|aside|blockquote|br|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form"
    "|h1|h2|h3|h4|h5|h6|header|hr|li|main|nav|ol|option|p|pre|section|summary|table|tr|ul"
)
# An element with at most this many blocks is one text; otherwise each block is a text, as in a list.
MOST_WHOLE: Final = 4
# What the stylesheet writes around blocks: no character of texts.
_BREAK: Final = "\ufdd0"
# lxml walks through a tree in C by a stylesheet, which takes a tenth of the time of a loop.
_VISIBLE: Final = etree.XSLT(
    etree.XML(f"""
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="text"/>
  <xsl:template match="/"><xsl:apply-templates select="*/node()"/></xsl:template>
  <xsl:template match="{"|".join(sorted(_HIDDEN))}"/>
  <xsl:template match="svg//title|svg//desc|g//title|g//desc|path/title|use/title"/>
  <xsl:template match="{_BLOCKS}">{_BREAK}<xsl:apply-templates/>{_BREAK}</xsl:template>
  <xsl:template match="td|th">&#160;<xsl:apply-templates/>&#160;</xsl:template>
</xsl:stylesheet>""")
)


def visible_texts(element: Any) -> list[str]:
    """Return the visible texts of an element; scripts and styles only if it is one itself."""
    blocks = [text for text in map(spaced, str(_VISIBLE(element)).split(_BREAK)) if text]
    return blocks if len(blocks) > MOST_WHOLE else [" ".join(blocks)]


def _without_hidden(tree: HtmlElement) -> HtmlElement:
    """Return a copy of a page without comments and invisible elements."""
    copy = deepcopy(tree)
    for svg in [*copy.iter("svg")]:
        strip_elements(svg, *_OF_SVG, with_tail=False)
    strip_elements(copy, Comment, *_HIDDEN, with_tail=False)
    return copy


def _seen(elements: SelectorList[Selector]) -> SelectorList[Selector]:
    """Return the elements outside of invisible ones; invisible elements only if there are no others."""
    outside = [one for one in elements if next(one.root.iterancestors(*_HIDDEN), None) is None]
    seen = [
        one
        for one in outside
        if one.root.tag not in _HIDDEN
        and (one.root.tag not in _OF_SVG or next(one.root.iterancestors("svg"), None) is None)
    ]
    return SelectorList(seen or outside)


def selecting_reader(kind: str, expression: str) -> Reader:
    """Return the reader of the texts that a parsel expression selects; `kind` is "css" or "xpath"."""

    def select(page: Selector, expression: str = expression) -> SelectorList[Selector]:
        selection: SelectorList[Selector] = getattr(page, kind)(expression)
        return selection

    names_hidden = _NAMES_HIDDEN.search(expression) is not None
    texts_of = _TEXTS_OF.fullmatch(expression)

    def read(response: Response, tree: HtmlElement | None) -> Iterator[Shown]:
        if tree is not None:
            page = Selector(root=tree, type="html")
            selection = select(page)
            if not names_hidden:
                if all(iselement(selected.root) for selected in selection):
                    selection = _seen(selection)
                else:
                    seen = select(Selector(root=_without_hidden(tree), type="html"))
                    # an id or attribute may name an invisible element
                    elements = select(page, texts_of[1]) if texts_of and not seen else seen
                    is_named = all(getattr(one.root, "tag", "") in _HIDDEN for one in elements)
                    selection = elements if is_named else seen
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


def entry_titles(feed: XmlResponse) -> Iterator[tuple[str, str]]:
    """Yield the URLs of an RSS or Atom feed's entries, with the titles of the entries."""
    for entry in feed.xpath("//*[local-name()='item' or local-name()='entry']"):
        title = spaced(entry.xpath("string(*[local-name()='title'])").get(""))
        links = entry.xpath("*[local-name()='link']/text() | *[local-name()='link']/@href")
        for url in links.getall():
            yield feed.urljoin(url.strip()), title


def jmespath_reader(expression: str) -> Reader:
    """Return the reader for a JMESPath expression on a JSON answer; each element of a list is a mark."""
    try:
        compiled = jmespath.compile(expression)
    except JMESPathError as error:
        raise NotAllowedError(f"an expression that can be read ({spaced(str(error))})") from error

    def read(response: Response, _tree: HtmlElement | None) -> Iterator[Shown]:
        assert isinstance(response, TextResponse)  # noqa: S101 - no other answer is read
        selected = compiled.search(response.json())
        for value in selected if isinstance(selected, list) else [selected]:
            if isinstance(value, str):
                yield value
            elif value is not None:
                yield canonical_json(value)

    return read


def text_reader() -> Reader:
    """Return the reader of a page's main text: its paragraphs, headings and cells. Needs trafilatura."""
    with needing("text", "installed first", NotAllowedError):
        from trafilatura import extract  # noqa: PLC0415 - an extra

    # kept while a response is in use: findings are read from the text that was extracted for the marks
    read_before = WeakKeyDictionary[Response, list[str]]()

    def read(response: Response, tree: HtmlElement | None) -> list[str]:
        assert tree is not None  # noqa: S101 - only HTML is read
        if response not in read_before:
            # a copy, as trafilatura changes trees; pruned, as it would take scripts and menus for text
            text = extract(
                _without_hidden(tree),
                include_comments=False,
                favor_recall=True,
                prune_xpath=["//nav", "//footer"],
            )
            read_before[response] = (text or "").splitlines()
        return read_before[response]

    return read


# By the prefix in HACS_WATCH; with the types of answers that each reads.
READERS: Final[dict[str, tuple[Callable[[str], Reader], tuple[AnswerType, ...]]]] = {
    "css": (partial(selecting_reader, "css"), ("HTML", "XML")),
    "xpath": (partial(selecting_reader, "xpath"), ("HTML", "XML")),
    "jmespath": (jmespath_reader, ("JSON", "plain text")),
}
