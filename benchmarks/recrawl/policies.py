"""The policies that are compared. A further one is a function of arrays and a line in `POLICIES`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from crawls import Known, Visits, crawl

from hacs_crawler.lab.simulation.baselines import BASELINES, Stateless
from hacs_crawler.lab.simulation.simulation import Scenario, simulate
from hacs_crawler.ranking.policies import Candidates, Floats, Policy, last_obs

RECENT = 8
"""At how many of a page's last gaps Dang et al.'s rule looks back."""
SELDOM_PER_DAY = 0.002
"""What that rule expects of every page, so that none is given up."""

Play = Callable[[Scenario], Visits]
Function = Callable[[Candidates, Known], Floats]


def by(function: Function) -> Play:
    """Return how a function of the candidates and of all that visits told is played."""
    return lambda scenario: crawl(
        scenario,
        lambda _, known: Stateless(
            Policy("", lambda candidates: function(candidates, known), uses_rate=False)
        ),
    )


def simulated(name: str) -> Play:
    """Return how a baseline of `hacs simulate` is played, on LambdaCrawl's estimates of rates."""
    return lambda scenario: crawl(scenario, lambda web, _: BASELINES[name].make(web))


def shipped(name: str) -> Play:
    """Return how a policy of HACS is played: with production's estimator, state and ranking."""

    def play(scenario: Scenario) -> Visits:
        web = Visits(scenario)
        simulate(scenario, name, BASELINES[name].make, make_world=lambda _: web)
        return web

    return play


def recent_gains(candidates: Candidates, known: Known) -> Floats:
    """Score by the gains to be expected from a page's own recent ones and those of its site's others.

    After the "look back, look around" model of Dang et al., arXiv:2111.05062. They learn what the two
    weigh, from weekly crawls of all pages, and find related pages by their content, which is not known
    here. Learned from a policy's own visits, by least squares or as Poisson means, the weights found
    fewer updates than these fixed ones, which are the best of a few that were tried on these histories.
    """
    hits, watched = known.recent(RECENT)
    others = [np.bincount(known.site, of)[known.site] - of for of in (hits, watched)]
    own, related = (
        np.divide(top, low, out=np.zeros_like(top), where=low > 0)
        for top, low in ((hits, watched), others)
    )
    score: Floats = candidates.days_since_visit * (0.5 * own + 0.4 * related + SELDOM_PER_DAY)
    return score


POLICIES: dict[str, Play] = {
    "HACS": shipped("hacs"),
    "HACS (balanced)": shipped("balanced"),
    "Last-Obs": by(lambda candidates, _: last_obs(candidates)),
    "Nutch": simulated("nutch"),
    "StormCrawler": simulated("stormcrawler"),
    "LambdaCrawl": simulated("lambda-crawl"),  # Kolobov et al., NeurIPS 2019
    "Cho and Garcia-Molina": simulated("optimal-freshness"),  # ACM TODS 28(4), 2003
    "Dang et al.": by(recent_gains),
    "oracle": simulated("oracle"),
}
