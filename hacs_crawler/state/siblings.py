"""What a state learns of how often the pages of a site are updated together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.model import USUAL_TOGETHERNESS, fit_togetherness
from hacs_crawler.state.estimation import baselines_of, histories
from hacs_crawler.state.page import Page
from hacs_crawler.state.samples import sample_of_siblings
from hacs_crawler.state.store import Store

NOTE: Final = "siblings"
"""The note in the state that keeps it; earlier versions pass it over."""


def read_togetherness(store: Store) -> float:
    """Return the togetherness that the store keeps, the usual one if none.

    Raises StateError where the note is damaged.
    """
    note = store.read_meta(NOTE)
    if note is None:
        return USUAL_TOGETHERNESS
    value = note.get("togetherness") if isinstance(note, dict) else None
    if not isinstance(value, float) or not 0.0 <= value <= 1.0:
        msg = f"the note {NOTE!r} in the state is damaged, remove it: {note!r}"
        raise StateError(msg)
    return value


def refit_togetherness(store: Store, load: Callable[[Sequence[int]], Mapping[int, Page]]) -> float:
    """Fit the togetherness to a sample of the store's own pages and keep it there for the next run."""
    pages = list(load(sample_of_siblings(store).tolist()).values())
    pages.sort(key=lambda page: page_id_of(page.url))  # in whatever order the store has them
    sites = np.array([site_id(page.url) for page in pages], np.int64)
    togetherness = fit_togetherness(sites, *histories(pages), baselines_of(pages))
    store.write_meta(NOTE, {"togetherness": togetherness})
    return togetherness
