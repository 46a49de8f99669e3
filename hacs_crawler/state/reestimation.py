"""Estimating all pages again when the priors change: in batches, and in slices after a crawl.

A run that was stopped, or whose slice is over, continues next time.
"""

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

# The key of the note with the progress of a run.
NOTE: Final = "estimate"
# The key of the note with the estimation that all pages were last estimated with.
FOLLOWED: Final = "estimated"
# Priors are fitted again after this many visits since the last fit, as a share of all pages.
REFIT_SHARE: Final = 0.02
# After a crawl, this many pages plus the number that it visited are estimated again.
SLICE_PAGES: Final = 5_000
# A slice also ends after reading this many rows for each of its pages: most may need no estimate.
ROWS_A_PAGE: Final = 20

_SHARE: Final = "churning_pages"
_PageId = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Run:
    """The progress of a run, and its estimation (`how`; see `Estimation.note`).

    Done are the store's batches up to the one that ends with the page `after`, and the pages of the next
    batch with ids up to `done`. The numbers are of pages. `only_churning`: only pages that may churn are
    estimated, as only the share of churning pages changed.
    """

    how: dict[str, Any]
    after: _PageId | None = None
    done: _PageId | None = None
    pages: int = 0
    changed: int = 0
    damaged: int = 0
    only_churning: bool = False


def stopped_run(state: State) -> Run | None:
    """Return a stopped run with the same estimation as the state; StateError if its note is damaged."""
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
    """Fit the prior, use it from now on, and return a new run."""
    state.refit_prior()
    return Run(state.estimation.note())


def advanced(
    state: State,
    run: Run,
    on_progress: Callable[[Run], None],
    is_asked_to_stop: Callable[[], bool] = lambda: False,
    most: int | None = None,
) -> tuple[Run, bool]:
    """Estimate until all pages are done or a stop is requested; return the run, and whether it is done.

    At most `most` pages are estimated (None: all). `on_progress` gets the run after each batch.
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
    """Yield the remaining pages of the store's batches, each batch sorted, small batches joined.

    Yields the pages; the last page of each batch, by the number of pages up to its end; and the number
    of rows read. Batches are joined because each call takes a round trip, and a server may be far away.
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
    """Fit the prior, and estimate the pages again if it changed.

    After a crawl, which `visited` that number of pages, the prior is fitted only if there were enough
    visits since the last fit and no earlier run is unfinished, and only a slice of the pages is
    estimated, which is smaller after a fit; rows by older fits are used until then. In a round of
    several `shards` the prior stays as the plan fitted it, and the slice is divided among them. Returns
    the run so far, None if there was nothing to do; a stopped run continues next time. Raises
    StateError.
    """
    with state.store.hold_notes():
        run, fitted = _begun_run(state, shards == 1, visited)
    if run is None:
        return None
    # a fit takes about as long as estimating the pages that it reads
    slice_pages = max(SLICE_PAGES - fitted, PAGES_A_CALL)
    most = None if visited is None else visited + slice_pages // shards
    run, _ = advanced(state, run, on_progress, is_asked_to_stop, most)
    return run


def _begun_run(state: State, refits: bool, visited: int | None) -> tuple[Run | None, int]:
    """Return the stopped run, a new run if the estimation changed, or None; and the pages of a fit."""
    opened_with = state.estimation
    state.read_prior()
    run = stopped_run(state)
    if run is not None:
        return run, 0
    fitted = state.refit_prior() if refits and _is_fit_due(state, visited) else 0
    before, now = state.store.read_meta(FOLLOWED), state.estimation.note()
    # if only the second differs, others fitted the prior while this crawl wrote pages by an older one
    if before == now and state.estimation == opened_with:
        return None, fitted
    is_churn = before != now and isinstance(before, dict) and {**before, _SHARE: now[_SHARE]} == now
    return Run(now, only_churning=is_churn), fitted


def _is_fit_due(state: State, visited: int | None) -> bool:
    """Whether a fit of the priors is due; if not, adds the visits to the note `UNFITTED`."""
    since = (read_note(state.store, UNFITTED, int) or 0) + (visited or 0)
    is_due = (
        visited is None
        or state.store.read_meta(FOLLOWED) is None
        or since >= REFIT_SHARE * state.store.count()
    )
    if not is_due:
        state.store.write_meta({UNFITTED: since})
    return is_due
