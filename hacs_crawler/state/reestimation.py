"""Estimates of all pages follow the priors: in batches, and in slices after a crawl.

A run that is stopped, or whose slice is over, continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta

from hacs_crawler.state.database import PAGES_A_CALL, State
from hacs_crawler.state.priors import UNFITTED
from hacs_crawler.state.store import Ids, Store, read_note
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# Under which key the state remembers how far a run has come.
NOTE: Final = "estimate"
# Under which key the state remembers what all its pages were last estimated with.
FOLLOWED: Final = "estimated"
# Visits since the last fit, as a share of all pages, after which priors are fitted again.
REFIT_SHARE: Final = 0.02
# How many pages, in addition to the number that it visited, are estimated again after a crawl.
SLICE_PAGES: Final = 5_000
# A slice ends after this many rows for each of these pages, if most of them need no estimate.
ROWS_A_PAGE: Final = 20

_SHARE: Final = "churning_pages"
_PageId = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Run:
    """The progress of a run, and its estimation (`how`; see `Estimation.note`).

    The store's batches up to the batch that ends with the page `after` are done, of the next one the
    pages whose ids are not above `done`. The numbers are of pages. `only_churning`: only pages that may
    churn are estimated, as nothing but the share of churning pages changed.
    """

    how: dict[str, Any]
    after: _PageId | None = None
    done: _PageId | None = None
    pages: int = 0
    changed: int = 0
    damaged: int = 0
    only_churning: bool = False


def stopped_run(state: State) -> Run | None:
    """Return a stopped run with the same estimation as the state, to continue it.

    Raises StateError if the note of it is damaged.
    """
    run = read_note(state.store, NOTE, Run)
    if run is None:
        return None
    if run.how != state.estimation.note():
        logger.info(
            "beginning again: the run that was stopped after %d pages had another estimator, fading, "
            "prior or HACS_UPDATES",
            run.pages,
        )
        return None
    logger.info("going on after the %d pages of the run that was stopped", run.pages)
    return run


def new_run(state: State) -> Run:
    """Fit the prior, use it from now on, and return a run that begins."""
    state.refit_prior()
    return Run(state.estimation.note())


def advanced(
    state: State,
    run: Run,
    on_progress: Callable[[Run], None],
    is_asked_to_stop: Callable[[], bool] = lambda: False,
    most: int | None = None,
) -> tuple[Run, bool]:
    """Estimate until all pages are done or a stop is requested; return the progress, and whether all.

    At most `most` pages are estimated in one call, None: all. `on_progress` gets the run as far as it
    has come.
    """
    store, begun, rows_read = state.store, run, 0
    for left, ends, number in _batches(store, run):
        rows_read += number
        for start in range(0, len(left), PAGES_A_CALL):
            if run is not begun:
                store.write_meta({NOTE: asdict(run)})
            if is_asked_to_stop():
                return run, False
            some = left[start : start + PAGES_A_CALL].tolist()
            if most is not None:
                some = some[: begun.pages + most - run.pages]
            changed, damaged = state.reestimate(some)
            end = start + len(some)
            run = replace(
                run,
                after=next((ends[place] for place in reversed(ends) if place <= end), run.after),
                done=None if end in ends else some[-1],
                pages=run.pages + len(some),
                changed=run.changed + changed,
                damaged=run.damaged + damaged,
            )
            on_progress(run)
            if run.pages - begun.pages == most:
                store.write_meta({NOTE: asdict(run)})
                return run, False
        run = replace(run, after=ends[len(left)], done=None)
        if most is not None and rows_read >= ROWS_A_PAGE * most:
            store.write_meta({NOTE: asdict(run)})
            return run, False
    store.write_meta({NOTE: None, FOLLOWED: state.estimation.note()})
    return run, True


def _batches(store: Store, run: Run) -> Iterator[tuple[Ids, dict[int, int], int]]:
    """Yield the pages left of the store's batches, each batch sorted, small ones together.

    With them comes the last page of each batch, from which the next one continues, by how many of the
    pages yielded are those up to its end, ascending; and how many rows were read. A server may be far
    away: each call takes a round trip.
    """
    held: list[Ids] = []
    ends: dict[int, int] = {}
    pages, done, number = 0, run.done, 0
    for ids, rows in store.all_rows(run.after):
        left = np.sort(ids[rows["churning"] > 0] if run.only_churning else ids)
        if held and pages + len(left) > PAGES_A_CALL:
            yield np.concatenate(held), ends, number
            held, ends, pages, number = [], {}, 0, 0
        held.append(left if done is None else left[left > done])
        pages += len(held[-1])
        ends[pages] = int(ids[-1])
        done, number = None, number + len(ids)
    if held:
        yield np.concatenate(held), ends, number


def follow_prior(
    state: State,
    on_progress: Callable[[Run], None],
    is_asked_to_stop: Callable[[], bool] = lambda: False,
    *,
    visited: int | None = None,
    shards: int = 1,
) -> Run | None:
    """Fit the prior, and estimate again the pages whose estimates it changes.

    A difference within `State.refit_prior`'s tolerance counts as none. After a crawl that `visited`
    that many pages, only a slice of the pages is estimated again, and the prior is fitted only if enough
    visits were made since the last fit and no earlier run is under way: meanwhile rows of an older
    fit are used. In a round of several `shards` the prior stays as the plan fitted it, and the slice is
    divided among them. Returns the run as far as it came, None if there was nothing to do; one that was
    stopped continues next time. Raises StateError.
    """
    with state.store.hold_notes():
        run = _begun_run(state, shards == 1, visited)
    if run is None:
        return None
    most = None if visited is None else visited + SLICE_PAGES // shards
    run, _ = advanced(state, run, on_progress, is_asked_to_stop, most)
    return run


def _begun_run(state: State, refits: bool, visited: int | None) -> Run | None:
    """Return the stopped run, or a new run of the pages whose estimates change, if any."""
    opened_with = state.estimation
    state.read_prior()
    run = stopped_run(state)
    if run is not None:
        return run
    if refits and _is_fit_due(state, visited):
        state.refit_prior()
    before, now = state.store.read_meta(FOLLOWED), state.estimation.note()
    # else others followed another prior, while this crawl wrote pages by its older one
    if before == now and state.estimation == opened_with:
        return None
    is_churn = before != now and isinstance(before, dict) and {**before, _SHARE: now[_SHARE]} == now
    return Run(now, only_churning=is_churn)


def _is_fit_due(state: State, visited: int | None) -> bool:
    """Whether a fit of the priors is due; counts the visits if it is not."""
    since = (read_note(state.store, UNFITTED, int) or 0) + (visited or 0)
    is_due = (
        visited is None
        or state.store.read_meta(FOLLOWED) is None
        or since >= REFIT_SHARE * state.store.count()
    )
    if not is_due:
        state.store.write_meta({UNFITTED: since})
    return is_due
