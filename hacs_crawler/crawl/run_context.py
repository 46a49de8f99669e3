"""What a state tells a run when it begins, and what it learns from the run when that ends.

All functions are called in the state's own thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.calibration import Drift, drift_of
from hacs_crawler.ranking.candidates import Correct
from hacs_crawler.ranking.controls import Allowance, take_allowance
from hacs_crawler.ranking.costs import informed
from hacs_crawler.ranking.finalists import correction_of
from hacs_crawler.ranking.instant import read_tier
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.shard_rounds import Round, options_left, read_round
from hacs_crawler.state import Ids, Run, State, follow_prior, open_state, refit_signals
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

PROGRESS_SECONDS: Final = 10.0
MANY_PAGES: Final = 20_000
"""So many pages take some seconds to be estimated anew."""


class RunContext(NamedTuple):
    """What a state keeps for a run beside its pages."""

    correct: Correct | None
    allowance: Allowance
    ranking: RankingOptions
    round: Round | None
    done: Ids
    """Pages that were visited in this round already."""


def opened(config: Config, since: int | None) -> tuple[State, RunContext]:
    """Return the open state, and what it keeps for this run; `since` as in `run_context`.

    Raises ConfigError and StateError; the state is then closed.
    """
    state = open_state(*config.state_arguments)
    try:
        if config.ranking.instant is not None:
            read_tier(config.ranking.instant)  # before a request goes out it is said what is wrong
        for label in config.ranking.labels(config.estimation):
            state.keep_label(label)
        return state, run_context(state, config, since)
    except BaseException:
        state.close()
        raise


def run_context(state: State, config: Config, since: int | None) -> RunContext:
    """Read anew what the state keeps for a run, and its prior.

    With `since` the state keeps a round of a plan over shards, which began then or later.
    """
    options, round_, done = config.ranking, None, np.zeros(0, np.int64)
    if since is not None:
        round_ = read_round(state, since)
        if round_ is None:
            raise StateError("another `hacs crawl` has planned this shard meanwhile, and crawls it")
        options, done = options_left(state, options, round_)
    state.read_prior()
    options = informed(options, state, config.clock())
    return RunContext(
        correction_of(state, options),
        take_allowance(state, options.budget, options.control_share),
        options,
        round_,
        done,
    )


def learn_from_run(
    state: State,
    config: Config,
    is_asked_to_end: Callable[[], bool],
    *,
    is_judged: bool,
) -> None:
    """Fit the prior and signals anew, bound the record of outcomes, and log whether p has drifted.

    `is_judged` says that there were predictions to be judged by.
    """
    run = follow_prior(state, _log_progress(), is_asked_to_end)
    if run is not None and is_asked_to_end():
        pages = counted(run.pages, "page")
        logger.info("%s estimated again; the next crawl goes on from there", pages)
    elif run is not None and run.changed:
        pages = counted(run.pages, "page")
        logger.info("%s estimated again: the prior or its use has changed", pages)
    refit_signals(state.store)
    if is_judged and (drift := _bound_and_judge(state, config)) is not None:
        logger.warning("p is off: %s", drift)


def _log_progress() -> Callable[[Run, int], None]:
    """Return what logs every now and then how far the pages are estimated anew."""
    next_at = 0.0

    def log(run: Run, total: int) -> None:
        nonlocal next_at
        if time.monotonic() < next_at or total < MANY_PAGES:
            return
        next_at = time.monotonic() + PROGRESS_SECONDS
        logger.info(
            "Estimating pages anew with the prior fitted to them: %d of %d (Ctrl-C ends it; the next "
            "crawl goes on from there)",
            run.pages,
            total,
        )

    return log


def _bound_and_judge(state: State, config: Config) -> Drift | None:
    outcomes = state.bound_outcomes()
    options = config.ranking
    model = options.model(state.estimation)
    return drift_of(state, model, outcomes, is_corrected=options.calibration)
