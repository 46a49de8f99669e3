"""Policies: functions that score pages; the page with the highest score is visited first.

A policy takes `Candidates`, arrays with one element a page, and returns an array of scores. To add
one's own, name its dotted path in HACS_POLICY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a policy may look at: arrays with one element a page.

    `page_ids` are 64-bit hashes of the pages' SURTs. `rate_per_day` is the estimated update rate
    (the prior's mean for a page never visited). `days_since_visit` and `days_since_update` are
    infinite where there was none. `p` is the probability that the page has gained links, 1 where it
    was never visited. `visits` and `updates` count what the rate was learned from,
    `failures` attempts since then that told nothing. `seed` makes random
    policies repeatable.
    """

    page_ids: NDArray[np.int64]
    rate_per_day: Floats
    days_since_visit: Floats
    days_since_update: Floats
    p: Floats
    visits: NDArray[np.int64]
    updates: NDArray[np.int64]
    failures: NDArray[np.int64]
    seed: int


Policy = Callable[[Candidates], Floats]


def hacs(candidates: Candidates) -> Floats:
    """Score by p, the probability that links were added (Jayawardana et al. 2020, Eq. 1).

    Every attempt that failed since the page was last seen halves it: a visit that tells nothing is
    worth nothing, and dead hosts would take the budget run after run.
    """
    return candidates.p * 0.5**candidates.failures


def last_obs(candidates: Candidates) -> Floats:
    """Score by the time since the last visit: the page seen longest ago first."""
    return candidates.days_since_visit


def random(candidates: Candidates) -> Floats:
    """Score by a hash of page and seed: the same seed gives the same order, however pages come in."""
    mixed = candidates.page_ids.view(np.uint64) ^ _scramble(np.array([candidates.seed % 2**64]))
    return _scramble(mixed) / 2.0**64


def brute_force(candidates: Candidates) -> Floats:
    """Score all alike: every page, in the order in which the seeds came; no threshold applies."""
    return np.zeros(len(candidates.page_ids))


POLICIES: Final[Mapping[str, Policy]] = MappingProxyType(
    {"hacs": hacs, "last-obs": last_obs, "random": random, "brute-force": brute_force}
)


def _scramble(numbers: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit numbers: the finaliser of SplitMix64 (Steele et al. 2014)."""
    mixed = numbers.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
