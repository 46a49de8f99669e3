"""URIs of mementos, which hold the time and the page's URL, and links rewritten to such URIs.

An archive is asked for a capture as it was archived (`id_`). One that does not know this answers with a
page whose links all lead to its own mementos, of the page's own time, below a bar of links of its own.
"""

import re
from typing import Final
from urllib.parse import urljoin, urlsplit

from lxml import etree

from hacs_crawler.archive.capture import parse_timestamp

_MEMENTO: Final = re.compile(r"/([0-9]{4,17})(?:[a-z]{2}_)?/(https?:/.+|[^/:]+\..+)\Z", re.DOTALL)
_TOOLBAR: Final = (
    "<!-- BEGIN WAYBACK TOOLBAR INSERT -->",
    "<!-- END WAYBACK TOOLBAR INSERT -->",
)
"""What OpenWayback and the Wayback Machine put around the links of their own."""
# not joined by "|", for which libxml2 compares each with each
_links: Final = etree.XPath("//*[self::a or self::area][@href]")
_bases: Final = etree.XPath("//base[@href]")


def timestamp_of(uri: str) -> int | None:
    """Return the second that a memento's URI names, None if it names none."""
    found = _MEMENTO.search(uri)
    return None if found is None else parse_timestamp(found[1])


def original_of(uri: str) -> str:
    """Return the URL whose memento a URI says it is, "" if it does not say."""
    found = _MEMENTO.search(uri)
    return "" if found is None else found[2]


def raw_uri(uri: str) -> str:
    """Return the URI of the same memento as it was archived, where its form is Wayback's."""
    found = _MEMENTO.search(uri)
    if found is None:
        return uri
    return f"{uri[: found.start()]}/{found[1]}id_/{found[2]}"


def without_toolbar(text: str) -> str:
    """Return a page without the bar that Wayback software puts on top of it."""
    begin, end = _TOOLBAR
    first, *others = text.split(begin)  # an expression would look for the end from each beginning
    kept = [first]
    for part in others:
        _, found, after = part.partition(end)
        kept.append(after if found else begin + part)
    return "".join(kept)


class Rewriting:
    """How the links of the memento at `uri` look if its archive has rewritten them.

    They name the page's own archive and time. A page that leads to mementos by itself names others.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        found = _MEMENTO.search(uri)
        self._at = None if found is None else parse_timestamp(found[1])
        self.place = "" if found is None else _place(uri[: found.start()])
        """Host and path below which the archive's mementos are."""

    def is_in(self, root: etree._Element | None) -> bool:
        """Whether links of a parsed page are rewritten."""
        if root is None or self._at is None:
            return False
        return any(self._original(_href(link)) for link in _links(root))

    def undo(self, root: etree._Element) -> None:
        """Give the links of a parsed page back the addresses that they had; remove the archive's own."""
        for link in (*_bases(root), *_links(root)):
            href = _href(link)
            if _names_host_or_root(href):
                original = self._original(href)
                if original:
                    link.set("href", original)
                else:
                    del link.attrib["href"]

    def _original(self, href: str) -> str:
        """Return the URL that a link led to before it was rewritten, "" if it was not.

        A relative link is as it was: it leads to the memento's own folder, there as in the page.
        """
        if not _names_host_or_root(href) or _MEMENTO.search(href) is None:
            return ""
        try:
            uri = urljoin(self._uri, href)
            found = _MEMENTO.search(uri)
            is_own = found is not None and _place(uri[: found.start()]) == self.place
        except ValueError:  # no URL at all
            return ""
        is_same_time = found is not None and parse_timestamp(found[1]) == self._at
        return found[2] if found is not None and is_own and is_same_time else ""


def _href(link: etree._Element) -> str:
    return str(link.get("href")).strip()


def _names_host_or_root(href: str) -> bool:
    return href[:8].lower().startswith(("/", "http://", "https://"))


def _place(prefix: str) -> str:
    """Return where an archive's mementos are, whatever the scheme."""
    parts = urlsplit(prefix)
    return f"{parts.netloc.lower()}{parts.path}"
