"""Digests of a page's content, from archives' indexes, by the time of the capture.

Changes are computed from the whole set of captures, so that neither the order of an index's rows matters
nor how they are split into files. For each capture, by its second, the state keeps twice the digest's
number, plus 1 if it repeats an earlier capture (a revisit record). As a repetition may also be of an
error, it keeps the numbers of the contents that the page itself had, too. Numbers are made by
`digest_number`; digests of different algorithms are not compared.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from hacs_crawler.links import fingerprint

# Beyond this many contents the lowest numbers are kept, so that the order of recording does not matter.
MOST_CONTENTS: Final = 4_096
# By the digest's bytes: SHA-1, MD5, SHA-256; 0 for others.
_ALGORITHMS: Final = {20: 1, 16: 2, 32: 3}
_ALGORITHM: Final = 3


def digest_number(digest: bytes) -> int:
    """Return the 31-bit number that stands for a digest; its lowest two bits name the algorithm."""
    number = fingerprint(digest.hex()) & 0x1FFF_FFFF or 1
    return number << 2 | _ALGORITHMS.get(len(digest), 0)


def union(digests: Mapping[int, int], more: Mapping[int, int]) -> dict[int, int]:
    """Return the digests of both, by time; within a second, a capture that repeats none goes first."""
    joined = {**digests}
    for at, mark in more.items():
        joined[at] = min(joined.get(at, mark), mark, key=lambda mark: (mark & 1, mark))
    return dict(sorted(joined.items()))


def union_of_contents(contents: Iterable[int], others: Iterable[int]) -> list[int]:
    """Return the contents of both, at most `MOST_CONTENTS`."""
    return sorted({*contents, *others})[:MOST_CONTENTS]


def repeated(digests: Mapping[int, int], contents: Collection[int]) -> list[int]:
    """Return the times of captures that repeat a known content of the page."""
    known_contents = set(contents)
    return [at for at, mark in digests.items() if mark & 1 and mark >> 1 in known_contents]


def changes(digests: Mapping[int, int], contents: Collection[int]) -> Iterator[int]:
    """Yield the times at which the content differed from the capture before.

    Captures that repeat an earlier one are left out, as are repetitions of unknown content.
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
