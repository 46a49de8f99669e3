"""The entries of a page that read as publications, by their words, their heading, and their links.

An entry is the innermost block of a page (an item of a list, a row, a paragraph, a card) whose text
reads as a citation, or a link to a file or a DOI. Measured by `benchmarks/publications.py`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from lxml import etree
from lxml.html import HtmlElement

from hacs_crawler.links.anchors import base_of, page_links
from hacs_crawler.links.canonical import Resolver
from hacs_crawler.links.urls import fingerprint

_FILE: Final = re.compile(
    r"\.(?:pdf|ps|djvu)(?:\.gz)?(?:[?#]|$)|//(?:dx\.)?doi\.org/|/10\.\d{4,9}/"
    r"|//arxiv\.org/(?:abs|pdf)/",
    re.IGNORECASE,
)
_BLOCKS: Final = frozenset({"li", "p", "dd", "tr", "div", "article", "blockquote", "pre"})
_ITEMS: Final = frozenset({"li", "p", "dd", "tr", "pre"})
# In preformatted text an entry begins after a blank line, or with a number or bullet at a line's start.
_MARK: Final = r"(?:\[\w+\]|\d{1,3}[.)]|[-*\u2022])\s"
_ENTRY_BEGIN: Final = re.compile(rf"\n[^\S\n]*(?:\n\s*(?:{_MARK})?|{_MARK})")
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_SECTION: Final = re.compile(
    r"\b(?:publi[ck]ation|paper|article|preprint|bibliograph|veröffentlichung|publicacion|book)",
    re.IGNORECASE,
)
_YEAR: Final = re.compile(
    r"\b(?:19[5-9]|20[0-4])\d[a-z]?\b|\bto appear\b|\bin press\b|\bforthcoming\b|\bim Druck\b"
    r"|\bunder review\b|\bà paraître\b|\w ['\u2019]\d\d\b",
    re.IGNORECASE,
)
_NAME: Final = r"[A-ZÀ-Þ][\w'\u2019-]+"
_AUTHORS: Final = re.compile(
    rf"(?:\b[A-Z]\.[ -]?){{1,3}}{_NAME}|{_NAME},? (?:[A-Z]\.[ -]?)+|\bet al\b"
    rf"|\b{_NAME} (?:[A-Z]\. )?{_NAME}(?:, | and | & | und | et ){_NAME} (?:[A-Z]\. )?{_NAME}"
    rf"|^\W*{_NAME} (?:[A-Z]\. )?{_NAME}[.:] "
)
_VENUE: Final = re.compile(
    r"\b(?:Proc(?:eedings)?|Conf(?:erence)?|Symposium|Workshop|Journal|J|Trans(?:actions)?|Letters|Annals"
    r"|Review|Magazine|Quarterly|Lecture Notes|LNCS|arXiv|bioRxiv|SSRN|preprint|Press|Springer|Elsevier"
    r"|Wiley|IEEE|ACM|CoRR|USENIX|NeurIPS|ICML|Tech(?:nical|\.) Report|PhD thesis|Dissertation|pages"
    r"|chapter|Bulletin|Zeitschrift|Tagungsband|Actes|Revue|Verlag|Nature|Science)\b\.?"
    r"|\b(?:[Vv]ol|pp|[Nn]o|eds?|Bd)\.|\bS\. \d|\b\d+ ?\(\d+\)|\bIn:|\bISBN\b|\bdoi\b"
)
_BEFORE_STOP: Final = re.compile(r" (?=[.,;:)](?:\s|$))")
_OTHER: Final = re.compile(
    r"\b(?:committee|reviewer|referee|invited|keynote|talk|seminar|colloquium|teaching|course|syllabus"
    r"|lecturer|office hours|award(?:ed)?|prize|grant|chair|organi[sz](?:er|ing|ed)|join(?:ed)?"
    r"|visit(?:ing|ed)?|semester|homework|exam|hiring|students?|copyright|last (?:updated|modified)"
    r"|accepted (?:at|to|by)|was accepted|editor(?:ial)? board|panel|attend(?:ed|ing)?|congratulations"
    r"|deadline|call for)\b"
    r"|^\W*(?:Professor|Postdoc|Ph\.?D\.? student|Department|Room)\b|©",
    re.IGNORECASE,
)
# Length of an entry in characters.
_FEWEST, _MOST = 30, 700
_TITLE_WORDS: Final = 4
_WORDS: Final = re.compile(r"\w+")
_MOST_TITLE: Final = 300


# The text of a block or a line, and its hrefs.
Entry = tuple[str, list[str]]


class Publication(NamedTuple):
    """An entry that reads as a publication: its title or whole text, and links to it, best first."""

    title: str
    links: tuple[str, ...] = ()


def publications(root: HtmlElement | None, base_url: str) -> Iterator[Publication]:
    """Yield each publication on a page once. Raises as `page_links`."""
    if root is None:
        return
    texts = dict(page_links(root, base_url))
    resolver, taken = Resolver(base_of(root, base_url)), set[str]()
    for text, hrefs in _entries(root):
        targets = filter(None, map(resolver.link, hrefs))
        leading = {link for link in targets if _is_title(texts.get(link, "")) or is_file(link)}
        links = sorted(leading - taken, key=lambda link: (not is_file(link), link))
        if leading and not links:
            continue
        taken.update(links)
        title = max((texts.get(link, "") for link in links), key=len, default="")
        yield Publication((title if _is_title(title) else text)[:_MOST_TITLE], tuple(links))
    for link, text in texts.items():
        if link not in taken and is_file(link):
            yield Publication(text, (link,))


def citations(root: HtmlElement | None, base_url: str) -> list[str]:
    """Return the texts of a page's publications without a link. Raises as `page_links`."""
    return [entry.title for entry in publications(root, base_url) if not entry.links]


