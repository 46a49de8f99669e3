"""Policies: functions that score pages; the page with the highest score is visited first.

A policy takes `Candidates`, arrays with one element a page, and returns an array of scores. To add
one's own, name its dotted path in HACS_POLICY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

FRESHNESS_POWER: Final = 0.2
"""What freshness weighs in `balanced`, and hits the rest."""
UNSEEN_DAYS: Final = 365.0
"""What an index policy takes for the time since the last visit of a page that never answered."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a policy may look at: arrays with one element a page.

    `page_ids` are 64-bit hashes of the pages' SURTs. `rate_per_day` is the estimated update rate
    (the prior's mean for a page never visited). Alone, a page stays x days without an update with
    probability w e^(-a x) + (1 - w) e^(-b x): w is `fast_share`, a `fast_per_day` and b `slow_per_day`,
    which are 0, 0 and the rate of a page without bursts. `days_since_visit` and `days_since_update` are
    infinite where there was none. `p` is the probability that the page has gained links, 1 where it
    was never visited. `visits` and
    `updates` count what the rate was learned from, `failures` attempts since then that told nothing,
    of a page never seen every attempt. `churn` is the chance that a request brings links by itself,
    `churning` the probability that the page has such churn at all.
    `seed` makes random policies repeatable.
    """

    page_ids: NDArray[np.int64]
    rate_per_day: Floats
    fast_share: Floats
    fast_per_day: Floats
    slow_per_day: Floats
    days_since_visit: Floats
    days_since_update: Floats
    p: Floats
    visits: NDArray[np.int64]
    updates: NDArray[np.int64]
    failures: NDArray[np.int64]
    churn: Floats
    churning: Floats
    seed: int


Scorer = Callable[[Candidates], Floats]


@dataclass(frozen=True, slots=True)
class Policy:
    """What ranks: a name, a function that scores candidates, and what is asked of it elsewhere.

    `uses_threshold`: HACS_THRESHOLD leaves pages out. `grows_with_time`: a page's score only grows
    until it is visited, so one can tell when it will be due. `is_pointwise`: a page's score depends on
    no page of another site, so that pages may be scored in parts. `is_by_p`: the score grows with p
    alone, but for failed attempts. `uses_rate`: better rates make it choose better, so that control
    visits are worth their cost. `uses_signals`: what sitemaps, feeds and pings say counts in p. The
    defaults hold for any function of a user.
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


def hacs(candidates: Candidates) -> Floats:
    """Scorer by p, the probability that links were added (Jayawardana et al. 2020, Eq. 1).

    Every attempt that failed since the page was last seen halves it: a visit that tells nothing is
    worth nothing, and dead hosts would take the budget run after run.
    """
    return candidates.p * 0.5**candidates.failures


def last_obs(candidates: Candidates) -> Floats:
    """Scorer by the time since the last visit: the page seen longest ago first."""
    return candidates.days_since_visit


def random(candidates: Candidates) -> Floats:
    """Scorer by a hash of page and seed: the same seed gives the same order, however pages come in."""
    mixed = candidates.page_ids.view(np.uint64) ^ scramble(np.array([candidates.seed % 2**64]))
    return scramble(mixed) / 2.0**64


def brute_force(candidates: Candidates) -> Floats:
    """Scorer all alike: every page, in the order in which the seeds came; no threshold applies."""
    return np.zeros(len(candidates.page_ids))


def freshness(candidates: Candidates) -> Floats:
    """Scorer by `freshness_index`: keep as many pages as possible without an unseen update.

    Here and in the other index policies a page never visited comes first, and every attempt that
    failed since the page was last seen halves the score, as in `hacs`. A page of which there was
    nothing but failed attempts counts as one last seen `UNSEEN_DAYS` ago.
    """
    return _by_index(freshness_index, candidates)


def staleness(candidates: Candidates) -> Floats:
    """Scorer by `staleness_index`: keep the harmonic penalty for unseen updates low."""
    return _by_index(staleness_index, candidates)


def unseen_links(candidates: Candidates) -> Floats:
    """Scorer by `unseen_links_index`: find updates, each of them, with the least delay."""
    return _by_index(unseen_links_index, candidates)


def balanced(candidates: Candidates) -> Floats:
    """Scorer by p^0.8 F^0.2, F being `freshness_index`: some hits fewer than `hacs`, and pages fresher.

    Pages never visited come first, as in the index policies.
    """
    fresh = freshness(candidates)
    is_first = np.isinf(fresh)
    hits = hacs(candidates) ** (1.0 - FRESHNESS_POWER)
    score: Floats = np.where(is_first, 1.0, fresh) ** FRESHNESS_POWER * hits
    return np.where(is_first, np.inf, score)


def interest(candidates: Candidates) -> Floats:
    """Scorer by what a visit is worth where updates keep their worth: `update_index` of p, as `hacs`.

    `ranking.instant.with_hubs` puts in the hubs of HACS_INSTANT, whose links lose theirs.
    """
    from hacs_crawler.model import update_index  # noqa: PLC0415 - of this policy alone

    return update_index(candidates.p) * 0.5**candidates.failures


INTEREST: Final = Policy("interest", interest, grows_with_time=True, is_pointwise=True)
_OURS: Final = (
    Policy("hacs", hacs, grows_with_time=True, is_pointwise=True, is_by_p=True),
    Policy("last-obs", last_obs, grows_with_time=True, is_pointwise=True, uses_rate=False),
    Policy("random", random, is_pointwise=True, uses_rate=False),
    Policy("brute-force", brute_force, uses_threshold=False, is_pointwise=True, uses_rate=False),
    Policy("balanced", balanced, grows_with_time=True, is_pointwise=True),
    Policy("freshness", freshness, grows_with_time=True, is_pointwise=True),
    Policy("staleness", staleness, grows_with_time=True, is_pointwise=True),
    Policy("unseen-links", unseen_links, grows_with_time=True, is_pointwise=True),
    INTEREST,
    Policy(
        "hacs-without-signals",
        hacs,
        grows_with_time=True,
        is_pointwise=True,
        is_by_p=True,
        uses_signals=False,
    ),
)
POLICIES: Final[Mapping[str, Policy]] = MappingProxyType({one.name: one for one in _OURS})


def policy_of(name: str, function: Scorer) -> Policy:
    """Return the policy that a function is, by that name; one of ours keeps what is known of it."""
    for ours in _OURS:
        if function in (ours, ours.score):
            return replace(ours, name=name)
    return Policy(name, function)


def freshness_index(
    rate_per_day: ArrayLike, days_since_visit: ArrayLike, importance: ArrayLike = 1.0
) -> Floats:
    """Return mu/lambda [1 - (1 + lambda x) exp(-lambda x)], the index of a page's freshness.

    Visiting the pages whose index is highest keeps the most of them, weighted by importance mu, in
    the state in which they were last seen: Olston and Pandey, "Recrawl scheduling based on
    information longevity", WWW 2008, appendix; the optimum is that of Cho and Garcia-Molina 2003.
    Shapes broadcast; rates and days at least 0 and finite. The bracket is the regularised incomplete
    gamma function P(2, lambda x), the probability of two updates or more, exact for small arguments;
    lambda = 0 gives 0.
    """
    rate, days, weight = _floats(rate_per_day, days_since_visit, importance)
    changed_twice: Floats = _two_or_more(rate * days)
    return weight * _per_rate(changed_twice, rate)


def _two_or_more(expected: Floats) -> Floats:
    """Return the probability of two events or more of a Poisson number with that mean."""
    from scipy.special import gammainc  # noqa: PLC0415 - a sixth of a crawl's start-up time

    chance: Floats = gammainc(2.0, expected)
    return chance


def staleness_index(
    rate_per_day: ArrayLike, days_since_visit: ArrayLike, importance: ArrayLike = 1.0
) -> Floats:
    """Return mu [x - (1 - exp(-lambda x)) / lambda], the index of a page's harmonic staleness.

    N unseen updates of a page cost mu (1 + 1/2 + ... + 1/N) a day, the harmonic penalty of Kolobov et
    al., "Staying up to date with online content changes", NeurIPS 2019: an update more hurts less.
    Shapes and ranges as for `freshness_index`. Computed as [r (1 - exp(-r)) - P(2, r)] / lambda with
    r = lambda x, which cancels by no more than half for small r.
    """
    rate, days, weight = _floats(rate_per_day, days_since_visit, importance)
    expected = rate * days
    changed_twice: Floats = _two_or_more(expected)
    return weight * _per_rate(-expected * np.expm1(-expected) - changed_twice, rate)


def unseen_links_index(
    rate_per_day: ArrayLike, days_since_visit: ArrayLike, importance: ArrayLike = 1.0
) -> Floats:
    """Return mu lambda x^2 / 2, the index of a page's unseen updates.

    Every update costs mu a day until it is found, however many others wait on its page: the total
    delay of Sia, Cho and Cho, "Efficient monitoring algorithm for fast news alerts", IEEE TKDE 19(7),
    2007. Shapes and ranges as for `freshness_index`.
    """
    rate, days, weight = _floats(rate_per_day, days_since_visit, importance)
    return weight * 0.5 * rate * days**2


def _by_index(index: Callable[[Floats, Floats], Floats], candidates: Candidates) -> Floats:
    is_new = np.isinf(candidates.days_since_visit)
    days = np.where(is_new, UNSEEN_DAYS, candidates.days_since_visit)
    share = candidates.fast_share
    mixed = share * index(candidates.fast_per_day, days)
    mixed += (1.0 - share) * index(candidates.slow_per_day, days)
    score = mixed * 0.5**candidates.failures
    return np.where(is_new & (candidates.failures == 0), np.inf, score)


def _per_rate(values: Floats, rate: Floats) -> Floats:
    """Divide by the rate; 0 where that is 0, the limit of all the indices."""
    return np.divide(values, rate, out=np.zeros_like(rate), where=rate > 0)


def _floats(*values: ArrayLike) -> list[Floats]:
    return list(np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values)))


def scramble(numbers: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Mix the bits of 64-bit numbers: the finaliser of SplitMix64 (Steele et al. 2014)."""
    mixed = numbers.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
