"""Markup that takes a parser too long: seen before a tree is made of it.

To make a tree of a tag with n attributes, libxml2 takes time in proportion to n², as it walks to the
end of a list for each of them: 3 MB of them stop a crawl for minutes. Its tokenizer alone, from 2.14 on
(lxml 6), takes time in proportion to the size of the page. So the page is tokenized first, in pieces,
and refused where it has what no page for people has.
"""

from __future__ import annotations

from typing import Final

from lxml import etree

MOST_CHARACTERS: Final = 8_000_000
MOST_ATTRIBUTES: Final = 500
"""Of one tag."""
MOST_TAGS: Final = 400_000
"""Attributes counted in."""
_HARMLESS_CHARACTERS: Final = 16_384
"""So many hold 5,000 attributes at most, which take 0.05 s."""
_PIECE_BYTES: Final = 1 << 18


class MarkupError(ValueError):
    """A page would take too long to be read; the message says what it has too much of."""


def check_markup(text: str) -> None:
    """Raise MarkupError where HTML takes too long to be parsed, or to be searched for links.

    Takes about half as long as parsing it. Raises UnicodeEncodeError for lone surrogates.
    """
    if len(text) <= _HARMLESS_CHARACTERS:
        return
    if len(text) > MOST_CHARACTERS:
        raise MarkupError(f"it has more than {MOST_CHARACTERS:,} characters")
    tags = _Tags()
    parser = etree.HTMLParser(target=tags, recover=True, huge_tree=True, encoding="utf8")
    body = text.encode()
    for start in range(0, len(body), _PIECE_BYTES):
        parser.feed(body[start : start + _PIECE_BYTES])
        if tags.problem:  # an exception would not keep the rest of the piece from being parsed
            raise MarkupError(tags.problem)


class _Tags:
    """Counts tags and attributes as a parser comes to them."""

    def __init__(self) -> None:
        self.problem = ""
        self._number = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Count a tag."""
        del tag
        self._number += 1 + len(attributes)
        if len(attributes) > MOST_ATTRIBUTES:
            self.problem = f"it has a tag with more than {MOST_ATTRIBUTES} attributes"
        elif self._number > MOST_TAGS:
            self.problem = f"it has more than {MOST_TAGS:,} tags and attributes"

    def close(self) -> None:
        """Do nothing: nothing is made of the page."""
