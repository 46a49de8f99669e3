"""Outcome records as lines of JSON: what `hacs experiment export` writes and `hacs import` reads back.

The keys are described in docs/experiments.md. Where there is a `url`, `page` is not read: versions may
differ in which id a page has.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Final

import numpy as np

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id_of
from hacs_crawler.state.database import PAGES_A_CALL, State
from hacs_crawler.state.jsonl import (
    Fields,
    from_hex,
    iso,
    parsed,
    read_objects,
    to_hex,
    to_json,
)
from hacs_crawler.state.outcome_log import (
    OUTCOME,
    SEEN,
    UPDATED,
    Label,
    Outcomes,
    churn_of,
    flags_of,
    sorted_outcomes,
)
from hacs_crawler.utils.files import Writable
from hacs_crawler.utils.progress import Progress

LAYOUT: Final = 1
_BEGINNING: Final = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{(?:.*[{,])?\s*"hacs_outcome"\s*:')
_MOST: Final = 2**32 - 1
_MOST_LINKS: Final = 2**16 - 1

Labelled = tuple[tuple[int | float, ...], Label]
"""The fields of an outcome record but its label's number, in their order, and the label."""


def is_outcomes(beginning: bytes) -> bool:
    """Whether a file that begins like this is one of outcome records."""
    return _BEGINNING.match(beginning.partition(b"\n")[0]) is not None


def export_outcomes(state: State, file: Writable, progress: Progress) -> int:
    """Write every outcome record as a line of JSON, by time; return their number.

    Raises StateError at the end if there are records whose label is not known: they are left out.
    """
    outcomes = state.outcomes()
    labels = state.labels_of(outcomes)
    number = 0
    for start in range(0, len(outcomes), PAGES_A_CALL):
        batch = outcomes[start : start + PAGES_A_CALL]
        pages = state.load(np.unique(batch["page_id"]).tolist())
        urls = {page_id: page.url for page_id, page in pages.items()}
        for outcome in batch:
            label = labels.get(int(outcome["label"]))
            if label is not None:
                file.write(to_line(outcome, label, urls.get(int(outcome["page_id"]))))
                number += 1
        progress.update(f"{number} outcome records", start + len(batch), len(outcomes))
    if number < len(outcomes):
        left_out = len(outcomes) - number
        raise StateError(f"{number} outcome records exported, {left_out} without a label left out")
    return number


def to_line(outcome: np.void, label: Label, url: str | None) -> bytes:
    """Return an outcome record as a line of JSON."""
    new_to_site = int(outcome["new_to_site"]) - 1
    fields = {
        "hacs_outcome": LAYOUT,
        "url": url,
        "page": to_hex([int(outcome["page_id"])])[0],
        "site": int(outcome["site"]),
        "at": iso(int(outcome["at"])),
        "run": iso(int(outcome["run"])),
        "seen": bool(outcome["flags"] & SEEN),
        "updated": bool(outcome["flags"] & UPDATED),
        "new_links": int(outcome["new_links"]),
        "new_to_site": new_to_site if new_to_site >= 0 else None,
        "bytes": int(outcome["bytes"]),
        "p": _number(outcome["p"]),
        "raw_p": _number(outcome["raw_p"]),
        "churn": round(float(churn_of(outcome)), 4),
        "days_since_visit": _number(outcome["days_since_visit"]),
        **asdict(label),
    }
    if math.isinf(label.fade_days):
        fields["fade_days"] = None
    return to_json(fields).encode() + b"\n"


def from_line(line: bytes) -> Labelled:
    """Return the outcome record of a line; raises ValueError that says what is wrong with it."""
    fields = Fields(parsed(line))
    layout = fields.count("hacs_outcome", sys.maxsize)
    if layout != LAYOUT:
        msg = f"'hacs_outcome' is layout {layout}, this version of hacs-crawler knows {LAYOUT}"
        raise ValueError(msg)
    label = Label(
        experiment=fields.count("experiment", _MOST),
        arm=fields.text("arm"),
        policy=fields.text("policy"),
        estimator=fields.text("estimator"),
        fade_days=fields.rate_or_infinite("fade_days"),
        elapsed_from=fields.text("elapsed_from"),
        siblings=fields.switch("siblings"),
        is_predictive=fields.has("is_predictive") and fields.switch("is_predictive"),
        updates=fields.text("updates") if fields.has("updates") else "page",
    )
    (page,) = from_hex([fields.text("page")])
    if (url := fields.text_or_null("url")) is not None:
        page = page_id_of(url)
    is_counted = fields.has("new_to_site") and not fields.is_null("new_to_site")
    values = (
        page,
        fields.second("at"),
        fields.second("run"),
        fields.count("site", _MOST),
        _probability(fields, "p"),
        _probability(fields, "raw_p"),
        fields.rate_or_infinite("days_since_visit"),
        min(fields.count("new_links", _MOST), _MOST_LINKS),
        min(1 + fields.count("new_to_site", _MOST), _MOST_LINKS) if is_counted else 0,
        fields.count("bytes", _MOST),
        flags_of(
            is_seen=fields.switch("seen"),
            is_update=fields.switch("updated"),
            churn=_probability(fields, "churn") if fields.has("churn") else 0.0,
        ),
    )
    return values, label


def read_outcomes(lines: Iterable[bytes], name: str) -> Iterator[Labelled]:
    """Yield the outcome records of a file, reading as they are asked for; raises as `read_export`."""
    return read_objects(lines, name, from_line)


class OutcomeMerger:
    """Adds outcome records to a state, but for those of visits of which it has one."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._visits = _visits(state.outcomes())
        self._labels: set[Label] = set()

    def add(self, batch: Sequence[Labelled]) -> int:
        """Keep the records that are new, and return their number."""
        for label in {label for _, label in batch} - self._labels:
            self._state.keep_label(label)
            self._labels.add(label)
        rows = [(*values[:4], label.number, *values[4:]) for values, label in batch]
        outcomes = sorted_outcomes([np.array(rows, OUTCOME)])
        fresh = outcomes[~np.isin(_visits(outcomes), self._visits)]
        if len(fresh):
            self._state.store.add_outcomes(fresh)
            self._visits = np.concatenate([self._visits, _visits(fresh)])
        return len(fresh)


def _visits(outcomes: Outcomes) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return page and time of each record as one value that can be compared."""
    pairs = np.empty(len(outcomes), [("page", ">u8"), ("at", ">u8")])
    pairs["page"], pairs["at"] = outcomes["page_id"].view(np.uint64), outcomes["at"]
    return pairs.view("V16")


def _number(value: np.floating) -> float | None:
    """Return a number with the digits that tell 32-bit floats apart, None for an infinite one."""
    return float(f"{value:.9g}") if np.isfinite(value) else None


def _probability(fields: Fields, key: str) -> float:
    value = fields.rate(key)
    if value > 1.0:
        raise ValueError(f"{key!r} is no probability: {value:g}")
    return value
