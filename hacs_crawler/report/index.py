"""An index of every page of a state, by which a report's reader finds any of them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final
from zlib import compress

from hacs_crawler.report.pages import rounded, safe_url
from hacs_crawler.state import PAGES_A_CALL, Ids, Rows, State

INDEXED_PAGES: Final = 100_000
"""A report of a state with more pages has no index unless asked for one."""


def page_index(
    state: State, known: tuple[Ids, Rows], chance: Mapping[int, float], most: int
) -> dict[str, Any]:
    """Return the index: JSON, deflated, in base 64; None in its place if there are over `most` pages.

    It has a column for each fact, with one element a page, in the order of the URLs. Pages that cannot
    be read are left out.
    """
    ids, rows = known
    if len(ids) > most:
        return {"most": most, "deflated": None}
    places, urls = [], []
    for start in range(0, len(ids), PAGES_A_CALL):
        batch = ids[start : start + PAGES_A_CALL].tolist()
        pages = state.load(batch)
        for place, page_id in enumerate(batch, start):
            if page_id in pages:
                places.append(place)
                urls.append(safe_url(pages[page_id].url))
    order = sorted(range(len(urls)), key=urls.__getitem__)
    found = [places[number] for number in order]
    listed = rows[found]
    page_ids = ids[found].tolist()
    columns = {
        "id": [str(page_id) for page_id in page_ids],  # beyond what numbers in JavaScript hold
        "url": [urls[number] for number in order],
        "p": rounded([chance.get(page_id) for page_id in page_ids], 3),
        "rate": rounded(listed["rate"], 3),
        "visits": listed["visits"].tolist(),
        "updates": listed["updates"].tolist(),
        "failures": listed["failures"].tolist(),
        "last": listed["last_visit"].tolist(),
        "lastUpdate": (listed["last_update"] * (listed["updates"] > 0)).tolist(),
        "notBefore": listed["not_before"].tolist(),
    }
    text = json.dumps(columns, allow_nan=False, separators=(",", ":"))
    return {"most": most, "deflated": b64encode(compress(text.encode(), 9)).decode()}
