"""Arms: which policy ranks which sites, and how much of the budget each gets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.ranking.policies import Policy, scramble

_UNIT: Final = 2.0**-53


@dataclass(frozen=True, slots=True)
class Arm:
    """A share of the sites, and what ranks them; `name` is that of its policy."""

    name: str
    policy: Policy
    share: float


@dataclass(frozen=True, slots=True)
class Experiment:
    """Arms whose shares add up to 1. With one arm there is nothing to compare: no experiment is on.

    `budget_shares` are those of the budget where the user wants others than the arms' pages give.
    """

    arms: tuple[Arm, ...]
    salt: str = ""
    budget_shares: tuple[float, ...] | None = None

    @property
    def is_on(self) -> bool:
        """Whether there are arms to be compared."""
        return len(self.arms) > 1

    @property
    def number(self) -> int:
        """A number of the arms and the salt, 1 to 2^32 - 1; 0 if no experiment is on.

        Other shares make no other experiment: few sites change their arm.
        """
        if not self.is_on:
            return 0
        names = json.dumps([self.salt, *sorted(arm.name for arm in self.arms)])
        return int.from_bytes(blake2b(names.encode(), digest_size=4).digest(), "little") or 1

    def assign(self, sites: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the place in `arms` of each site, given by its `site_id`.

        The arm with the highest -share / ln(u) takes the site, u being a hash in (0, 1) of site, arm
        and salt: weighted rendezvous hashing (Schindelhauer and Schomaker, "Weighted distributed hash
        tables", SPAA 2005). A site keeps its arm until another arm's share grows or its own shrinks.
        """
        if not self.is_on:
            return np.zeros(len(sites), np.int64)
        numbers = sites.astype(np.uint64)
        scores = [
            -arm.share / np.log(_uniform(numbers, f"{self.salt}\0{arm.name}")) for arm in self.arms
        ]
        best: NDArray[np.int64] = np.argmax(np.stack(scores), axis=0)
        return best

    def budgets(self, budget: int | None, pages: Sequence[int] | None = None) -> list[int | None]:
        """Split a budget by the arms' start pages, that visits to a page cost as much in each arm.

        An arm with fewer visits a page finds more by each, whatever ranks it. Where pages are not known
        yet, and the user wants no other split, each arm may have the whole budget.
        """
        parts = self.budget_shares or pages or ()
        if budget is None or not sum(parts):
            return [budget] * len(self.arms)
        ends = np.rint(np.cumsum([0.0, *parts]) * (budget / sum(parts)))
        return [int(part) for part in np.diff(ends)]


def without_experiment(policy: Policy) -> Experiment:
    """Return what holds where no experiment is on: one arm without a name, which has every site."""
    return Experiment((Arm("", policy, 1.0),))


def _uniform(numbers: NDArray[np.uint64], key: str) -> NDArray[np.float64]:
    """Return keyed hashes of numbers, uniform in (0, 1)."""
    keyed = np.frombuffer(blake2b(key.encode(), digest_size=16).digest(), np.uint64)
    mixed = scramble(scramble(numbers + keyed[0]) ^ keyed[1])
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * _UNIT
