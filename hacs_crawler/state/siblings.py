"""What a state learns of how often the pages of a site are updated together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final

import numpy as np
from msgspec import Meta, Struct

from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.model import SiblingCorrelation, fit_togetherness
from hacs_crawler.state.estimation import baselines_of, histories
from hacs_crawler.state.page import Page, Updates
from hacs_crawler.state.samples import sample_of_siblings
from hacs_crawler.state.store import Store, read_note

NOTE: Final = "siblings"
"""The note in the state that keeps it."""
MOST_SITES: Final = 10_000
"""Of how many sites it is kept at most: those that differ most from all others together."""
LEAST_DIFFERENCE: Final = 0.02
"""By how much a site differs from all others together, for its own to be kept."""


_Share = Annotated[float, Meta(ge=0, le=1)]
_Site = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class _Note(Struct):
    togetherness: _Share
    sites: dict[_Site, _Share] = {}
    next: _Site = 0


def read_togetherness(store: Store) -> SiblingCorrelation:
    """Return the togetherness that the store keeps, the usual one if none; takes one round trip.

    Raises StateError where the note is damaged.
    """
    return _read(store)[0]


def _read(store: Store) -> tuple[SiblingCorrelation, int]:
    """Return what the note says, and from which site on to look at more."""
    found = read_note(store, NOTE, _Note)
    if found is None:
        return SiblingCorrelation(), 0
    sites = sorted(found.sites)
    values = np.array([found.sites[site] for site in sites])
    return SiblingCorrelation(found.togetherness, np.array(sites, np.int64), values), found.next


def refit_togetherness(
    store: Store, load: Callable[[Sequence[int]], Mapping[int, Page]], updates: Updates = "page"
) -> None:
    """Fit the togetherness to a sample of the store's own pages and keep it there for the next run.

    Where that is not all sites, the next call goes on with those that follow, and what is known of the
    others stays.
    """
    known, first = _read(store)
    ids, following = sample_of_siblings(store, first)
    pages = list(load(ids.tolist()).values())
    pages.sort(key=lambda page: page_id_of(page.url))  # in whatever order the store has them
    sites = np.array([site_id(page.url) for page in pages], np.int64)
    found = fit_togetherness(sites, *histories(pages, updates), baselines_of(pages))
    own = dict(zip(known.sites.tolist(), known.values.tolist(), strict=True)) if following else {}
    for site in np.unique(sites).tolist():
        own.pop(site, None)
    own |= zip(found.sites.tolist(), found.values.tolist(), strict=True)
    kept = _that_differ_most(own, found.overall)
    store.write_meta(
        NOTE,
        {
            "togetherness": found.overall,
            "sites": {str(site): round(value, 3) for site, value in kept.items()},
            "next": following,
        },
    )


def _that_differ_most(own: Mapping[int, float], overall: float) -> dict[int, float]:
    far = {site: abs(value - overall) for site, value in own.items()}
    by_distance = sorted(far, key=lambda site: -far[site])[:MOST_SITES]
    return {site: own[site] for site in by_distance if far[site] >= LEAST_DIFFERENCE}
