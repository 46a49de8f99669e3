"""The items that the spiders yield."""

from dataclasses import dataclass
from datetime import datetime


@dataclass
class PageVisit:
    """A visited page. Rates are per day, times in UTC.

    `p` is the predicted probability of an update; `new_links` counts links that no earlier visit
    had shown (0 on a first visit); `new_to_site`, how many of them no other page of the site had
    shown, None unless HACS_UPDATES is "site".
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
    """A text that looks like a publication, new on a page; `url` is its link, else the page's."""

    title: str
    page: str
    found_at: datetime
    url: str
    type: str = "publication"


@dataclass
class SeedHistory:
    """The history of a seed in an archive. Times are in UTC, None without a capture.

    `archive` is its name in HACS_ARCHIVES, or its host. `status` is "history", "unread" (no capture
    could be recorded), "none", "blocked" (the archive will not show it), or "unanswered" (the next run
    continues). The numbers are of this run: `pages` with captures, `captures`, `visits` recorded,
    `mementos` fetched, `mementos_saved`, and `missed`, captures that the archive failed to show.
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
