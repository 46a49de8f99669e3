"""Digests of a page's content, as archives' indexes name them, by the time of the capture.

Which captures found a change follows from all of them, so that it does not matter in which order an
index's rows are read, nor into how many files they are split. Kept are pairs of numbers in the order of
time: the second, and twice the digest's number, plus 1 for a capture that repeats an earlier one (a
revisit record); and the numbers of the contents that the page itself had, as a repetition may also be
of an error. Numbers are made by `digest_number`; those of different algorithms are not compared.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from hacs_crawler.links import fingerprint

# Of more contents the least numbers are kept, whatever the order in which they came.
MOST_CONTENTS: Final = 4_096
# By the digest's bytes: SHA-1, MD5, SHA-256; 0 for others.
_ALGORITHMS: Final = {20: 1, 16: 2, 32: 3}
_ALGORITHM: Final = 3


def digest_number(digest: bytes) -> int:
    """Return a number of 31 bits by which a digest is known, its lowest two bits for the algorithm."""
    number = fingerprint(digest.hex()) & 0x1FFF_FFFF or 1
    return number << 2 | _ALGORITHMS.get(len(digest), 0)


def add(digests: array[int], at: int, number: int, *, repeats: bool) -> None:
    """Add what an index says of one capture, in place; of one second, content of its own goes first."""
    mark = number << 1 | repeats
    index = 2 * bisect_left(digests[::2], at)
    if digests[index : index + 1] != array("I", [at]):
        digests[index:index] = array("I", [at, mark])
    else:
        digests[index + 1] = min(digests[index + 1], mark, key=_precedence)


def add_content(contents: array[int], number: int) -> None:
    """Add the number of a content that the page had, in place."""
    index = bisect_left(contents, number)
    if contents[index : index + 1] != array("I", [number]):
        contents.insert(index, number)
        del contents[MOST_CONTENTS:]


def union_of_contents(contents: array[int], others: array[int]) -> array[int]:
    """Return the contents of both."""
    return array("I", sorted({*contents, *others})[:MOST_CONTENTS])


def repeated(digests: array[int], contents: array[int]) -> Iterator[int]:
    """Yield the times of captures that repeat content which the page is known to have had."""
    known_contents = set(contents)
    return (at for at, mark in pairs(digests) if mark & 1 and mark >> 1 in known_contents)


def union(digests: array[int], more: array[int]) -> array[int]:
    """Return the pairs of both."""
    longer, shorter = sorted((digests, more), key=len, reverse=True)
    result = longer[:]
    for at, mark in pairs(shorter):
        add(result, at, mark >> 1, repeats=bool(mark & 1))
    return result


def only(digests: array[int], times: array[int]) -> array[int]:
    """Return the pairs of these times."""
    kept = set(times)
    return array("I", [value for pair in pairs(digests) if pair[0] in kept for value in pair])


def pairs(digests: array[int]) -> Iterator[tuple[int, int]]:
    """Yield the pairs."""
    return zip(digests[::2], digests[1::2], strict=True)


def changes(digests: array[int], contents: array[int]) -> Iterator[int]:
    """Yield the times at which the content differed from the capture before.

    A capture that repeats an earlier one is not such a time. A repetition of the unknown proves nothing.
    """
    known_contents = set(contents)
    last: dict[int, int] = {}
    for at, mark in pairs(digests):
        number, repeats = mark >> 1, mark & 1
        if repeats and number not in known_contents:
            continue
        if last.get(number & _ALGORITHM, number) != number and not repeats:
            yield at
        last[number & _ALGORITHM] = number


def _precedence(mark: int) -> tuple[int, int]:
    return mark & 1, mark
