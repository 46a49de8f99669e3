"""The rates of all pages anew on a Dask cluster, part by part, of one state or several."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from hacs_crawler.cluster import Cluster
from hacs_crawler.exceptions import StateError
from hacs_crawler.state.address import open_state, sqlite_path
from hacs_crawler.state.database import PAGES_A_CALL, State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.reestimation import Run, keep_followed, new_run
from hacs_crawler.state.store import Part

StateArguments = tuple[str, str, Path, Estimation]
"""What `open_state` takes: address, namespace, where a relative path starts, estimation."""

PAGES_A_PART: Final = 100_000
"""About so many pages are estimated by a worker before it says so."""


def open_there(arguments: StateArguments, *, reads_only: bool = True) -> State:
    """Open a state where a worker runs; raises StateError where there is none there."""
    path = sqlite_path(arguments[0], arguments[2])
    if path is not None and not path.exists():
        msg = f"there is no state at {path} where a Dask worker runs, on {socket.gethostname()}"
        raise StateError(msg)
    return open_state(*arguments, reads_only=reads_only)


def estimated_on(
    cluster: Cluster,
    shards: Sequence[tuple[StateArguments, State]],
    on_progress: Callable[[Run, int], None],
    is_asked_to_stop: Callable[[], bool] = lambda: False,
) -> tuple[Run, bool]:
    """Fit each state's prior, and estimate all pages of all of them; return how far, and if all.

    A run of one process that was stopped is over with it. Pages that are right are not written, so that
    what is done twice, as after the loss of a worker, does no harm.
    """
    counts = [state.store.count() for _, state in shards]
    total, tasks = sum(counts), []
    for (arguments, state), count in zip(shards, counts, strict=True):
        new_run(state)
        parts = max(cluster.cores, -(-count // PAGES_A_PART))
        tasks += [(arguments, (one, parts)) for one in range(parts)]
    run, left = Run(shards[0][1].estimation.note()), len(tasks)
    for _, (pages, changed, damaged) in cluster.mapped(_estimated, tasks):
        run = replace(
            run,
            pages=run.pages + pages,
            changed=run.changed + changed,
            damaged=run.damaged + damaged,
        )
        on_progress(run, total)
        left -= 1
        if left and is_asked_to_stop():
            return run, False
    for _, state in shards:
        keep_followed(state)
    return run, True


def _estimated(task: tuple[StateArguments, Part]) -> tuple[int, int, int]:
    """Estimate a part of a state; return how many pages it has, are changed, and are damaged."""
    arguments, part = task
    pages = changed = damaged = 0
    with closing(open_there(arguments, reads_only=False)) as state:
        for ids, _ in state.store.all_rows(part=part):
            for start in range(0, len(ids), PAGES_A_CALL):
                some = ids[start : start + PAGES_A_CALL].tolist()
                found = state.reestimate(some)
                pages += len(some)
                changed += found.changed
                damaged += found.damaged
    return pages, changed, damaged
