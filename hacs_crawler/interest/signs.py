"""What speaks against taking views for people's interest, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from hacs_crawler.interest.views import Views, Window
from hacs_crawler.model import TEMPORAL, UNKNOWN, Classes
from hacs_crawler.utils.arrays import BoolArray, FloatArray

SHORT_DAYS: Final = 45
BURST: Final = 3.0
BURST_VIEWS: Final = 20
BURST_PAGES: Final = 0.25
"""More pages that are no news have such a day than people's do: 7 % of a wiki's pages by people's views,
56 % by robots' (benchmarks/README.md)."""
PAGES_TO_TELL: Final = 20


def signs_of_window(window: Window, classes: Classes) -> Iterator[str]:
    """Yield warnings about a window's length, and about robots among its viewers."""
    if window.days < SHORT_DAYS:
        yield (
            f"the window has {window.days} days: with fewer than {SHORT_DAYS} a page that is new and "
            "one that is news look alike"
        )
    others = window.daily[(classes != TEMPORAL) & (classes != UNKNOWN)]
    if len(others) >= PAGES_TO_TELL:
        share = float(has_burst(others).mean())
        if share > BURST_PAGES:
            yield (
                f"{100 * share:.0f} % of the pages that are no news have a day with {BURST:g} times the "
                "views of the days around it: so do robots visit, and people seldom; what is found of "
                "robots' views means little"
            )


def has_burst(views: FloatArray) -> BoolArray:
    """Whether a day of each page (n, days) has three times its neighbours and the median."""
    around = np.maximum(views[:, :-2], views[:, 2:])
    level = np.maximum(around, np.median(views, axis=1, keepdims=True))
    day = views[:, 1:-1]
    return np.asarray(((day > BURST * level) & (day >= BURST_VIEWS)).any(axis=1))


def sign_of_cut(views: Views) -> str | None:
    """Return a warning if the list of each day seems cut at a rank, such as the top 1000."""
    if not views.page.size:
        return None
    pages_a_day = np.bincount((views.bin - views.bin.min()) // views.bins_a_day)
    pages_a_day = pages_a_day[pages_a_day > 0]
    rank = int(pages_a_day.max())
    full = float((pages_a_day == rank).mean())
    if views.bins_a_day > 1 or len(pages_a_day) < 7 or rank < PAGES_TO_TELL or full < 0.8:
        return None
    if len(views.pages) < 1.2 * rank:
        return None
    return (
        f"on {100 * full:.0f} % of the days there are {rank} pages, of {len(views.pages)} in all: the "
        "list seems cut at that rank, and a page has no record on days on which it was viewed, but less"
    )
