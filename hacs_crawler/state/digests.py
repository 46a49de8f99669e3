"""Digests of a page's content, as archives' indexes name them, by the time of the capture.

Which captures found a change follows from all of them, so that it does not matter in which order an
index's rows are read, nor into how many files they are split. Kept is, by the second of each capture,
twice the digest's number, plus 1 for a capture that repeats an earlier one (a
revisit record); and the numbers of the contents that the page itself had, as a repetition may also be
of an error. Numbers are made by `digest_number`; those of different algorithms are not compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
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


def union(digests: Mapping[int, int], more: Mapping[int, int]) -> dict[int, int]:
    """Return the digests of both, by time; of one second, content of its own goes first."""
    joined = {**digests}
    for at, mark in more.items():
        joined[at] = min(joined.get(at, mark), mark, key=lambda mark: (mark & 1, mark))
    return dict(sorted(joined.items()))


def union_of_contents(contents: Iterable[int], others: Iterable[int]) -> list[int]:
    """Return the contents of both."""
    return sorted({*contents, *others})[:MOST_CONTENTS]


def repeated(digests: Mapping[int, int], contents: Collection[int]) -> list[int]:
    """Return the times of captures that repeat content which the page is known to have had."""
    known_contents = set(contents)
    return [at for at, mark in digests.items() if mark & 1 and mark >> 1 in known_contents]


def changes(digests: Mapping[int, int], contents: Collection[int]) -> Iterator[int]:
    """Yield the times at which the content differed from the capture before.

    A capture that repeats an earlier one is not such a time. A repetition of the unknown proves nothing.
    """
    known_contents = set(contents)
    last: dict[int, int] = {}
    for at, mark in digests.items():
        number, repeats = mark >> 1, mark & 1
        if repeats and number not in known_contents:
            continue
        if last.get(number & _ALGORITHM, number) != number and not repeats:
            yield at
        last[number & _ALGORITHM] = number
