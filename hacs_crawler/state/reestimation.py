"""The rates of all pages anew, in batches: a run that is stopped goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta

from hacs_crawler.state.database import PAGES_A_CALL, State
from hacs_crawler.state.store import Ids, Store, read_note
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

NOTE: Final = "estimate"
"""Under which key the state remembers how far a run has come."""
FOLLOWED: Final = "estimated"
"""Under which key the state remembers what all its pages were last estimated with."""

_PageId = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Run:
    """How far a run has come, and what it estimates with (`how`; see `Estimation.note`).

    The store's batches up to the one that ends with the page `after` are done, of the next one the pages
    whose ids are not above `done`. The numbers are of pages.
    """

    how: dict[str, Any]
    after: _PageId | None = None
    done: _PageId | None = None
    pages: int = 0
    changed: int = 0
    damaged: int = 0


def stopped_run(state: State) -> Run | None:
    """Return the run to go on with, if one was stopped that estimated as this one is to.

    Raises StateError where the note of it is damaged.
    """
    run = read_note(state.store, NOTE, Run)
    if run is None:
        return None
    if run.how != state.estimation.note():
        logger.info(
            "beginning anew: the run that was stopped after %d pages had another estimator, fading, "
            "prior or HACS_UPDATES",
            run.pages,
        )
        return None
    logger.info("going on after the %d pages of the run that was stopped", run.pages)
    return run


def new_run(state: State) -> Run:
    """Fit the prior, use it from now on, and return a run that begins."""
    state.refit_prior()
    state.read_prior()
    return Run(state.estimation.note())


def advanced(
    state: State,
    run: Run,
    on_progress: Callable[[Run], None],
    is_asked_to_stop: Callable[[], bool] = lambda: False,
) -> tuple[Run, bool]:
    """Estimate until all pages are done or it is asked to stop; return how far, and whether all.

    `on_progress` gets the run as far as it has come.
    """
    store, begun = state.store, run
    for left, last in _batches(store, run):
        for start in range(0, len(left), PAGES_A_CALL):
            if run is not begun:
                store.write_meta({NOTE: asdict(run)})
            if is_asked_to_stop():
                return run, False
            some = left[start : start + PAGES_A_CALL].tolist()
            found = state.reestimate(some)
            run = replace(
                run,
                done=some[-1],
                pages=run.pages + len(some),
                changed=run.changed + found.changed,
                damaged=run.damaged + found.damaged,
            )
            on_progress(run)
        run = replace(run, after=last, done=None)
    keep_followed(state)
    return run, True


def _batches(store: Store, run: Run) -> Iterator[tuple[Ids, int]]:
    """Yield what is left of the store's batches, sorted, small ones together, and the last page of each.

    A server may be far away: each call takes a round trip.
    """
    held: list[Ids] = []
    last, done = 0, run.done
    for ids, _ in store.all_rows(run.after):
        if held and sum(map(len, held)) + len(ids) > PAGES_A_CALL:
            yield np.sort(np.concatenate(held)), last
            held = []
        held.append(ids if done is None else ids[ids > done])
        last, done = int(ids[-1]), None
    if held:
        yield np.sort(np.concatenate(held)), last


def keep_followed(state: State) -> None:
    """Remember that all pages are estimated as the state's settings say."""
    state.store.write_meta({NOTE: None, FOLLOWED: state.estimation.note()})


def is_followed(state: State) -> bool:
    """Whether all pages were estimated with what this state estimates with, when that was last done."""
    return bool(state.store.read_meta(FOLLOWED) == state.estimation.note())


def follow_prior(
    state: State,
    on_progress: Callable[[Run], None],
    is_asked_to_stop: Callable[[], bool] = lambda: False,
    *,
    refits: bool = True,
) -> Run | None:
    """Fit the prior, and if it, the estimator or its fading changed, estimate every page again.

    With `refits` False the prior stays what the state keeps.

    What is the same to within `State.refit_prior`'s tolerance is no change. Returns the run as far as it
    came, None where there was nothing to do; one that was stopped is gone on with next time. Raises
    StateError.
    """
    before = state.estimation
    if refits:
        state.refit_prior()
        state.read_prior()
    if state.estimation == before and is_followed(state):
        return None
    run = stopped_run(state) or Run(state.estimation.note())
    run, _ = advanced(state, run, on_progress, is_asked_to_stop)
    return run
