"""What a state tells a run when it begins; all functions are called in the state's own thread."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.costs import informed
from hacs_crawler.ranking.finalists import correction_of
from hacs_crawler.ranking.instant import read_tier
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.shard_rounds import Round, options_left, read_round
from hacs_crawler.state import Ids, State, open_state


class RunContext(NamedTuple):
    """What a state keeps for a run beside its pages."""

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
        replace(options, correct=correction_of(state, options)),
        round_,
        done,
    )
