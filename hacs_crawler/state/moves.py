"""Where pages of older states belong: up to schema 3 they were known by their SURT, which tells no case.

A page belongs under the id of its URL. Where that makes one of several, they are merged, as if all
their visits had been recorded on one page. What was one page and is several now stays with the one whose
URL it holds. All of this may be done a second time, and be broken off at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id_of
from hacs_crawler.state.codec import decode_page
from hacs_crawler.state.outcome_log import OUTCOME
from hacs_crawler.state.page import Page, merge_pages

LEFT = "the page with id %d in %s belongs to another that is damaged: it stays where it is"
MOVED = (
    "%d pages in %s are known by another key now, see docs/model.md; those that are one are merged"
)
"""What stores log."""
_ID_BYTES: Final = OUTCOME["page_id"].itemsize


def id_of(page_id: int, body: bytes) -> int:
    """Return the id under which the page of these bytes belongs; its own where they are damaged."""
    try:
        return page_id_of(decode_page(body).url)
    except (StateError, ValueError):
        return page_id


def joined(bodies: Iterable[bytes]) -> Page:
    """Return what several pages that are one tell together; raises StateError for damaged ones."""
    return reduce(merge_pages, map(decode_page, bodies))


def with_page(outcome: bytes, page_id: int) -> bytes:
    """Return the bytes of an outcome record as one of another page."""
    return page_id.to_bytes(_ID_BYTES, "little", signed=True) + outcome[_ID_BYTES:]
