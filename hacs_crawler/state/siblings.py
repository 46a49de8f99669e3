"""What a state learns of how often the pages of its sites are updated together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta, Struct, to_builtins

from hacs_crawler.links import site_id
from hacs_crawler.model import USUAL_SIBLING_CORRELATION
from hacs_crawler.state.estimation import baselines_of, histories
from hacs_crawler.state.page import Page
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


def refitted_sibling_correlation(pages: Sequence[Page]) -> dict[str, Any]:
    """Return the note of the sibling correlation that fits a sample of pages."""
    from hacs_crawler.model import fit_sibling_correlation  # noqa: PLC0415 - only of enough pages

    sites = np.array([site_id(page.url) for page in pages], np.int64)
    found = fit_sibling_correlation(sites, *histories(pages), baselines_of(pages))
    return {NOTE: to_builtins(_Note(found))}
