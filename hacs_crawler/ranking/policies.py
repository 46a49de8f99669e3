"""Policies: functions that score pages; the page with the highest score is visited first.

A policy takes `Candidates`, arrays with one element a page, and returns an array of scores. To add your
own, name its dotted path in HACS_POLICY.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model import chance_of_update, days_out_of_date, update_index
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

Floats = FloatArray
Counts = NDArray[np.integer]

# The value that the policy `balanced` uses for HACS_STALE_DAYS.
BALANCED_DAYS: Final = 100.0
# A page never seen counts as out of date for this many days.
UNSEEN_DAYS: Final = 365.0
# After this many failed attempts, a page never seen is excluded from the share for such pages.
MOST_FAILURES: Final = 3


@dataclass(frozen=True, slots=True)
class Candidates:
    """The input of a policy: arrays with one element a page.

    `page_ids` are 64-bit hashes of the pages' SURTs. `rate_per_day` is the estimated update rate (the
    prior's mean for a page never visited). Without evidence from other pages, a page stays x days
    without an update with probability w e^(-a x) + (1 - w) e^(-b x): w is `fast_share`, a
    `fast_per_day` and b `slow_per_day` (see `model.survival`). `days_since_visit` and
    `days_since_update` are infinite without a visit or an update. `p` is the probability of an update
    since the last visit, 1 if there was none. `visits` and `updates` count the history behind the rate,
    `failures` the unsuccessful attempts since then, for a page never seen all attempts. `churn` is the
    chance that a request brings links by itself, `churning` the probability that the page has such
    churn at all. `weight` is the worth of an update (HACS_WEIGHTS), `least_days` and `most_days` bound
    the time between visits (HACS_EVERY). `seed` makes random policies repeatable. `stale_days` is
    HACS_STALE_DAYS, infinite without it.
    """

    page_ids: IndexArray
    rate_per_day: Floats
    fast_share: Floats
    fast_per_day: Floats
    slow_per_day: Floats
    days_since_visit: Floats
    days_since_update: Floats
    p: Floats
    visits: IndexArray
    updates: IndexArray
    failures: IndexArray
    churn: Floats
    churning: Floats
    weight: Floats
    least_days: Floats
    most_days: Floats
    seed: int
    stale_days: float = math.inf

    @property
    def is_unseen(self) -> BoolArray:
        """Which pages share in HACS_DISCOVER; after `MOST_FAILURES`, pages compete with seen pages."""
        unseen: BoolArray = (self.visits == 0) & (self.failures < MOST_FAILURES)
        return unseen

    @property
    def is_early(self) -> BoolArray:
        """Which pages may not be visited yet: the shortest interval has not passed."""
        return self.days_since_visit < self.least_days

    @property
    def intervals_passed(self) -> Floats:
        """How many times its longest interval has passed since a page was seen.

        It is multiplied by `patience`, and a page never seen counts as seen `UNSEEN_DAYS` ago: otherwise
        dead hosts would come first in every run.
        """
        days = np.minimum(self.days_since_visit, UNSEEN_DAYS) * patience(self.failures, self.visits)
        passed: Floats = days / self.most_days
        return passed

    @property
    def days_out_of_date(self) -> Floats:
        """F of each page (see `model.days_out_of_date`); `UNSEEN_DAYS` for a page that was never seen.

        Siblings and signals count as in p: F is multiplied by the ratio of p with and without them.
        """
        is_seen = np.isfinite(self.days_since_visit)
        days = np.where(is_seen, self.days_since_visit, 0.0)
        alone = self.fast_share, self.fast_per_day, self.slow_per_day, days
        p = chance_of_update(*alone)
        stale_days = days_out_of_date(*alone) * np.divide(
            self.p, p, out=np.zeros_like(p), where=p > 0
        )
        return np.where(is_seen, stale_days, UNSEEN_DAYS)


Scorer = Callable[[Candidates], Floats]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: a name, a function that scores candidates, and properties for the rest of the code.

    `uses_threshold`: HACS_THRESHOLD leaves pages out. `grows_with_time`: a page's score only grows until
    it is visited, so its due time can be computed. `is_pointwise`: a page's score does not depend on
    pages of other sites, so that pages may be scored in parts. `is_by_p`: apart from failed attempts and
    HACS_STALE_DAYS, the score depends on p only, and grows with it. `uses_rate`: better rates make it
    choose better, so that control visits are worth their cost. `uses_signals`: evidence from sitemaps,
    feeds and pings counts in p. The defaults hold for any user's function.
    """

    name: str
    score: Scorer
    uses_threshold: bool = True
    grows_with_time: bool = False
    is_pointwise: bool = False
    is_by_p: bool = False
    uses_rate: bool = True
    uses_signals: bool = True

    def __call__(self, candidates: Candidates) -> Floats:
        """Return the scores of the candidates."""
        return self.score(candidates)


