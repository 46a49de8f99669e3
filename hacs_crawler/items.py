"""The items that the scholar spider yields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass
class PageVisit:
    """A page that was visited. Rates are in 1/day, times in UTC.

    `p` is the probability of an update as predicted before the visit; `new_links` counts the links
    that no earlier visit had shown (none on a first visit).
    """

    url: str
    visited_at: datetime
    is_first: bool
    is_update: bool
    new_links: int
    rate_per_day: float
    last_update: datetime | None
    p: float
    type: str = "page"


@dataclass
class NewPublication:
    """A link to what looks like a publication that a page had not shown before."""

    url: str
    text: str
    page: str
    found_at: datetime
    type: str = "publication"
