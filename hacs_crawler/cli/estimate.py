"""`hacs estimate`: the rates of all pages anew, in a run that can be stopped and goes on later."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import typer

from hacs_crawler.cli.clusters import Dask, OpenedShard, Shards, opened_shards
from hacs_crawler.cli.common import Set, place_of
from hacs_crawler.cluster import connected
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import Run, advanced, estimated_on, new_run, stopped_run
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)


def estimate(
    dask: Dask = None,
    shard: Shards = None,
    settings: Set = None,
) -> None:
    """Fit the prior, and estimate every page's rate anew with it.

    Of all pages of the state, as the first log line says. Wanted after a change of HACS_ESTIMATOR or
    HACS_FADE_DAYS (the end of the next crawl does it too). Crawls may go on meanwhile. A run that
    was stopped (Ctrl-C) or killed goes on where it was when it is started again with the same settings;
    with --dask it begins anew.
    """
    with opened_shards(settings, shard, dask, writes=True) as (config, shards), _signals() as asked:
        count = sum(one.state.store.count() for one in shards)
        where = f"{len(shards)} shards" if len(shards) > 1 else place_of(config)
        logger.info("estimating %s of %s", counted(count, "page"), where)
        state = shards[0].state
        run = None if dask is not None else stopped_run(state) or new_run(state)
        with Progress("estimate") as progress:

            def show(run: Run, total: int) -> None:
                progress.update(f"{run.pages} pages, {run.changed} changed", run.pages, total)

            if run is not None:
                run, is_whole = advanced(state, run, show, lambda: bool(asked()))
            else:
                run, is_whole = _on_cluster(dask or "", shards, show, lambda: bool(asked()))
        number = run.pages - run.damaged
        if not is_whole:
            done = counted(run.pages, "page")
            then = "goes on from there" if dask is None else "begins anew"
            logger.info("stopped after %s; the same command %s", done, then)
            raise typer.Exit(128 + asked())
        if run.damaged:
            msg = f"{counted(number, 'page')} estimated, {run.damaged} damaged left out"
            raise StateError(msg)
        logger.info("%s estimated, %d of them changed", counted(number, "page"), run.changed)


def _on_cluster(
    address: str,
    shards: Sequence[OpenedShard],
    on_progress: Callable[[Run, int], None],
    is_asked_to_stop: Callable[[], bool],
) -> tuple[Run, bool]:
    with connected(address) as cluster:
        pairs = [(one.arguments, one.state) for one in shards]
        return estimated_on(cluster, pairs, on_progress, is_asked_to_stop)


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
