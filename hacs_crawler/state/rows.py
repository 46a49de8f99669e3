"""Ranking rows: the numbers of a page that ranking needs, kept in addition to it, and their repair."""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from hacs_crawler.links import site_id
from hacs_crawler.state.codec import decode_pages
from hacs_crawler.state.page import Page
from hacs_crawler.state.store import Ids, Rows, Store
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

_MOST_SINGLE: Final = float(np.finfo(np.float32).max)
_MOST_HALF: Final = float(np.finfo(np.float16).max)

# A ranking row: rate in 1/day, w, a and b of its survival, churn and churning (see `model.Rates`),
# times in seconds since 1970 UTC, counts.
#
# Visits that did not show the page are left out (`Page.sound`); `failures` counts those since
# `last_visit`, too, which is 0 if the page was never seen; then it also counts 404s and 410s. If no
# update is known (`updates` is 0), `last_update` is the first visit or the last baseline: the page is
# known not to have changed since. `before_update` is the visit before the last visit that found an
# update, 0 without an update; `site` is `site_id` of the page's URL. `is_baseline` is 1 if the last
# visit is a baseline (`Page.baselines`).
ROW: Final = np.dtype(
    [
        ("rate", "<f4"),
        ("last_visit", "<u4"),
        ("last_update", "<u4"),
        ("not_before", "<u4"),
        ("visits", "<u2"),
        ("updates", "<u2"),
        ("failures", "u1"),
        ("before_update", "<u4"),
        ("site", "<u4"),
        ("share", "<f2"),
        ("fast", "<f4"),
        ("slow", "<f2"),
        ("churn", "<f2"),
        ("churning", "<f2"),
        ("is_baseline", "u1"),
    ]
)
UNKNOWN_ROW: Final = np.zeros(1, ROW)
_ROW: Final = struct.Struct("<fIIIHHBIIefeeeB")
# Its rate is NaN, so that `sound_rows` repairs it.
_DAMAGED_ROW: Final = b"\xff" * ROW.itemsize
_RANGES: Final = (
    ("rate", 0.0, _MOST_SINGLE),
    ("share", -1.0, 1.0),
    ("fast", 0.0, _MOST_SINGLE),
    ("slow", 0.0, _MOST_HALF),
    ("churn", 0.0, 1.0),
    ("churning", 0.0, 1.0),
)


def encode_row(page: Page) -> bytes:
    """Return the page's ranking row, one element of dtype `ROW`."""
    attempts, page = page.visits, page.sound
    visits, times, baselines = page.visits, page.update_times, page.baselines
    first, last = (visits[0], visits[-1]) if visits else (0, 0)
    since, before, number = first, 0, 0
    failures = (
        page.failures + page.gone * (not visits) + len(attempts) - bisect_right(attempts, last)
    )
    if times or baselines:  # only few pages have any
        starts = [bisect_left(visits, at) for at in baselines]
        since = visits[starts[-1]] if starts and starts[-1] < len(visits) else first
        places = [bisect_left(visits, at) for at in times]
        number = len({*places} - {0, len(visits), *starts})
        before = visits[places[-1] - 1] if places and 0 < places[-1] < len(visits) else 0
    return _ROW.pack(
        min(page.rate, _MOST_SINGLE),
        last,
        max(first, times[-1]) if times else since,
        page.not_before,
        min(len(visits), 65_535),
        min(number, 65_535),
        min(failures, 255),
        before,
        site_id(page.url),
        page.share,
        min(page.fast, _MOST_SINGLE),
        min(page.slow, _MOST_HALF),
        page.churn,
        page.churning,
        since == last > first,
    )


def whole_rows(store: Store, page_ids: Ids, stored: Sequence[Any], address: str) -> Rows:
    """Join stored ranking rows, and repair damaged ones; see `sound_rows`."""
    # for millions of rows, checking them together is four times as fast
    if not ({*map(type, stored)} <= {bytes} and {*map(len, stored)} <= {ROW.itemsize}):
        stored = [
            row if isinstance(row, bytes) and len(row) == ROW.itemsize else _DAMAGED_ROW
            for row in stored
        ]
    return sound_rows(store, page_ids, np.frombuffer(b"".join(stored), ROW), address)


def sound_rows(store: Store, page_ids: Ids, rows: Rows, address: str) -> Rows:
    """Return ranking rows; rows with impossible values are made again from their pages."""
    is_sound = np.ones(len(rows), np.bool_)
    for name, least, most in _RANGES:
        is_sound &= (rows[name] >= least) & (rows[name] <= most)
    if is_sound.all():
        return rows
    wanted = page_ids[~is_sound].tolist()
    logger.error(
        "%d damaged ranking rows in %s are made again from their pages, the first is of id %d",
        len(wanted),
        address,
        wanted[0],
    )
    pages = decode_pages(store.load(wanted))
    rows = rows.copy()
    rows[~is_sound] = np.concatenate(
        [
            np.frombuffer(encode_row(pages[page_id]), ROW) if page_id in pages else UNKNOWN_ROW
            for page_id in wanted
        ]
    )
    return rows
