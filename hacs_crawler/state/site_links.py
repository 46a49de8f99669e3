"""The links that the pages of a site have shown, and the page that showed each first.

If a link comes up on several pages of a site at about the same time, in a menu, a footer or a box of
news, that is one event: the first page seen with it has an update that is new to the site, the others
have an echo. The site's memory holds the latest `MOST_LINKS` links and the pages that claimed them, six
bytes each: 32 bits of the link's fingerprint and 16 of the page's id. Hence these errors:

- in a site that remembers n links, a new link is taken for a known one with probability n / 2^32, at
  most one in a million;
- another page is taken for the page that claimed a link with probability 2^-16;
- links older than the latest `MOST_LINKS` are forgotten, and count as new to the site if another page
  shows them.

Claims can be repeated, as a page keeps its claims: visits that are recorded again after an error get the
same answer. If two workers find a link at the same time, one of them gets it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

# The kind of annotations that holds the sites' memories.
KIND: Final = "site_links"
# A link that a site's memory holds, and the page that claimed it.
ENTRY: Final = np.dtype([("link", "<u4"), ("page", "<u2")])
# How many links a site's memory holds.
MOST_LINKS: Final = 4096
MOST_BYTES: Final = MOST_LINKS * ENTRY.itemsize
_LINK_MASK: Final = 2**32 - 1
_PAGE_MASK: Final = 2**16 - 1


@dataclass(frozen=True, slots=True)
class LinkClaim:
    """Links that a page shows, in the form of its site's memory.

    `site` is `menu_id` of the page's URL, `links` are in ascending order, each once.
    """

    site: int
    page: int
    links: NDArray[np.uint32]

    @classmethod
    def of(cls, site: int, page_id: int, links: Iterable[int]) -> Self:
        """Return the claim of a page on links, given by their fingerprints."""
        short = sorted({link & _LINK_MASK for link in links})
        return cls(site, page_id & _PAGE_MASK, np.array(short, np.uint32))


def claimed(memory: bytes, claims: Sequence[LinkClaim]) -> tuple[bytes, list[NDArray[np.bool_]]]:
    """Return a site's memory after the claims, and for each claim which links its page owns.

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
    """Make claims one after the other; return for each claim which links its page owns.

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
    """Return a test of whether a mark is claimed by another page in a site's memory."""
    entries = np.frombuffer(memory[: len(memory) // ENTRY.itemsize * ENTRY.itemsize], ENTRY)
    others = set(entries["link"][entries["page"] != page_id & _PAGE_MASK].tolist())
    return lambda mark: mark & _LINK_MASK in others


def owned_links(
    links: Iterable[int], claim: LinkClaim, is_owned: NDArray[np.bool_]
) -> frozenset[int]:
    """Return which of the links the claim's page owns; the claim must include all of them."""
    own = set(claim.links[is_owned].tolist())
    return frozenset(link for link in links if link & _LINK_MASK in own)
