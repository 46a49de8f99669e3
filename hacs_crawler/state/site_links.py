"""The links that the pages of a site have shown, and the page that showed each first.

A link that comes up on several pages of a site together, in a menu, a footer or a box of news, is one
event: the page that is seen with it first has an update that is new to the site, the others have an
echo of it. A store keeps for each site the latest `MOST_LINKS` links that were claimed, in six bytes
each: 32 bits of the link's fingerprint and 16 of the page's id. The errors that follow:

- a link new to a site that remembers n is taken for a known one with probability n / 2^32, one in a
  million at the most;
- another page is taken for the page that claimed a link with probability 2^-16;
- links older than the latest `MOST_LINKS` are forgotten, and new again if a page shows one for the
  first time.

A claim may be made twice: a page keeps its claims. So visits that are recorded again after an
error get the same answer, and if two workers find a link at the same time one of them has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

# The kind of annotations that holds the memories, by site.
KIND: Final = "site_links"
# A link that a site's memory holds, and the page that claimed it.
ENTRY: Final = np.dtype([("link", "<u4"), ("page", "<u2")])
# How many links are kept of a site.
MOST_LINKS: Final = 4096
MOST_BYTES: Final = MOST_LINKS * ENTRY.itemsize
_LINK_MASK: Final = 2**32 - 1
_PAGE_MASK: Final = 2**16 - 1


@dataclass(frozen=True, slots=True)
class LinkClaim:
    """Links that a page shows, as its site's memory is asked for them.

    `site` is `menu_id` of the page's URL, `links` are in ascending order, each once.
    """

    site: int
    page: int
    links: NDArray[np.uint32]

    @classmethod
    def of(cls, site: int, page_id: int, links: Iterable[int]) -> LinkClaim:
        """Return the claim of a page on links, given by their fingerprints."""
        short = sorted({link & _LINK_MASK for link in links})
        return cls(site, page_id & _PAGE_MASK, np.array(short, np.uint32))


def claimed(memory: bytes, claims: Sequence[LinkClaim]) -> tuple[bytes, list[NDArray[np.bool_]]]:
    """Return a site's memory after some claims, and for each claim which links are its page's.

    A truncated memory is replaced by an empty one.
    """
    if len(memory) % ENTRY.itemsize:
        memory = b""
    owned = []
    for claim in claims:
        entries = np.zeros(len(claim.links), ENTRY)
        entries["link"], entries["page"] = claim.links, claim.page
        is_new, is_owned = np.ones((2, len(claim.links)), np.bool_)
        if memory and len(claim.links):
            entries_before = np.frombuffer(memory, ENTRY)
            links = np.ascontiguousarray(entries_before["link"])
            index = np.minimum(np.searchsorted(claim.links, links), len(claim.links) - 1)
            at = np.flatnonzero(claim.links[index] == links)
            is_new[index[at]] = False
            is_owned[index[at]] = entries_before["page"][at] == claim.page
        memory = (memory + entries[is_new].tobytes())[-MOST_BYTES:]
        owned.append(is_owned)
    return memory, owned


def claim_links(
    claims: Sequence[LinkClaim],
    change: Callable[[Iterable[int], Callable[[int, bytes], bytes]], object],
) -> list[NDArray[np.bool_]]:
    """Claim links for pages, one claim after the other; return for each which links are its page's.

    `change` replaces the memory of each site by a function's result, given the present memory, as
    `store.change_annotations` does.
    """
    by_site: dict[int, list[int]] = {}
    for number, claim in enumerate(claims):
        by_site.setdefault(claim.site, []).append(number)
    owned: dict[int, NDArray[np.bool_]] = {}

    def memory_after(site: int, memory: bytes) -> bytes:
        after, of_claims = claimed(memory, [claims[number] for number in by_site[site]])
        owned.update(zip(by_site[site], of_claims, strict=True))
        return after

    change(by_site, memory_after)
    return [owned[number] for number in range(len(claims))]


def elsewhere(memory: bytes, page_id: int) -> Callable[[int], bool]:
    """Return what says of a mark whether a site's memory has it of another page."""
    entries = np.frombuffer(memory[: len(memory) // ENTRY.itemsize * ENTRY.itemsize], ENTRY)
    others = set(entries["link"][entries["page"] != page_id & _PAGE_MASK].tolist())
    return lambda mark: mark & _LINK_MASK in others


def owned_links(
    links: Iterable[int], claim: LinkClaim, is_owned: NDArray[np.bool_]
) -> frozenset[int]:
    """Return which of the links a claim, which has them all, has made the page's own."""
    own = set(claim.links[is_owned].tolist())
    return frozenset(link for link in links if link & _LINK_MASK in own)
