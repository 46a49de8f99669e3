"""Visits later than now, recorded when a clock was fast: set aside until their time comes.

They are not deleted, and merging ignores the clock, so that its result does not depend on the order.
Ranking uses the page without them; if the present clock is the wrong one, they count again as soon as it
is corrected. 404s and failures before the latest of these visits are lost, as the state keeps the latest
attempt only.
"""

from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hacs_crawler.state.database import PAGES_A_CALL
from hacs_crawler.state.merging import FIRST_WAIT_GONE, LONGEST_WAIT_GONE
from hacs_crawler.state.page import Page
from hacs_crawler.state.rows import ROW, encode_row
from hacs_crawler.state.store import Ids, Rows
from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import SKEW_SECONDS, minute_text

if TYPE_CHECKING:
    from hacs_crawler.state.database import State


class SetAside(NamedTuple):
    """The number of pages with visits later than now, and the second of the latest visit."""

    pages: int
    latest: int

    def __str__(self) -> str:
        return (
            f"{counted(self.pages, 'page has', 'pages have')} visits later than now, the latest at "
            f"{minute_text(self.latest)} UTC: a clock was wrong, then or now; such visits are set aside "
            "until their time (nothing is deleted)"
        )


def latest_of(page: Page) -> int:
    """Return the second of the latest attempt, of any kind."""
    return max(page.last_news, page.last_visit or 0)


def as_of(page: Page, now: float) -> Page:
    """Return a page without visits later than `now` (seconds since 1970 UTC) and `SKEW_SECONDS`.

    Without such visits, returns the page itself. The rate is not estimated again.
    """
    until = int(now) + SKEW_SECONDS
    if latest_of(page) <= until:
        return page
    past = copy(page)
    marks, rules = page.by_visit()
    past.set_visits(
        {at: shown for at, shown in marks.items() if at <= until},
        {at: rule for at, rule in rules.items() if at <= until},
    )
    past.digests = {at: mark for at, mark in page.digests.items() if at <= until}
    past.echoes = [at for at in page.echoes if at <= until]
    past.unread = [at for at in page.unread if at <= until]
    if page.last_news > until:
        past.gone = past.failures = past.not_before = 0
        past.last_news = past.last_visit or 0
    return past


def without_future(
    state: "State", page_ids: Ids, rows: Rows, now: float
) -> tuple[Rows, SetAside | None]:
    """Return ranking rows without visits later than `now`, and a warning about them.

    Without such visits, returns the rows themselves, and None. Reads the pages whose rows show or may
    hide one: last visited after now, or waiting for longer than after a first 404. If any page was
    visited after now, failures and first 404s may be later than now, too.
    """
    until = int(now) + SKEW_SECONDS
    waits = rows["not_before"]
    is_suspect = (rows["last_visit"] > until) | (waits > until + FIRST_WAIT_GONE)
    if (rows["last_visit"] > until).any() or (waits > until + LONGEST_WAIT_GONE).any():
        is_suspect |= (rows["failures"] > 0) | (waits > until)
    places = np.flatnonzero(is_suspect)
    number = latest = 0
    past = rows
    for start in range(0, len(places), PAGES_A_CALL):
        some = places[start : start + PAGES_A_CALL].tolist()
        known = state.load(page_ids[some].tolist())
        pages = {index: known.get(int(page_ids[index])) for index in some}
        of_future = {at: page for at, page in pages.items() if page and latest_of(page) > until}
        if not of_future:
            continue
        number, latest = number + len(of_future), max(latest, *map(latest_of, of_future.values()))
        if past is rows:
            past = rows.copy()
        earlier = [as_of(page, now) for page in of_future.values()]
        state.estimation.estimate(earlier)
        past[[*of_future]] = np.frombuffer(b"".join(map(encode_row, earlier)), ROW)
    return (rows, None) if past is rows else (past, SetAside(number, latest))
