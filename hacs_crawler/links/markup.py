"""Markup that would take too long to parse: recognised before parsing.

To build a tree for a tag with n attributes, libxml2 takes time in proportion to n², because it walks to
the end of a list for each of them: 3 MB of attributes stop a crawl for minutes. Its tokenizer, from
2.14 on (lxml 6), takes linear time. Pages that could have such a tag are therefore tokenized first, in
pieces. A search through the text shows that most pages could not.
"""

import re
from typing import Final

import numpy as np
from lxml import etree

MOST_CHARACTERS: Final = 8_000_000
# Limit for each tag.
MOST_ATTRIBUTES: Final = 500
# Limit on the tags and attributes of a page.
MOST_TAGS: Final = 400_000
# Length of a name of one letter, and the space before it.
_SHORTEST_ATTRIBUTE: Final = 2
# Shorter texts are not checked: 5,000 attributes at most, which take 0.05 s.
_HARMLESS_CHARACTERS: Final = 16_384
_PIECE_BYTES: Final = 1 << 18
_MOST_PASSES: Final = 3
_QUOTED_TAG_ENDS: Final = re.compile(
    # a value begins with "=" and a quote
    r"""=[ \t\n\f\r]*+(?:"[^">]*+>[^"]*+|'[^'>]*+>[^']*+)"""
)


class MarkupError(ValueError):
    """Reading a page would take too long; the message says why."""


def check_markup(text: str) -> None:
    """Raise MarkupError if HTML would take too long to parse, or to search for links.

    Takes a tenth of the time of parsing for most pages, and as long as parsing for the others.
    """
    if len(text) <= _HARMLESS_CHARACTERS:
        return
    if len(text) > MOST_CHARACTERS:
        raise MarkupError(f"it has more than {MOST_CHARACTERS:,} characters")
    if len(text) <= _SHORTEST_ATTRIBUTE * MOST_TAGS and not _may_have_long_tag(text):
        return
    tags = _Tags()
    parser = etree.HTMLParser(target=tags, recover=True, huge_tree=True, encoding="utf8")
    body = text.encode()
    for start in range(0, len(body), _PIECE_BYTES):
        parser.feed(body[start : start + _PIECE_BYTES])
        # lxml would parse the rest of the piece even if the target raised an exception
        if tags.problem:
            raise MarkupError(tags.problem)


def _may_have_long_tag(text: str) -> bool:
    """Return False only if no tag can have more than MOST_ATTRIBUTES attributes.

    A tag ends at the first ">" outside a quoted value. After the ">" inside values are blanked, every
    tag is between two ">". Text that only looks like a quoted value (in scripts, comments, texts) loses
    its ">" too, which can only make pieces longer.
    """
    if not _may_have_long_piece(text):  # takes a third of the time of examining each piece
        return False
    # a value that begins inside such a look-alike needs another pass
    for _ in range(_MOST_PASSES):
        if _QUOTED_TAG_ENDS.search(text) is None:
            break
        text = _QUOTED_TAG_ENDS.sub(lambda value: value[0].replace(">", " "), text)
    else:
        return True
    return any(map(_may_be_long_tag, text.split(">")))


def _may_have_long_piece(text: str) -> bool:
    """Return False only if no value has a ">", and no piece between two ">" is long enough."""
    encoded = text.encode("utf-8", "replace")
    data = np.frombuffer(encoded, np.uint8)
    places = np.flatnonzero((data == ord(">")) | (data == ord('"')) | (data == ord("'")))
    signs = data[places]
    for quote, other in b"\"'", b"'\"":
        if quote not in encoded:
            continue
        # quotes with a ">" before the next quote: after "=" and spaces they begin a value
        some = places[signs != other]
        is_end = data[some] == ord(">")
        begin = some[:-1][is_end[1:] & ~is_end[:-1]]
        # look past one space; a further space may follow a "="
        before = np.where(data[begin - 1] <= ord(" "), data[begin - 2], data[begin - 1])
        if ((before == ord("=")) | (before <= ord(" "))).any():
            return True
    gaps = np.diff(places[signs == ord(">")], prepend=-1, append=len(data))
    return bool(gaps.max() > _SHORTEST_ATTRIBUTE * MOST_ATTRIBUTES)


def _may_be_long_tag(piece: str) -> bool:
    """Return whether a text that ends at a ">" may end with a tag of too many attributes."""
    if len(piece) <= _SHORTEST_ATTRIBUTE * MOST_ATTRIBUTES:
        return False
    # attributes are separated by white space, slashes and the ends of values
    tag = piece[piece.find("<") :]
    ends = tag.count("/") + (tag.count('"') + tag.count("'")) // 2
    return len(tag.split()) + ends > MOST_ATTRIBUTES


class _Tags:
    """Counts tags and attributes while a parser reads them."""

    def __init__(self) -> None:
        self.problem = ""
        self._number = 0

    def start(self, _tag: str, attributes: dict[str, str]) -> None:
        self._number += 1 + len(attributes)
        if len(attributes) > MOST_ATTRIBUTES:
            self.problem = f"it has a tag with more than {MOST_ATTRIBUTES} attributes"
        elif self._number > MOST_TAGS:
            self.problem = f"it has more than {MOST_TAGS:,} tags and attributes"

    def close(self) -> None:
        """Do nothing; lxml requires this method."""
