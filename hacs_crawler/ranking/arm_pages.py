"""How many start pages each arm of an experiment had when it began: by them budgets are split.

Pages found later do not count: an arm that discovers more would earn more. They are counted anew where
other shares have moved sites.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, to_builtins
from numpy.typing import NDArray

from hacs_crawler.ranking.arms import Experiment
from hacs_crawler.state import State, change_note, read_note

Counts = NDArray[np.int64]


class _ArmPages(Struct, frozen=True):
    """The share of the sites, and the start pages, of each arm by its name."""

    shares: dict[str, float]
    pages: dict[str, int]


def start_pages(state: State, experiment: Experiment) -> tuple[int, ...] | None:
    """Return how many each arm began with, None where the state keeps none. Raises StateError."""
    kept = read_note(state.store, _note(experiment), _ArmPages) if experiment.is_on else None
    if kept is None or kept.shares != _shares(experiment):
        return None
    return tuple(kept.pages[arm.name] for arm in experiment.arms)


def keep_start_pages(state: State, experiment: Experiment, pages: tuple[int, ...]) -> None:
    """Keep how many each arm has, unless another process was first. Raises StateError."""
    names = (arm.name for arm in experiment.arms)
    own = _ArmPages(_shares(experiment), dict(zip(names, pages, strict=True)))

    def first(kept: _ArmPages | None) -> object:
        return to_builtins(own if kept is None or kept.shares != own.shares else kept)

    change_note(state.store, _note(experiment), _ArmPages, first)


def counted(experiment: Experiment, sites: NDArray[np.integer]) -> Counts:
    """Return how many of some pages, given by their sites, are of each arm."""
    if not experiment.is_on:
        return np.array([len(sites)])
    return np.bincount(experiment.assign(sites), minlength=len(experiment.arms))


def _shares(experiment: Experiment) -> dict[str, float]:
    return {arm.name: arm.share for arm in experiment.arms}


def _note(experiment: Experiment) -> str:
    return f"experiment/{experiment.number}"
