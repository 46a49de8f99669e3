"""Outcome records as lines of JSON: what `hacs experiment export` writes and `hacs import` reads back.

The keys are described in docs/commands.md. If there is a `url`, `page` is not read.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta, Struct

from hacs_crawler.links import page_id_of
from hacs_crawler.state.database import PAGES_A_CALL, State
from hacs_crawler.state.jsonl import (
    NotNegative,
    Unsigned32,
    decoded,
    from_hex,
    read_lines_as,
    second_of,
    to_hex,
    to_json,
)
from hacs_crawler.state.outcome_log import (
    MOST_LINKS,
    OUTCOME,
    SEEN,
    UPDATED,
    Label,
    churn_of,
    flags_of,
    sorted_outcomes,
    visits_of,
)
from hacs_crawler.utils.times import iso_text

LAYOUT: Final = 1

# An outcome record's fields in order, without the number of its label; and the label.
Labelled = tuple[tuple[int | float, ...], Label]
_Text = Annotated[str, Meta(max_length=1_000)]
_Probability = Annotated[float, Meta(ge=0, le=1)]


class _OutcomeLine(Struct):
    hacs_outcome: Annotated[int, Meta(ge=LAYOUT, le=LAYOUT)]
    url: str | None
    page: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    site: Unsigned32
    at: datetime
    run: datetime
    seen: bool
    updated: bool
    new_links: Unsigned32
    new_to_site: Unsigned32
    bytes: Unsigned32
    p: _Probability
    churn: _Probability
    days_since_visit: NotNegative | None
    policy: _Text
    estimator: _Text
    fade_days: NotNegative | None
    elapsed_from: _Text
    siblings: bool
    updates: _Text


_LINES: Final = msgspec.json.Decoder(_OutcomeLine)
_LABEL: Final = tuple(field.name for field in fields(Label))


def outcome_lines(state: State) -> Iterator[bytes]:
    """Yield each outcome record as a line of JSON, by time; an empty line if its label is not known."""
    outcomes = state.outcomes()
    labels = state.labels_of(outcomes)
    for start in range(0, len(outcomes), PAGES_A_CALL):
        batch = outcomes[start : start + PAGES_A_CALL]
        pages = state.load(np.unique(batch["page_id"]).tolist())
        for outcome in batch:
            label, page = labels.get(int(outcome["label"])), pages.get(int(outcome["page_id"]))
            url = None if page is None else page.url
            yield b"" if label is None else to_line(outcome, label, url)


def to_line(outcome: np.void, label: Label, url: str | None) -> bytes:
    """Return an outcome record as a line of JSON."""
    fields_of_line = {
        "hacs_outcome": LAYOUT,
        "url": url,
        "page": to_hex([int(outcome["page_id"])])[0],
        "site": int(outcome["site"]),
        "at": iso_text(int(outcome["at"])),
        "run": iso_text(int(outcome["run"])),
        "seen": bool(outcome["flags"] & SEEN),
        "updated": bool(outcome["flags"] & UPDATED),
        "new_links": int(outcome["new_links"]),
        "new_to_site": int(outcome["new_to_site"]),
        "bytes": int(outcome["bytes"]),
        "p": _number(outcome["p"]),
        "churn": round(float(churn_of(outcome)), 4),
        "days_since_visit": _number(outcome["days_since_visit"]),
        **asdict(label),
    }
    if math.isinf(label.fade_days):
        fields_of_line["fade_days"] = None
    return to_json(fields_of_line).encode() + b"\n"


def from_line(line: bytes) -> Labelled:
    """Return the outcome record in a line; raises ValueError that names the fault."""
    line_read = decoded(_LINES, line)
    label = {name: getattr(line_read, name) for name in _LABEL}
    label["fade_days"] = _or_infinite(line_read.fade_days)
    page = from_hex([line_read.page])[0] if line_read.url is None else page_id_of(line_read.url)
    values = (
        page,
        second_of("at", line_read.at),
        second_of("run", line_read.run),
        line_read.site,
        line_read.p,
        _or_infinite(line_read.days_since_visit),
        min(line_read.new_links, MOST_LINKS),
        min(line_read.new_to_site, MOST_LINKS),
        line_read.bytes,
        flags_of(is_seen=line_read.seen, is_update=line_read.updated, churn=line_read.churn),
    )
    return values, Label(**label)


def read_outcomes(lines: Iterable[bytes], name: str) -> Iterator[Labelled]:
    """Yield the outcome records of a file, see `read_lines_as`."""
    return read_lines_as(from_line, lines, name)


def merge_outcomes(
    state: State, batches: Iterable[Sequence[Labelled]]
) -> Iterator[tuple[int, int]]:
    """Add outcome records of visits without a record in the state.

    Yields for each batch the number of its records, and how many of them were new.
    """
    visits, labels = visits_of(state.outcomes()), set[Label]()
    for batch in batches:
        for label in {label for _, label in batch} - labels:
            state.keep_label(label)
            labels.add(label)
        rows = [(*values[:4], label.number, *values[4:]) for values, label in batch]
        outcomes = sorted_outcomes([np.array(rows, OUTCOME)])
        fresh = outcomes[~np.isin(visits_of(outcomes), visits)]
        if len(fresh):
            state.store.add_outcomes(fresh)
            visits = np.concatenate([visits, visits_of(fresh)])
        yield len(batch), len(fresh)


def _number(value: np.floating) -> float | None:
    """Return a number with enough digits for a 32-bit float, None for infinity."""
    return float(f"{value:.9g}") if np.isfinite(value) else None


def _or_infinite(number: float | None) -> float:
    return math.inf if number is None else number
