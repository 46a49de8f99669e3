"""A crawl of known histories, day by day, by a policy that looks at arrays and needs no state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hacs_crawler.lab.simulation.simulation import Contender, Counts, Places, Scenario, World
from hacs_crawler.model.estimators import mle
from hacs_crawler.model.gaps import Gaps
from hacs_crawler.ranking.candidates import nobody
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.utils.arrays import offsets_of
from hacs_crawler.utils.times import DAY, MAX_SECOND

IMAGINARY_DAYS = 0.5
"""LambdaCrawl's smoothing: one gap of this length with a change and one without, of every page."""


class Visits(World):
    """The web of a scenario, which keeps whom was visited when."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        sites = np.array(scenario.timelines.sites)[scenario.places()]
        self.site = np.unique(sites, return_inverse=True)[1]
        self.pages: list[Places] = []
        self.times: list[int] = []

    def visit(self, pages: Places, now: int) -> Counts:
        """Visit pages, and keep that."""
        self.pages.append(pages)
        self.times.append(now)
        return super().visit(pages, now)


class Known:
    """What visits have told, those before the start too: arrays with one row a page.

    `gap_days` and `gap_hits` have in a row `gaps` gaps between visits, the newest last: their lengths,
    and whether the visit at their end found an update. `site` numbers the pages' sites from 0.
    """

    def __init__(self, web: Visits) -> None:
        pages = len(web.page_ids)
        self.page_ids, self.site = web.page_ids, web.site
        self.gaps = np.zeros(pages, np.int64)
        self.gap_days = np.zeros((pages, 64))
        self.gap_hits = np.zeros((pages, 64), np.bool_)
        self.last_visit = np.zeros(pages, np.int64)
        self.rate_per_day = np.zeros(pages)
        for sight in web.past:
            self._add(np.array([sight.page]), sight.at, np.array([sight.found]))
        self._estimate(np.arange(pages))

    def note(self, places: Places, now: int, found: Counts) -> None:
        """Learn what visits found."""
        self._add(places, now, found)
        self._estimate(places)

    def candidates(self, now: int, seed: int) -> Candidates:
        """Return what policies look at: ids, rates by LambdaCrawl's estimator, and days since visits."""
        return replace(
            nobody(),
            page_ids=self.page_ids,
            rate_per_day=self.rate_per_day,
            days_since_visit=(now - self.last_visit) / DAY,
            seed=seed,
        )

    def recent(self, most: int) -> tuple[Floats, Floats]:
        """Return each page's hits in its last `most` gaps, and how many days these are."""
        place = self.gaps[:, None] - 1 - np.arange(most)
        is_one, place = place >= 0, np.maximum(place, 0)
        days = np.where(is_one, np.take_along_axis(self.gap_days, place, 1), 0.0)
        hits = is_one & np.take_along_axis(self.gap_hits, place, 1)
        return np.count_nonzero(hits, axis=1).astype(np.float64), days.sum(axis=1)

    def _add(self, places: Places, now: int, found: Counts) -> None:
        is_gap = self.last_visit[places] > 0
        pages, hits = places[is_gap], found[is_gap] > 0
        if len(pages) and self.gaps[pages].max() + 1 >= self.gap_days.shape[1]:
            self.gap_days = np.pad(self.gap_days, ((0, 0), (0, self.gap_days.shape[1])))
            self.gap_hits = np.pad(self.gap_hits, ((0, 0), (0, self.gap_hits.shape[1])))
        self.gap_days[pages, self.gaps[pages]] = (now - self.last_visit[pages]) / DAY
        self.gap_hits[pages, self.gaps[pages]] = hits
        self.gaps[pages] += 1
        self.last_visit[places] = now

    def _estimate(self, places: Places) -> None:
        """Estimate by maximum likelihood with an imaginary gap of either kind: see `rate_per_day`.

        Kolobov et al. 2019, equation 10, and LearnChRates_IncomplObs of their LambdaCrawlExps.py; their
        equation is Cho and Garcia-Molina's of 2003 (HACS Eq. 5), so it serves both.
        """
        count = self.gaps[places]
        is_one = np.arange(self.gap_days.shape[1]) < count[:, None]
        days = np.pad(self.gap_days[places], ((0, 0), (2, 0)), constant_values=IMAGINARY_DAYS)
        hits = np.pad(self.gap_hits[places], ((0, 0), (2, 0)))
        hits[:, 0] = True
        chosen = np.pad(is_one, ((0, 0), (2, 0)), constant_values=True)
        flat = days[chosen]
        gaps = Gaps(flat, hits[chosen], np.ones(len(flat)), offsets_of(count + 2))
        self.rate_per_day[places] = mle(gaps)


def crawl(scenario: Scenario, make: Callable[[Visits, Known], Contender]) -> Visits:
    """Visit the pages of the highest scores, as many a day as the budget; ties are broken at random."""
    web = Visits(scenario)
    known = Known(web)
    contender = make(web, known)
    rng = np.random.default_rng(scenario.seed)
    for number, now in enumerate(scenario.days()):
        web.now = now
        scores = contender.score(known.candidates(now, (scenario.seed << 32) + number))
        order = np.lexsort((rng.random(len(scores)), -scores))
        places = order[: scenario.run_budget]
        found = web.visit(places, now)
        contender.note(places, now, found)
        known.note(places, now, found)
    return web


def outcome(web: Visits) -> Floats:
    """Return of each site its pages, hits, updates found, and days of delay and of staleness.

    They follow from the visits alone. An update is found by the first visit at or after it, and counts
    if the visits before the start did not show it. A page is stale from its first update not found.
    """
    scenario, updates = web.scenario, web.scenario.timelines.updates
    places = scenario.places()
    seen = np.zeros(len(places), np.int64)
    for sight in web.past:
        seen[sight.page] = sight.at
    page = np.repeat(np.arange(len(places)), np.diff(updates.offsets)[places])
    at = np.concatenate([updates.of(place) for place in places])
    counts = (at > seen[page]) & (at < scenario.end)
    page, at = page[counts], at[counts]
    visited = np.concatenate(web.pages)
    times = np.repeat(web.times, [len(pages) for pages in web.pages])
    order = np.lexsort((times, visited))
    visited, times = np.append(visited[order], -1), np.append(times[order], scenario.end)
    # pages and times in one number, that a sorted list of them can be searched
    keys = visited[:-1] * float(MAX_SECOND) + times[:-1]
    following = np.searchsorted(keys, page * float(MAX_SECOND) + at)
    is_found = visited[following] == page
    until = np.where(is_found, times[following], scenario.end)
    # an update that comes first of those that one visit finds, or none does
    is_first = (np.diff(page, prepend=-1) != 0) | (np.diff(until, prepend=-1) != 0)
    stale_days = np.where(is_first, until - np.maximum(at, scenario.start), 0) / DAY
    delay_days = np.where(is_found, until - at, 0) / DAY
    sums = (is_found & is_first, is_found, delay_days, stale_days)
    pages = np.bincount(web.site)
    by_site = [np.bincount(web.site[page], one, len(pages)) for one in sums]
    return np.stack([pages, *by_site], axis=1)
