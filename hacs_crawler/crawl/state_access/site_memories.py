"""Which links the pages of a site have shown, as of when it was read: for the outcome of a response.

The state says for good what was new to a site once a visit is written. Other workers' claims since a
site was read are not seen here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.state import LinkClaim, claimed_of

MOST_SITES: Final = 256
"""Of how many sites it is kept: 24 KB each at the most. What was read first is read anew."""


class SiteMemories:
    """The memories of some sites, with the claims of this crawl."""

    def __init__(self) -> None:
        self._memories: dict[int, bytes] = {}

    def unread(self, sites: Iterable[int]) -> list[int]:
        """Return the sites that are still to be read."""
        return [site for site in dict.fromkeys(sites) if site not in self._memories]

    def keep(self, sites: Sequence[int], read: Mapping[int, bytes]) -> None:
        """Keep what was read of sites, of some nothing."""
        for site in sites:
            self._memories[site] = read.get(site, b"")
        for site in list(self._memories)[:-MOST_SITES]:
            del self._memories[site]

    def claim(self, claims: Sequence[LinkClaim]) -> list[NDArray[np.bool_]]:
        """Claim links as `Store.claim` does; of a site that was not read everything is new."""
        after, owned = claimed_of(self._memories, claims)
        self._memories.update(
            {site: links for site, links in after.items() if site in self._memories}
        )
        return owned