def citation_fingerprint(text: str) -> int:
    """Return the fingerprint of a citation's words; punctuation and case are ignored."""
    return fingerprint(" ".join(_WORDS.findall(text.lower())))


def is_file(link: str) -> bool:
    """Whether a link leads to a publication's file, or is a DOI."""
    return _FILE.search(link) is not None


def is_citation(text: str, *, is_listed: bool = False) -> bool:
    """Whether the text of an entry reads as a citation; `is_listed`: it is below "Publications"."""
    if not _FEWEST <= len(text) <= _MOST:
        return False
    signs = sum(pattern.search(text) is not None for pattern in (_YEAR, _AUTHORS, _VENUE))
    against = _OTHER.search(text) is not None  # not decisive: it may be a word of a title
    return signs - against >= (1 if is_listed else 2)


def _entries(root: HtmlElement) -> Iterator[Entry]:
    """Yield each innermost block, or line of a block, that reads as a citation.

    If a single part of a card or a row reads as a citation, without a link, the whole is taken instead.
    """
    elements = [element for element in root.iter() if isinstance(element.tag, str)]
    sizes: dict[HtmlElement, int] = {}
    for element in reversed(elements):
        inner = sum(sizes.get(child, 0) + len(child.tail or "") for child in element)
        sizes[element] = inner + len(element.text or "")
    listed = _listed(elements, sizes)
    # the entries in each element
    within: dict[HtmlElement, list[Entry]] = {}
    has_blocks = set[HtmlElement]()
    for element in reversed(elements):
        entries = within.pop(element, [])
        if element.tag in _BLOCKS:
            is_short = _FEWEST <= sizes[element] <= 2 * _MOST
            is_whole = not entries or (len(entries) == 1 and not entries[0][1])
            if is_whole and (is_short or element not in has_blocks):
                lines = _lines(element)
                entries = [
                    line for line in lines if is_citation(line[0], is_listed=element in listed)
                ] or entries
        parent = element.getparent()
        if entries and parent is not None:
            within.setdefault(parent, [])[:0] = entries
        if element.tag in _BLOCKS or element in has_blocks:
            has_blocks.add(parent)
    yield from entries


def _listed(elements: Iterable[HtmlElement], sizes: Mapping[HtmlElement, int]) -> set[HtmlElement]:
    """Return the items below headings such as "Publications"."""
    is_below, listed = False, set[HtmlElement]()
    for element in elements:
        if element.tag in _HEADINGS and sizes[element] <= _MOST:
            heading = next(_lines(element))[0]
            if not _is_title(heading):  # a longer heading is a publication's title
                is_below = _SECTION.search(heading) is not None
        elif is_below and element.tag in _ITEMS:
            listed.add(element)
    return listed


def _lines(block: HtmlElement) -> Iterator[Entry]:
    """Yield the text and the links of each line of a block.

    A line ends at the element `br`; in preformatted text, at the next entry.
    """
    is_preformatted, texts, hrefs = block.tag == "pre", list[str](), list[str]()
    for event, element in etree.iterwalk(block, events=("start", "end")):
        text = "\n" * (is_preformatted and event == "start" and element is block)
        if event == "end":
            text = (element.tail or "") * (element is not block)
        elif element.tag == "br" and not is_preformatted:
            yield _joined(texts), hrefs
            texts, hrefs = [], []
        elif element.tag not in ("script", "style", "template"):
            text += element.text or ""
            hrefs += filter(None, [element.get("href")])
        *ended, text = _ENTRY_BEGIN.split(text) if is_preformatted else [text]
        for last in ended:
            yield _joined([*texts, last]), hrefs
            texts, hrefs = [], []
        texts.append(text)
    yield _joined(texts), hrefs


def _joined(texts: Iterable[str]) -> str:
    # join with spaces, as elements such as `div` end a word; but not before a full stop after `</b>`
    return _BEFORE_STOP.sub("", " ".join(" ".join(texts).split()))


def _is_title(text: str) -> bool:
    return len(text.split()) >= _TITLE_WORDS
