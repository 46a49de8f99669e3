"""What a state learns of how often the pages of its sites are updated together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final

import numpy as np
from msgspec import Meta, Struct, to_builtins

from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.model import USUAL_SIBLING_CORRELATION, fit_sibling_correlation
from hacs_crawler.state.estimation import baselines_of, histories
from hacs_crawler.state.page import Page, Updates
from hacs_crawler.state.samples import sample_of_siblings
from hacs_crawler.state.store import Store, read_note

NOTE: Final = "siblings"
"""The note in the state that keeps it."""


class _Note(Struct):
    sibling_correlation: Annotated[float, Meta(ge=0, le=1)]


def read_sibling_correlation(store: Store) -> float:
    """Return the sibling correlation that the store keeps, the usual one if none; takes one round trip.

    Raises StateError where the note is damaged.
    """
    found = read_note(store, NOTE, _Note)
    return USUAL_SIBLING_CORRELATION if found is None else found.sibling_correlation


def refit_sibling_correlation(
    store: Store, load: Callable[[Sequence[int]], Mapping[int, Page]], updates: Updates = "page"
) -> None:
    """Fit the sibling correlation to a sample of the store's pages, and write it for the next run."""
    pages = list(load(sample_of_siblings(store).tolist()).values())
    pages.sort(key=lambda page: page_id_of(page.url))  # in whatever order the store has them
    sites = np.array([site_id(page.url) for page in pages], np.int64)
    found = fit_sibling_correlation(sites, *histories(pages, updates), baselines_of(pages))
    store.write_meta(NOTE, to_builtins(_Note(found)))
