"""What is damaged in a store: rows are made anew from their pages, outcome records are passed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from hacs_crawler.state.codec import ROW, UNKNOWN_ROW, row_of, unsound
from hacs_crawler.state.outcome_log import OUTCOME, Outcomes
from hacs_crawler.state.store import Ids, Rows, Store
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

PASSED_OVER: Final = "%d damaged outcome records in %s are skipped"


def whole_rows(store: Store, page_ids: Ids, stored: Sequence[Any], place: str) -> Rows:
    """Join ranking rows as they were read one by one; see `sound_rows`."""
    damaged = _misfits(stored)
    if damaged:
        rows = list(stored)
        for number in damaged:
            rows[number] = UNKNOWN_ROW.tobytes()
        stored = rows
    return sound_rows(store, page_ids, np.frombuffer(b"".join(stored), ROW), place, damaged)


def sound_rows(
    store: Store, page_ids: Ids, rows: Rows, place: str, damaged: Sequence[int] = ()
) -> Rows:
    """Return ranking rows; those that cannot be are made anew, and so are those at `damaged`."""
    places = [*damaged, *unsound(rows).tolist()]
    if not places:
        return rows
    wanted = page_ids[places].tolist()
    logger.error(
        "%d damaged ranking rows in %s are made anew from their pages, the first is of id %d",
        len(places),
        place,
        wanted[0],
    )
    bodies = store.load(wanted)
    made = (row_of(bodies.get(page_id, b""), store.updates) for page_id in wanted)
    rows = rows.copy()
    rows[places] = np.frombuffer(b"".join(made), ROW)
    return rows


def whole_outcomes(stored: Sequence[Any], place: str) -> Outcomes:
    """Join outcome records as they were read, one or more in a row, but for what is damaged: logged."""
    whole = [
        records
        for records in stored
        if isinstance(records, bytes) and len(records) % OUTCOME.itemsize == 0
    ]
    if len(whole) < len(stored):
        logger.error(PASSED_OVER, len(stored) - len(whole), place)
    return np.frombuffer(b"".join(whole), OUTCOME)


def _misfits(stored: Sequence[Any]) -> list[int]:
    """Return the places of what is no ranking row."""
    # Four times as fast as asking one by one, of millions.
    if {*map(type, stored)} <= {bytes} and {*map(len, stored)} <= {ROW.itemsize}:
        return []
    return [
        place
        for place, row in enumerate(stored)
        if not (isinstance(row, bytes) and len(row) == ROW.itemsize)
    ]