def patience(failures: Counts, visits: Counts) -> Floats:
    """Return the factor of a page's score after so many failed attempts since it was last seen.

    Each halves the score: otherwise dead hosts would take the budget run after run. The first costs
    nothing if the page was ever seen, as a site may be down or show a block page for a day.
    """
    factor = np.ones(failures.shape)
    if failures.any():  # in few batches
        factor = 0.5 ** np.maximum(failures.astype(np.int64) - (visits > 0), 0)
    return factor


def hacs(candidates: Candidates) -> Floats:
    """Scorer by p, the probability that links were added (Jayawardana et al. 2020, Eq. 1).

    With HACS_STALE_DAYS = D it is p + F/D: D days out of date are worth one update
    (F: `Candidates.days_out_of_date`). It is multiplied by the page's weight, and by `patience`.
    """
    worth = candidates.p
    if math.isfinite(candidates.stale_days):
        worth = worth + candidates.days_out_of_date / candidates.stale_days
    return worth * candidates.weight * patience(candidates.failures, candidates.visits)


def last_obs(candidates: Candidates) -> Floats:
    """Scorer by the time since the last visit: the page seen longest ago first."""
    return candidates.days_since_visit


def random(candidates: Candidates) -> Floats:
    """Scorer by a hash of page and seed: the order depends on the seed, not on the order of input."""
    mixed = candidates.page_ids.view(np.uint64) ^ scramble(np.array([candidates.seed % 2**64]))
    return scramble(mixed) / 2.0**64


def brute_force(candidates: Candidates) -> Floats:
    """Scorer that gives all pages the same score: they keep their order; no threshold applies."""
    return np.zeros(len(candidates.page_ids))


def balanced(candidates: Candidates) -> Floats:
    """Scorer like `hacs` with HACS_STALE_DAYS = 100: nearly as many hits, and fresher pages."""
    return hacs(replace(candidates, stale_days=BALANCED_DAYS))


def interest(candidates: Candidates) -> Floats:
    """Scorer by the value of a visit if updates keep their worth: `update_index` of p.

    Weights and failed attempts count as in `hacs`. `ranking.instant.with_hubs` adds the hubs of
    HACS_INSTANT, whose links lose their worth.
    """
    return (
        update_index(candidates.p)
        * candidates.weight
        * patience(candidates.failures, candidates.visits)
    )


_OURS: Final = (
    Policy("hacs", hacs, grows_with_time=True, is_pointwise=True, is_by_p=True),
    Policy("last-obs", last_obs, grows_with_time=True, is_pointwise=True, uses_rate=False),
    Policy("random", random, is_pointwise=True, uses_rate=False),
    Policy("brute-force", brute_force, uses_threshold=False, is_pointwise=True, uses_rate=False),
    Policy("balanced", balanced, grows_with_time=True, is_pointwise=True),
    Policy("interest", interest, grows_with_time=True, is_pointwise=True),
    Policy(
        "hacs-without-signals",
        hacs,
        grows_with_time=True,
        is_pointwise=True,
        is_by_p=True,
        uses_signals=False,
    ),
)
POLICIES: Final[Mapping[str, Policy]] = MappingProxyType({policy.name: policy for policy in _OURS})


def policy_of(name: str, function: Scorer) -> Policy:
    """Return the policy for a function, under that name; a built-in policy keeps its properties."""
    for ours in _OURS:
        if function in (ours, ours.score):
            return replace(ours, name=name)
    return Policy(name, function)


def scramble(numbers: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit numbers: the finaliser of SplitMix64 (Steele et al. 2014)."""
    mixed = numbers.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
