"""The links of a page with their visible texts, in the page's order."""

from collections.abc import Iterator
from typing import Final

from lxml import etree

from hacs_crawler.links.canonical import Resolver, canonical_url, join_link
from hacs_crawler.links.sites import domain_of

_text: Final = etree.XPath("string()", smart_strings=False)
_base_hrefs: Final = etree.XPath("//base/@href", smart_strings=False)
_MOST_TEXT: Final = 1_000_000


def page_links(root: etree._Element | None, base_url: str) -> Iterator[tuple[str, str]]:
    """Yield each distinct canonical link of a page and its text, in the page's order, frames last.

    The text is that of the first element with this link (for an `area`, its `alt`), with white space
    collapsed; "" once the texts have had a million characters. Raises as `link_fingerprints`.
    """
    if root is None:
        return
    base = base_of(root, base_url)
    resolver = Resolver(base)
    seen: set[str | None] = {None}
    # malformed pages may nest links, and each has the text of all inner ones
    text_left = _MOST_TEXT
    for element in root.iter("a", "area"):
        href = element.get("href")
        link = None if href is None else resolver.link(href)
        if link is not None and link not in seen:
            seen.add(link)
            text = element.get("alt") or (_text(element) if text_left > 0 else "")
            text_left -= len(text)
            yield link, " ".join(text.split())
    for link, title in frame_links(root, base_url, base):
        if link not in seen:
            seen.add(link)
            yield link, title


def frame_links(root: etree._Element, base_url: str, base: str) -> Iterator[tuple[str, str]]:
    """Yield links and titles of frames within the domain: others are advertisements and videos."""
    resolver = None
    for element in root.iter("frame", "iframe"):
        resolver = resolver or Resolver(base)
        link = resolver.link(element.get("src") or "about:blank")
        if link is not None and domain_of(link) == domain_of(base_url):
            yield link, " ".join((element.get("title") or element.get("name") or "").split())


def base_of(root: etree._Element, base_url: str) -> str:
    """Return the base URL of a page's links: from its first `base` element, else its own URL."""
    for href in _base_hrefs(root)[:1]:
        base = join_link(base_url, href)
        if base is not None and canonical_url(base) is not None:
            return base
    return base_url
