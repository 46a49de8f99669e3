"""The state, whatever keeps it: that it opens, can be written, and that its pages can be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.doctor.check import Check, failure, ok, size_text, warning
from hacs_crawler.exceptions import StateError
from hacs_crawler.model import CHURNING
from hacs_crawler.ranking.plan import read_rows
from hacs_crawler.state import SCHEMA, Estimation, Ids, Rows, State, Store, decode_page
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import DAY, SKEW_SECONDS

NOTE = "doctor"
SAMPLE = 1_000
"""How many pages are read to see whether any is damaged."""
EXAMPLES_SHOWN = 3
FEW_SITES = 30
"""An arm with fewer sites tells nothing: its interval is wider than any difference to be expected."""


def state_checks(store: Store, shown: str, config: Config) -> Iterator[Check]:
    """Look at an open store; `shown` is its address as it may be shown."""
    now = config.clock()
    try:
        yield ok(
            "state",
            f"{shown}, namespace {config.namespace}, schema {SCHEMA}: {store.count()} pages, "
            f"{size_text(store.size_bytes())}",
        )
        yield _note_check(store, now)
        State(store, Estimation())  # raises StateError where the prior is damaged
        with Progress("doctor") as progress:
            ids, rows = read_rows(State(store, Estimation()), progress)
        yield from _page_checks(store, ids)
        yield from _time_checks(rows, now)
        yield from _churn_checks(State(store, Estimation()), ids, rows)
        yield from _experiment_checks(config, rows)
    except StateError as error:
        yield failure("state", str(error), "see docs/reliability.md")


def _note_check(store: Store, now: float) -> Check:
    """Write a note and read it back: shows a full disk, a read-only file or replica."""
    store.write_meta(NOTE, {"at": now})
    if store.read_meta(NOTE) != {"at": now}:
        return failure(
            "state",
            "what was written is not what is read",
            "is this a replica, or does another doctor run at this moment?",
        )
    return ok("state", "is readable and writable")


def _page_checks(store: Store, ids: Ids) -> Iterator[Check]:
    sample = ids[:SAMPLE].tolist()  # ids are hashes: the first are as good as any
    damaged = 0
    for body in store.load(sample).values():
        try:
            decode_page(body)
        except StateError:
            damaged += 1
    if damaged:
        yield failure(
            "pages",
            f"{damaged} of {len(sample)} pages looked at are damaged",
            "`hacs export` names them and saves the others; restore a backup",
        )
    else:
        yield ok("pages", f"{len(sample)} of {len(ids)} pages looked at, none damaged")


def _time_checks(rows: Rows, now: float) -> Iterator[Check]:
    last = rows["last_visit"].astype(np.float64)
    in_future = last > now + SKEW_SECONDS
    if in_future.any():
        days = (last.max() - now) / DAY
        yield warning(
            "visits",
            f"{counted(int(in_future.sum()), 'page')} last visited in the future, up to {days:.1f} days",
            "set the clock, here or where they were recorded; until then such visits are set aside",
        )
    elif last.any():
        hours = (now - last.max()) / 3600
        yield ok("visits", f"the last one was {hours:.1f} hours ago, none is in the future")


def _churn_checks(state: State, ids: Ids, rows: Rows) -> Iterator[Check]:
    """Name pages whose links change with every request, and what they have cost."""
    is_churning = rows["churn"] >= CHURNING
    if not is_churning.any():
        return
    visits = rows["visits"].astype(np.int64)
    worst = ids[is_churning][np.argsort(-visits[is_churning], kind="stable")[:EXAMPLES_SHOWN]]
    urls = [page.url for page in state.load(worst.tolist()).values()]
    sites = len(np.unique(rows["site"][is_churning]))
    share = 100.0 * visits[is_churning].sum() / max(int(visits.sum()), 1)
    yield warning(
        "churn",
        f"{counted(int(is_churning.sum()), 'page')} of {counted(sites, 'site')}: new links at every "
        f"request, however soon; they have {share:.0f} % of the visits that are kept: {', '.join(urls)}",
        "they are ranked by what time brings; HACS_LINKS_DENY leaves their changing links out at once",
    )


def _experiment_checks(config: Config, rows: Rows) -> Iterator[Check]:
    experiment = config.ranking.experiment
    if not experiment.is_on:
        return
    sites = np.unique(rows["site"])
    counts = np.bincount(experiment.assign(sites), minlength=len(experiment.arms)).tolist()
    text = ", ".join(
        f"{arm.name} {100 * arm.share:g} % ({count} sites)"
        for arm, count in zip(experiment.arms, counts, strict=True)
    )
    if min(counts) < FEW_SITES:
        yield warning(
            "experiment",
            f"{text}: few sites",
            f"an arm should have {FEW_SITES} sites or more; more seeds, or fewer arms",
        )
    else:
        yield ok("experiment", text)
