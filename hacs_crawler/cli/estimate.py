"""`hacs estimate`: the rates of all pages anew, in a run that can be stopped and goes on later."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import Annotated, Any, Final

import numpy as np
import typer

from hacs_crawler.cli.common import Set, opened
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import PAGES_A_CALL, State
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

NOTE: Final = "estimate"
"""Under which key the state remembers how far a run has come."""


@dataclass(frozen=True, slots=True)
class Run:
    """How far a run has come, and what it estimates with (`how`; see `how_of`).

    The store's batches up to the one that ends with the page `after` are done, of the next one the pages
    whose ids are not above `done`. The numbers are of pages.
    """

    how: dict[str, Any]
    after: int | None = None
    done: int | None = None
    pages: int = 0
    changed: int = 0
    damaged: int = 0


def estimate(
    every: Annotated[bool, typer.Option("--all", help="estimate every page")] = False,
    settings: Set = None,
) -> None:
    """Fit the prior, and estimate every page's rate anew with it.

    Wanted after a change of HACS_ESTIMATOR or HACS_FADE_DAYS, which otherwise takes hold page by page,
    and to bring all pages within HACS_LINK_BYTES. Crawls may go on meanwhile. A run that was stopped
    (Ctrl-C) or killed goes on where it was when it is started again with the same settings.
    """
    if not every:
        raise typer.BadParameter("add --all: it is every page or none")
    with opened(settings) as (_, state), _signals() as asked:
        run = _stopped_run(state) or new_run(state)
        with Progress("estimate") as progress:
            run, is_whole = advanced(state, run, progress, asked)
        number = run.pages - run.damaged
        if not is_whole:
            logger.info("stopped after %d pages; the same command goes on from there", run.pages)
            raise typer.Exit(128 + asked())
        if run.damaged:
            msg = f"{number} pages estimated, {run.damaged} damaged ones left out"
            raise StateError(msg)
        logger.info("%d pages estimated, %d of them changed", number, run.changed)


def how_of(state: State) -> dict[str, Any]:
    """Return what pages are estimated with, as it is noted in the state."""
    return asdict(state.estimation) | {"link_bytes": state.link_bytes}


def _stopped_run(state: State) -> Run | None:
    """Return the run to go on with, if one was stopped that estimated as this one is to."""
    noted = state.store.read_meta(NOTE)
    if noted is None:
        return None
    damaged = StateError(f"the note {NOTE!r} in the state is damaged, remove it: {noted!r}")
    try:
        run = Run(**noted)
    except TypeError as error:
        raise damaged from error
    numbers: tuple[object, ...] = (
        run.pages,
        run.changed,
        run.damaged,
        run.after or 0,
        run.done or 0,
    )
    if not all(isinstance(one, int) and -(2**63) <= one < 2**63 for one in numbers):
        raise damaged
    if run.how != how_of(state):
        logger.info(
            "beginning anew: the run that was stopped after %d pages had another estimator, fading, "
            "prior or HACS_LINK_BYTES",
            run.pages,
        )
        return None
    logger.info("going on after the %d pages of the run that was stopped", run.pages)
    return run


def new_run(state: State) -> Run:
    """Fit the prior, use it from now on, and return a run that begins."""
    state.estimation = replace(state.estimation, prior=state.refit_prior())
    return Run(how_of(state))


def advanced(
    state: State, run: Run, progress: Progress, asked: Callable[[], int]
) -> tuple[Run, bool]:
    """Estimate until all pages are done or a signal asks to stop; return how far, and whether all."""
    store = state.store
    total = store.count()
    for ids, _ in store.all_rows(run.after):
        left = np.sort(ids if run.done is None else ids[ids > run.done])
        for start in range(0, len(left), PAGES_A_CALL):
            if asked():
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
            store.write_meta(NOTE, asdict(run))
            progress.update(f"{run.pages} pages, {run.changed} changed", run.pages, total)
        run = replace(run, after=int(ids[-1]), done=None)
    store.write_meta(NOTE, None)
    return run, True


@contextmanager
def _signals() -> Iterator[Callable[[], int]]:
    """Yield what returns the signal that asked to stop, 0 for none; asking twice ends the process."""
    asked = 0

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        nonlocal asked
        asked = number
        signal.signal(number, before[number])

    numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    # a job in the background is started with SIGINT ignored, so that Ctrl-C ends only others
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
