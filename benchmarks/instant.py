"""Hubs whose links are read for hours: how much of the interest in them a crawler is in time for.

    python benchmarks/instant.py [--webs 5] [--days 30] [--visits 100]
    python benchmarks/instant.py --others 40

The second compares with p on webs of all kinds, where curves and worths are misjudged by a factor.

Hubs show new links as a Poisson process; interest in each link fades by the log-normal curve of its hub.
A crawler makes its visits at equal distances, and picks a hub for each. Kept is the interest that is
left in links when they are found, as a share of all interest in all links that appear. The index, the
shrinking of rates and the curves are those of a crawl (`hacs_crawler.model`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hacs_crawler.lab.interest.curves import lognormal_cumulative
from hacs_crawler.model import DEFAULT_PRIOR, Gaps, LogNormalPrior, fit_prior, update_index
from hacs_crawler.model.grid import RATES, posterior
from hacs_crawler.ranking.instant import hub_rate, instant_index, tier_rate
from hacs_crawler.utils.arrays import FloatArray

SHARES = (0.1, 0.3, 0.6)
"""News hubs, blogs and homepages among the hubs."""
MISJUDGED = 0.5
"""Standard deviation of the logarithm of a factor."""
OPTIMISTIC = 24.0
USUAL = 1.0
EXPLORE = 0.05
MOST_GAPS = 300
UPDATE_VALUE = 3.0
TIER_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Web:
    """Hubs: arrays with an element each. `is_listed` says which a tier has, rightly or not."""

    rate: FloatArray
    mu: FloatArray
    sigma: FloatArray
    worth: FloatArray
    is_listed: np.ndarray


@dataclass
class Crawl:
    """What a crawler knows: links and days of each hub since its first visit, and its last visit."""

    links: FloatArray
    days: FloatArray
    last: FloatArray
    now: float = 0.0
    visited: int | None = None
    gaps: list[list[tuple[float, bool]]] = field(default_factory=list)
    """Of those who want them: days from visit to visit, and whether there were new links."""

    @property
    def elapsed(self) -> FloatArray:
        """Days since the last visit; since the beginning for a hub never seen."""
        return self.now - np.where(np.isnan(self.last), 0.0, self.last)


Rates = Callable[[Web, Crawl], FloatArray]
Pick = Callable[[Web, Crawl], int]


@dataclass(frozen=True)
class Kind:
    """What a web is drawn from; `listed` is the first of the kinds of hubs."""

    hubs: int = 300
    links_per_day: tuple[float, ...] = (14.0, 2.0, 0.25)
    spread: float = 0.7
    mu: float = -0.25
    mu_spread: float = 0.5
    sigma: float = 1.0
    worth_spread: float = 0.8
    missed: float = 0.1
    """So large a share of the news hubs is not listed, and as many others are."""


def any_kind(random: np.random.Generator) -> Kind:
    """Draw what a web is drawn from."""
    return Kind(
        hubs=int(random.integers(60, 600)),
        links_per_day=(random.uniform(4, 60), random.uniform(0.5, 4), random.uniform(0.02, 0.5)),
        spread=random.uniform(0.3, 1.5),
        mu=random.uniform(-1.5, 1.5),
        mu_spread=random.uniform(0.1, 1.0),
        sigma=random.uniform(0.6, 1.6),
        worth_spread=random.uniform(0.0, 1.0),
        missed=random.uniform(0.0, 0.5),
    )


def make_web(random: np.random.Generator, kind: Kind) -> Web:
    """Draw a web of news hubs, blogs and homepages."""
    of = np.repeat(np.arange(len(SHARES)), np.round(np.array(SHARES) * kind.hubs).astype(int))

    def factors(spread: float) -> FloatArray:
        return np.exp(random.normal(-0.5 * spread**2, spread, of.size))

    is_listed = of == 0
    wrong = int(kind.missed * is_listed.sum())
    flipped = [random.choice(np.flatnonzero(of == one), wrong, replace=False) for one in (0, 1)]
    is_listed[np.concatenate(flipped)] ^= True
    return Web(
        np.array(kind.links_per_day)[of] * factors(kind.spread),
        kind.mu + random.normal(0.0, kind.mu_spread, of.size),
        np.full(of.size, kind.sigma),
        factors(kind.worth_spread),
        is_listed,
    )


def misjudged(web: Web, random: np.random.Generator) -> Web:
    """Return the web as a crawl may take it for: lifetimes and worths off by a factor."""
    return replace(
        web,
        mu=web.mu + random.normal(0.0, MISJUDGED, web.mu.size),
        worth=web.worth * np.exp(random.normal(0.0, MISJUDGED, web.mu.size)),
    )


def known(web: Web, _: Crawl) -> FloatArray:
    """The true rates."""
    return web.rate


def one_prior(web: Web, crawl: Crawl) -> FloatArray:
    """One mean for all: that of the homepages of which a state is full, before hubs come to it."""
    del crawl
    return np.full(web.rate.size, DEFAULT_PRIOR.mean_rate)


def prior_of_tier(web: Web, crawl: Crawl) -> FloatArray:
    """The mean of the hubs that are listed, or of those that are not."""
    means = [
        tier_rate(crawl.links[mine], crawl.days[mine], optimistic)
        for mine, optimistic in ((web.is_listed, OPTIMISTIC), (~web.is_listed, USUAL))
    ]
    return np.where(web.is_listed, *means)


def prior_of_list(web: Web, crawl: Crawl) -> FloatArray:
    """The mean of all hubs, as where all of them are in the list of a crawl."""
    return np.full(web.rate.size, tier_rate(crawl.links, crawl.days, OPTIMISTIC))


def shrunk(prior: Rates) -> Rates:
    """Estimated rates, shrunk to those means."""
    return lambda web, crawl: hub_rate(crawl.links, crawl.days, prior(web, crawl))


def by_index(rates: Rates) -> Pick:
    """The hub with the highest M."""

    def pick(web: Web, crawl: Crawl) -> int:
        index = instant_index(crawl.elapsed, rates(web, crawl), web.mu, web.sigma, web.worth)
        return int(np.argmax(index))

    return pick


def by_known_p(web: Web, crawl: Crawl) -> int:
    """The hub with the highest 1 - exp(-rate * elapsed)."""
    return int(np.argmax(web.rate * crawl.elapsed))


class ByP:
    """The hub with the highest p, as HACS_POLICY = "hacs" has it with its defaults.

    Rates of updates are posterior means, under one prior, fitted to all hubs once a day.
    """

    def __init__(self) -> None:
        self._prior = DEFAULT_PRIOR
        self._fitted = 0
        self._rates = np.empty((0, len(RATES)))

    def __call__(self, web: Web, crawl: Crawl) -> int:
        if not crawl.gaps:
            crawl.gaps = [[] for _ in web.rate]
            self._rates = np.tile(_estimated(crawl.gaps[:1], self._prior), (web.rate.size, 1))
        if int(crawl.now) > self._fitted:
            self._fitted = int(crawl.now)
            self._prior = fit_prior(_joined(crawl.gaps))
            self._rates = _estimated(crawl.gaps, self._prior)
        elif crawl.visited is not None:
            hub = crawl.visited
            self._rates[hub] = _estimated(crawl.gaps[hub : hub + 1], self._prior)
        elapsed = np.where(np.isnan(crawl.last), np.inf, crawl.elapsed)
        finite = np.where(np.isinf(elapsed), 0.0, elapsed)
        quiet = (self._rates * np.exp(-np.multiply.outer(finite, RATES))).sum(axis=1)
        return self.choose(web, crawl, np.where(np.isinf(elapsed), 1.0, 1.0 - quiet))

    def choose(self, web: Web, crawl: Crawl, p: FloatArray) -> int:
        """Return the hub to visit."""
        del web, crawl
        return int(np.argmax(p))


class ByValue(ByP):
    """HACS_POLICY = "interest" with a list: hubs that are listed by M, all others by p."""

    def choose(self, web: Web, crawl: Crawl, p: FloatArray) -> int:
        mine = web.is_listed
        of_tier = tier_rate(crawl.links[mine], crawl.days[mine], OPTIMISTIC)
        rates = hub_rate(crawl.links, crawl.days, of_tier)
        elapsed = np.where(np.isnan(crawl.last), np.inf, crawl.elapsed)
        index = instant_index(elapsed, rates, web.mu, web.sigma, web.worth)
        return int(np.argmax(np.where(mine, index, UPDATE_VALUE * update_index(p))))


def _estimated(gaps: Sequence[Sequence[tuple[float, bool]]], prior: LogNormalPrior) -> FloatArray:
    return posterior(_joined(gaps), prior)


def _joined(gaps: Sequence[Sequence[tuple[float, bool]]]) -> Gaps:
    flat = [one for of_hub in gaps for one in of_hub[-MOST_GAPS:]]
    offsets = np.cumsum([0, *(min(len(of_hub), MOST_GAPS) for of_hub in gaps)])
    days, updated = np.array(flat, np.float64).reshape(-1, 2).T
    return Gaps(days.copy(), updated > 0, np.ones(len(flat)), offsets)


def exploring(pick: Pick, share: float) -> Pick:
    """Give every so-manieth visit to the hub seen longest ago."""
    every = round(1 / share)
    made = 0

    def explore(web: Web, crawl: Crawl) -> int:
        nonlocal made
        made += 1
        return int(np.argmax(crawl.elapsed)) if made % every == 0 else pick(web, crawl)

    return explore


def uniform(web: Web, crawl: Crawl) -> int:
    del web
    return int(np.argmax(crawl.elapsed))


def two_tiers(share: float) -> Pick:
    """Give the listed hubs that share of the visits, the others the rest, each in turn."""
    owed = 0.0

    def pick(web: Web, crawl: Crawl) -> int:
        nonlocal owed
        owed += share
        is_theirs = owed >= 1.0
        owed -= is_theirs
        return int(np.argmax(np.where(web.is_listed == is_theirs, crawl.elapsed, -np.inf)))

    return pick


def kept(
    web: Web, pick: Pick, visits_a_day: int, days: int, seed: int, seen: Web | None = None
) -> float:
    """Run a crawl; return the share of all interest that its visits are in time for.

    `seen` is the web as the crawl takes it for.
    """
    random = np.random.default_rng(seed)
    zeros = np.zeros(web.rate.size)
    crawl = Crawl(zeros.copy(), zeros.copy(), np.full(web.rate.size, np.nan))
    found = 0.0
    for step in range(1, visits_a_day * days + 1):
        crawl.now = step / visits_a_day
        hub = pick(seen or web, crawl)
        elapsed = float(crawl.elapsed[hub])
        links = random.poisson(web.rate[hub] * elapsed)
        # links of a Poisson process come at uniform times: what is left of each on average is
        # the integral of 1 - Phi over the time elapsed, by parts, divided by that time
        mu, sigma = web.mu[hub], web.sigma[hub]
        rest = 1.0 - lognormal_cumulative(elapsed, mu, sigma)
        left = rest + instant_index(elapsed, 1.0, mu, sigma) / elapsed
        found += float(left * web.worth[hub]) * links
        if not np.isnan(crawl.last[hub]):
            crawl.links[hub] += links
            crawl.days[hub] += elapsed
            if crawl.gaps:
                crawl.gaps[hub].append((elapsed, links > 0))
        crawl.last[hub], crawl.visited = crawl.now, hub
    there = float(web.rate @ web.worth) * days
    return found / there


def in_one_list() -> Pick:
    """M for all hubs, with the mean of them all, and a floor of exploration: what a crawl does."""
    return exploring(by_index(shrunk(prior_of_list)), EXPLORE)


def in_tiers() -> Pick:
    """M for all hubs, with the prior of their tier, and a floor of exploration."""
    return exploring(by_index(shrunk(prior_of_tier)), EXPLORE)


def by_value() -> Pick:
    """M for the hubs that are listed, and p for the others, with a floor of exploration."""
    return exploring(ByValue(), EXPLORE)


def contenders() -> dict[str, Callable[[], Pick]]:
    """What is compared; each is made anew for each web."""
    tiers = {
        f"two fixed tiers, {share:.0%} of the visits": (lambda share=share: two_tiers(share))
        for share in TIER_SHARES
    }
    return {
        "M, rates known": lambda: by_index(known),
        "p, rates known": lambda: by_known_p,
        **tiers,
        "uniform": lambda: uniform,
        "M, one global prior": lambda: by_index(shrunk(one_prior)),
        "p, one global prior": ByP,
        "M, prior of the tier": lambda: by_index(shrunk(prior_of_tier)),
        "M, prior of the tier, exploring": in_tiers,
        "M, all hubs in one list, exploring": in_one_list,
        "M for what is listed, p for the rest": by_value,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--webs", type=int, default=5)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--visits", type=int, default=100)
    parser.add_argument("--others", type=int, help="compare on so many webs of all kinds")
    options = parser.parse_args()
    if options.others:
        compare(options.others, options.days)
        return
    webs = [make_web(np.random.default_rng(seed), Kind()) for seed in range(options.webs)]
    print("| | kept | least | most |\n|---|---:|---:|---:|")
    for name, make in contenders().items():
        shares = [
            kept(web, make(), options.visits, options.days, seed) for seed, web in enumerate(webs)
        ]
        print(f"| {name} | {np.mean(shares):.3f} | {min(shares):.3f} | {max(shares):.3f} |")


def compare(webs: int, days: int) -> None:
    """Compare with p on webs of all kinds, and say how often p is ahead."""
    forms = {
        "M, one global prior": lambda: by_index(shrunk(one_prior)),
        "M, prior of the tier, exploring": in_tiers,
        "M, all hubs in one list, exploring": in_one_list,
        "M for what is listed, p for the rest": by_value,
    }
    gains: dict[str, list[float]] = {name: [] for name in forms}
    for seed in range(webs):
        random = np.random.default_rng(1000 + seed)
        kind = any_kind(random)
        web, visits = make_web(random, kind), int(random.integers(20, 300))
        seen = misjudged(web, random)
        by_p = kept(web, ByP(), visits, days, seed)
        for name, make in forms.items():
            gains[name].append(kept(web, make(), visits, days, seed, seen) - by_p)
    print(
        f"| of {webs} webs | kept more than by p | at least | less than p on |\n|---|---:|---:|---:|"
    )
    for name, more in gains.items():
        less = sum(gain < 0 for gain in more)
        print(f"| {name} | {np.mean(more):.3f} | {min(more):.3f} | {less} |")


if __name__ == "__main__":
    main()
