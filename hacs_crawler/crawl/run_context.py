"""What a run reads from its state when it begins; all functions run in the state's own thread."""

from __future__ import annotations

from hacs_crawler.config import Config
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.selection import informed
from hacs_crawler.state import State, open_state


def opened(config: Config) -> tuple[State, RankingOptions]:
    """Return the open state, and what `informed_options` does.

    Raises ConfigError and StateError; the state is then closed.
    """
    state = open_state(*config.state_arguments)
    try:
        state.keep_label(config.ranking.label(config.estimation))
        return state, informed(config.ranking, state, config.clock())
    except BaseException:
        state.close()
        raise


def informed_options(state: State, config: Config) -> RankingOptions:
    """Return the ranking options with what the state knows for them, and read its prior anew."""
    state.read_prior()
    return informed(config.ranking, state, config.clock())
