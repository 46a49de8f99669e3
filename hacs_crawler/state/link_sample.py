"""How much is kept of each link of a page: all of its fingerprint, part of it, or nothing.

Pages have a level. What a level keeps follows from what the level before it keeps:

- 0: the fingerprint, 64 bits, and when it was seen last;
- 1: its lowest 32 bits;
- 2: its lowest 16 bits;
- 2 + s: these 16 bits of the links whose lowest s bits are 0, one in 2^s; nothing of the others. This
  is distinct sampling (Gibbons, VLDB 2001): whether a link is in the sample depends on the link alone.

So narrowing what is known of two sets of links and joining them gives what joining and narrowing them
gives. And as a set only grows while links are added, the first level at which it fits into a number of
bytes is the same in whatever order they came.

Two links of which the same is kept are taken for one. A link that a page of n links has never shown is
thus taken for a known one with the probability 1 - (1 - 2^-b)^n, about n / 2^b, at b = 64, 32 or 16
bits; n counts all links that the page ever showed, those that are not in the sample too.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

_SAMPLED_BITS: Final = 16
_LAST_BYTES: Final = 4
COARSEST: Final = 2 + _SAMPLED_BITS
"""The level that keeps one link at most."""
_CODES: Final = "q", "I", *"H" * (1 + _SAMPLED_BITS)
_MASKS: Final = -1, 2**32 - 1, *[2**16 - 1] * (1 + _SAMPLED_BITS)
_DROPPED: Final = 0, 0, *(2**bits - 1 for bits in range(1 + _SAMPLED_BITS))


def new_array(level: int) -> array[int]:
    """Return an array for what a level keeps of links."""
    return array(_CODES[level])


def kept(links: Iterable[int], level: int) -> set[int]:
    """Return what a level keeps of links, given at this level or one before it."""
    mask, dropped = _MASKS[level], _DROPPED[level]
    return {link & mask for link in links if not link & dropped} if level else set(links)


def unseen(links: frozenset[int], known: Iterable[int], level: int) -> frozenset[int]:
    """Return those of the fingerprints, as they are, of which something is kept that is not known."""
    if not level:
        return links.difference(known)
    mask, dropped, known = _MASKS[level], _DROPPED[level], set(known)
    return frozenset(link for link in links if not link & dropped and link & mask not in known)


class Sightings(NamedTuple):
    """When a link was seen first and last, in seconds since 1970 UTC.

    `last` is 0 where it is not known: an earlier version, which did not note it, was the only one to see
    the link, or not everything is kept of the page's links.
    """

    first: int
    last: int

    def joined(self, other: Sightings) -> Sightings:
        """Return what both tell together."""
        return Sightings(min(self.first, other.first), max(self.last, other.last))


def bytes_of(links: int, level: int) -> int:
    """Return how many bytes so many links take at most, with their last times where these are kept."""
    return links * (new_array(level).itemsize + (0 if level else _LAST_BYTES))


def narrowed(seen: Mapping[int, Sightings], level: int) -> dict[int, Sightings]:
    """Return what a level keeps of links."""
    if not level:
        return dict(seen)
    mask, dropped = _MASKS[level], _DROPPED[level]
    fewer: dict[int, Sightings] = {}
    for link, (first, _) in seen.items():
        if not link & dropped:
            known = fewer.get(link & mask)
            fewer[link & mask] = Sightings(first if known is None else min(first, known.first), 0)
    return fewer


def level_within(
    seen: Mapping[int, Sightings], level: int, most_bytes: int
) -> tuple[int, Mapping[int, Sightings]]:
    """Return the first level from the given one on that takes at most so many bytes, and its links."""
    while level < COARSEST and bytes_of(len(seen), level) > most_bytes:
        level += 1
        seen = narrowed(seen, level)
    return level, seen
