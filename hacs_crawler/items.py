"""The items that the spiders yield."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass
class PageVisit:
    """A page that was visited. Rates are in 1/day, times in UTC.

    `p` is the probability of an update as predicted before the visit; `new_links` counts the links
    that no earlier visit had shown (0 on a first visit), `new_to_site` those that no other page of the
    site was known to show either, None unless HACS_UPDATES is "site".
    """

    url: str
    visited_at: datetime
    is_first: bool
    is_update: bool
    new_links: int
    new_to_site: int | None
    rate_per_day: float
    last_update: datetime | None
    p: float
    type: str = "page"


@dataclass
class NewPublication:
    """What reads as a publication and is new on a page; `url` is the page's if no link leads to it."""

    title: str
    page: str
    found_at: datetime
    url: str
    type: str = "publication"


@dataclass
class SeedHistory:
    """What an archive has of a seed. Times are in UTC, None without a capture.

    `archive` is its name in HACS_ARCHIVES, or its host. `status` is "history", "unread" (it has
    captures, of which not one could be recorded), "none", "blocked" (the archive will not show
    it), or "unanswered" (the next run goes on with it). The numbers count this run only: `pages`
    with captures, `captures`, `visits` recorded, `mementos` fetched, `mementos_saved`, and
    `missed`, captures that the archive failed to show.
    """

    url: str
    archive: str
    status: str
    pages: int
    captures: int
    visits: int
    mementos: int
    mementos_saved: int
    missed: int
    first_capture: datetime | None
    last_capture: datetime | None
    type: str = "history"
