"""How often live experiments are judged wrongly, and how soon rightly, by looking every day.

python benchmarks/experiment.py                                        # simulated sites, 10 minutes
python benchmarks/experiment.py /work/shared/data/scholarly-timelines  # and real histories, 1 more

Each experiment lasts a year and is looked at every day. Peers: the z test of two proportions, which
takes visits for independent, and the z test with the error between sites, both without paying for the
looks; and Student's test with the error between sites (history known), once, at the end.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hacs_crawler.archive.timelines import Timelines, parse_day, read_timelines
from hacs_crawler.experiment.comparison import (
    ALPHA,
    MIN_EFFECTIVE_SITES,
    MIN_FREEDOM,
    MIN_UPDATED_SITES,
)
from hacs_crawler.lab.simulation.baselines import Stateless
from hacs_crawler.lab.simulation.simulation import Scenario, World, simulate
from hacs_crawler.model import estimate, update_probability
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.statistics.clusters import (
    Rate,
    difference_of,
    effective_clusters,
    excess_of,
    rate_of,
)
from hacs_crawler.statistics.sequential import anytime_multiplier
from hacs_crawler.utils.times import DAY

DAYS = 365
AT_ONCE = 250
EVERY_DAYS = 10
MEDIAN_INTERVAL_DAYS, LOG_SD = 110.0, 1.5
UPDATED_TOGETHER = 0.6
CAPTURES, CAPTURE_DAYS = 24, 30.0
Z = 1.96
METHODS = ("ours", "ours, history known", "two proportions", "between sites", "once, at the end")
STARTS = tuple(f"{year}-01-01" for year in range(2021, 2025))
REAL_BUDGET = 10

Floats = NDArray[np.float64]
Sizes = Callable[[tuple[int, int], np.random.Generator], Floats]


@dataclass(slots=True)
class Arms:
    """Both arms of many experiments at one look, (experiments, sites); pages are those known before.

    `sizes` are what a site is taken to be as large as: its pages if None.
    """

    updates: tuple[Floats, Floats]
    visits: tuple[Floats, Floats]
    pages: tuple[Floats, Floats]
    excess: tuple[Floats, Floats]
    sizes: tuple[Floats, Floats] | None = None

    @property
    def due(self) -> tuple[Floats, Floats]:
        """Each arm's visits, divided among its sites by their sizes."""
        first, second = (
            visits.sum(-1, keepdims=True) * size / size.sum(-1, keepdims=True)
            for visits, size in zip(self.visits, self.sizes or self.pages, strict=True)
        )
        return first, second


@dataclass(slots=True)
class Alarms:
    """On which day, and after how many visits, each method first reported a difference; -1 never."""

    day: dict[str, list[Floats]] = field(default_factory=lambda: {name: [] for name in METHODS})
    visits: dict[str, list[Floats]] = field(default_factory=lambda: {name: [] for name in METHODS})

    def share(self, method: str) -> float:
        return float((np.concatenate(self.day[method]) >= 0).mean())

    def median(self, what: dict[str, list[Floats]], method: str) -> float:
        found = np.concatenate(self.day[method]) >= 0
        return float(np.median(np.concatenate(what[method])[found])) if found.any() else np.nan

    def add(self, looks: Iterator[Arms]) -> None:
        """Judge many experiments, looking every day."""
        first: dict[str, Floats] = {}
        visits: dict[str, Floats] = {}
        for day, arms in enumerate(looks):
            made = arms.visits[0].sum(-1) + arms.visits[1].sum(-1)
            for method, alarm in judged(arms, is_last=day == DAYS - 1).items():
                start = np.full(len(made), -1.0)
                new = alarm & (first.setdefault(method, start) < 0)
                first[method] = np.where(new, day + 1.0, first[method])
                visits[method] = np.where(new, made, visits.setdefault(method, start))
        for method in METHODS:
            self.day[method].append(first[method])
            self.visits[method].append(visits[method])


def judged(arms: Arms, *, is_last: bool) -> dict[str, NDArray[np.bool_]]:
    """Return by which method which experiments show a difference at this look."""
    updates = [part.sum(-1) for part in arms.updates]
    visits = [part.sum(-1) for part in arms.visits]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = (updates[0] + updates[1]) / (visits[0] + visits[1])
        gap = np.abs(updates[0] / visits[0] - updates[1] / visits[1])
        error = np.sqrt(scale * (1 - scale) * (1 / visits[0] + 1 / visits[1]))
        is_enough = np.logical_and.reduce(
            [np.count_nonzero(part, -1) >= MIN_UPDATED_SITES for part in arms.updates]
        )
        plain = difference_of(*rates(arms, has_history=False), scale)
        adjusted = difference_of(*rates(arms, has_history=True), scale)
        is_enough &= (plain.freedom >= MIN_FREEDOM) & (adjusted.freedom >= MIN_FREEDOM)
        deviations = np.abs(plain.value) / plain.error
        found = {
            "ours": is_enough & (deviations > anytime_multiplier(plain, ALPHA)),
            "ours, history known": is_enough
            & (np.abs(adjusted.value) / adjusted.error > anytime_multiplier(adjusted, ALPHA)),
            "two proportions": gap / error > Z,
            "between sites": is_enough & (deviations > Z),
        }
        once = np.abs(adjusted.value) / adjusted.error > stdtrit(adjusted.freedom, 1 - ALPHA / 2)
        return {**found, "once, at the end": once & is_last}


def rates(arms: Arms, *, has_history: bool) -> tuple[Rate, Rate]:
    due = arms.due
    is_spread = np.logical_and.reduce(
        [effective_clusters(part) >= MIN_EFFECTIVE_SITES for part in (*due, *arms.pages)]
    )
    first, second = (
        rate_of(
            arms.updates[arm],
            due[arm],
            arms.excess[arm] * is_spread[..., None] if has_history else None,
        )
        for arm in (0, 1)
    )
    return first, second


def alike(shape: tuple[int, int], random: np.random.Generator) -> Floats:
    """Return the pages of sites of ordinary size: log-normal, 8 in the mean."""
    pages: Floats = np.maximum(1.0, np.round(np.exp(random.normal(np.log(5.0), 0.9, shape))))
    return pages


def giants(number: int, size: int, others: int = 0) -> Sizes:
    """Return sizes of which so many are giants, anywhere; others have so many pages, or are `alike`."""

    def sizes(shape: tuple[int, int], random: np.random.Generator) -> Floats:
        pages = np.full(shape, float(others)) if others else alike(shape, random)
        is_giant = np.broadcast_to(np.arange(shape[1]) < number, shape)
        return np.where(random.permuted(is_giant, axis=1), float(size), pages)

    return sizes


def giants_in_one_arm(number: int, size: int, others: int) -> Sizes:
    """Return sizes of which the first are giants, all in the first arm."""

    def sizes(shape: tuple[int, int], _: np.random.Generator) -> Floats:
        return np.where(np.arange(shape[1]) < number, float(size), np.full(shape, float(others)))

    return sizes


def zipf(largest: int) -> Sizes:
    """Return sizes of which the k-th largest has largest / k pages."""

    def sizes(shape: tuple[int, int], random: np.random.Generator) -> Floats:
        pages = np.maximum(1.0, np.round(largest / np.arange(1, shape[1] + 1)))
        return random.permuted(np.broadcast_to(pages, shape), axis=1)

    return sizes


@dataclass(frozen=True, slots=True)
class Simulated:
    """Simulated sites: how many, of what sizes, and the share of a site's pages an update concerns."""

    sites: int
    sizes: Sizes = alike
    together: float = UPDATED_TOGETHER


UNEQUAL = {
    "200 sites, 1 of 200 pages": Simulated(200, giants(1, 200)),
    "200 sites, 3 of 200 pages": Simulated(200, giants(3, 200)),
    "200 sites, 10 of 200 pages": Simulated(200, giants(10, 200)),
    "100 sites, 2 of 100 pages": Simulated(100, giants(2, 100)),
    "200 sites, Zipf from 400 pages": Simulated(200, zipf(400)),
    "400 sites, 1 of 1,000 pages, others of 2": Simulated(400, giants(1, 1000, 2), 1.0),
    "200 sites, 3 of 200 pages, others of 2": Simulated(200, giants(3, 200, 2), 1.0),
    "200 sites, 5 of 500 pages, others of 2": Simulated(200, giants(5, 500, 2), 1.0),
    "200 sites, 10 of 200 pages, others of 1": Simulated(200, giants(10, 200, 1), 1.0),
    "200 sites, 2 of 300 in one arm, others of 2": Simulated(
        200, giants_in_one_arm(2, 300, 2), 1.0
    ),
    "200 sites, 3 of 200 in one arm, others of 2": Simulated(
        200, giants_in_one_arm(3, 200, 2), 1.0
    ),
    "200 sites, 5 of 200 in one arm, others of 2": Simulated(
        200, giants_in_one_arm(5, 200, 2), 1.0
    ),
}
"""In the last seven an update concerns all pages of its site."""


def simulated(
    experiments: int, world: Simulated, ratio: float, random: np.random.Generator
) -> Iterator[Arms]:
    """Yield the looks at experiments on sites that are visited page by page, every ten days.

    A site's updates are a Poisson process whose rate is log-normal between sites, and each concerns
    each of its pages with the same probability. In the second arm a visit finds an update so many times
    less often. Known of the time before are two years of monthly captures of one page a site.
    """
    sites, together = world.sites, world.together
    shape = (experiments, sites)
    rate = np.exp(random.normal(-np.log(MEDIAN_INTERVAL_DAYS), LOG_SD, shape))
    pages = world.sizes(shape, random)
    daily = random.multinomial(pages.astype(np.int64), np.full(EVERY_DAYS, 1.0 / EVERY_DAYS))
    excess = excess_of(pages, pages * captured_probability(rate, together, random))
    kept = np.where(np.arange(sites) < sites // 2, 1.0, 1.0 / ratio)
    daily_probability = -np.expm1(-rate).astype(np.float32)
    events = np.zeros((DAYS + EVERY_DAYS + 1, *shape), np.int16)
    for day in range(DAYS + EVERY_DAYS):
        happened = random.random(shape, np.float32) < daily_probability
        np.add(events[day], happened, out=events[day + 1])
    updates, visits = np.zeros(shape), np.zeros(shape)
    half = np.s_[:, : sites // 2], np.s_[:, sites // 2 :]
    for day in range(DAYS):
        today = daily[..., day % EVERY_DAYS]
        since = events[day + EVERY_DAYS + 1] - events[day + 1]
        places = np.nonzero((today > 0) & (since > 0))
        p = (1.0 - (1.0 - together) ** since[places]) * kept[places[1]]
        updates[places] += random.binomial(today[places], p)
        visits += today
        yield Arms(*(tuple(one[part] for part in half) for one in (updates, visits, pages, excess)))


def captured_probability(rate: Floats, together: float, random: np.random.Generator) -> Floats:
    """Return the update probability of a visit, estimated from monthly captures of one page."""
    changed = random.binomial(CAPTURES, -np.expm1(-together * rate * CAPTURE_DAYS))
    days = np.tile(np.arange(CAPTURES + 1) * CAPTURE_DAYS, CAPTURES + 1)
    gap, number = np.arange(CAPTURES + 1), np.arange(CAPTURES + 1)[:, None]
    updated = (gap > 0) & (gap <= number)
    offsets = np.arange(CAPTURES + 2) * (CAPTURES + 1)
    return update_probability(estimate("bayes", days, updated.ravel(), offsets), EVERY_DAYS)[
        changed
    ]


@dataclass(slots=True)
class Crawl:
    """What a policy's visits to real pages found: (days, sites), and the sites' excess."""

    updates: Floats
    visits: Floats


class Noted:
    """A policy of a simulation that notes what its visits found, by day and site."""

    def __init__(self, world: World, name: str, place: NDArray[np.int64], crawl: Crawl) -> None:
        self._policy = Stateless(POLICIES[name])
        self._place = place
        self._crawl = crawl
        self._start = world.scenario.start
        self.is_unbounded, self.uses_rate = self._policy.is_unbounded, self._policy.uses_rate
        self.score = self._policy.score

    def note(self, places: NDArray[np.int64], now: int, found: NDArray[np.int64]) -> None:
        self._policy.note(places, now, found)
        day = (now - self._start) // DAY
        np.add.at(self._crawl.visits[day], self._place[places], 1.0)
        np.add.at(self._crawl.updates[day], self._place[places], found > 0)


def crawled(
    timelines: Timelines, site_of: dict[str, str], start: str
) -> tuple[dict[str, Crawl], Floats, Floats]:
    """Return what each policy would have found from that day on, and what was known before."""
    begin = parse_day(start, "start")
    scenario = Scenario(timelines, begin, begin + DAYS * DAY, REAL_BUDGET, Estimation())
    places = scenario.places()
    names = [site_of[timelines.urls[place]] for place in places]
    sites, place = np.unique(names, return_inverse=True)
    crawls = {}
    for policy in ("hacs", "last-obs"):
        crawl = Crawl(np.zeros((DAYS, len(sites))), np.zeros((DAYS, len(sites))))
        simulate(scenario, policy, partial(Noted, name=policy, place=place, crawl=crawl))
        crawls[policy] = Crawl(np.cumsum(crawl.updates, 0), np.cumsum(crawl.visits, 0))
    expected = update_probability(known_rates(timelines, places, begin), EVERY_DAYS)
    pages = np.bincount(place).astype(np.float64)
    return crawls, pages, excess_of(pages, np.bincount(place, expected))


def known_rates(timelines: Timelines, places: NDArray[np.int64], begin: int) -> Floats:
    """Return the rates that the captures before a time tell, as the state would know them."""
    days, updated, sizes = [np.zeros(0)], [np.zeros(0, np.bool_)], [0]
    for place in places:
        captures, updates = timelines.captures.of(place), timelines.updates.of(place)
        seen = captures[captures < begin]
        seen = seen if len(seen) else timelines.first_seen[place : place + 1]
        days.append(seen / DAY)
        updated.append(np.diff(np.searchsorted(updates, seen, "right"), prepend=0) > 0)
        sizes.append(len(seen))
    return estimate(
        "bayes", np.concatenate(days), np.concatenate(updated), np.cumsum(sizes), fade_days=365.0
    )


def randomised(
    experiments: int,
    arms: tuple[Crawl, Crawl],
    pages: Floats,
    excess: Floats,
    random: np.random.Generator,
) -> Iterator[Arms]:
    """Yield the looks at experiments in which real sites were assigned to arms anew each time."""
    is_first = random.random((experiments, len(excess))) < 0.5
    masks = is_first.astype(np.float64), (~is_first).astype(np.float64)
    sizes = masks[0] * pages, masks[1] * pages
    known = masks[0] * excess, masks[1] * excess
    for day in range(DAYS):
        updates = tuple(mask * arm.updates[day] for mask, arm in zip(masks, arms, strict=True))
        visits = tuple(mask * arm.visits[day] for mask, arm in zip(masks, arms, strict=True))
        yield Arms(updates, visits, sizes, known)


def run(looks: Callable[[int], Iterator[Arms]], experiments: int) -> Alarms:
    alarms = Alarms()
    for start in range(0, experiments, AT_ONCE):
        alarms.add(looks(min(AT_ONCE, experiments - start)))
    return alarms


def print_shares(title: str, results: dict[str, Alarms]) -> None:
    print(f"\n{title}\n\n| | {' | '.join(METHODS)} |\n|---|{'---:|' * len(METHODS)}")
    for name, alarms in results.items():
        shares = " | ".join(f"{100 * alarms.share(method):.1f} %" for method in METHODS)
        print(f"| {name} | {shares} |", flush=True)


def print_times(results: dict[str, Alarms]) -> None:
    print("\nMedian day, and visits of both arms, at which those were found\n")
    print("| | ours | ours, history known | once, at the end |\n|---|---:|---:|---:|")
    for name, alarms in results.items():
        cells = [
            f"day {alarms.median(alarms.day, method):.0f}, "
            f"{alarms.median(alarms.visits, method):,.0f} visits"
            for method in (METHODS[0], METHODS[1], METHODS[4])
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def real(folder: Path, experiments: int, random: np.random.Generator) -> None:
    files = (folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    timelines = read_timelines(*files)
    rows = (line.split(",") for line in (folder / "pages.csv").read_text().splitlines()[1:])
    site_of = {row[0]: row[1] for row in rows}
    years = [crawled(timelines, site_of, start) for start in STARTS]
    pages, excess = (np.concatenate([year[place] for year in years]) for place in (1, 2))
    pooled = {
        policy: Crawl(
            *(
                np.concatenate([getattr(crawls[policy], name) for crawls, _, _ in years], axis=1)
                for name in ("updates", "visits")
            )
        )
        for policy in ("hacs", "last-obs")
    }
    for title, pair in (
        ("no difference, both arms last-obs", ("last-obs", "last-obs")),
        ("no difference, both arms hacs", ("hacs", "hacs")),
        ("hacs against last-obs", ("hacs", "last-obs")),
    ):
        results = {}
        for start, (crawls, sizes, known) in zip(STARTS, years, strict=True):
            arms = crawls[pair[0]], crawls[pair[1]]
            name = f"{len(known)} sites, from {start}"
            results[name] = run(
                lambda number, arms=arms, sizes=sizes, known=known: randomised(
                    number, arms, sizes, known, random
                ),
                experiments // len(STARTS),
            )
        arms = pooled[pair[0]], pooled[pair[1]]
        results[f"{len(excess)} sites, those of all years"] = run(
            lambda number, arms=arms: randomised(number, arms, pages, excess, random), experiments
        )
        print_shares(f"Real histories: {title}", results)
    print_times(results)
    first, second = (arm.updates[-1].sum() / arm.visits[-1].sum() for arm in arms)
    print(f"\nhacs {100 * first:.1f}, last-obs {100 * second:.1f} updates per 100 visits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--experiments", type=int, default=4_000)
    parser.add_argument("--sites", type=int, nargs="+", default=(40, 100, 400))
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    for title, ratio, experiments in (
        ("No difference: experiments in which one was reported", 1.0, arguments.experiments),
        ("A 1.3-fold difference: experiments in which it was", 1.3, arguments.experiments // 4),
    ):
        worlds = {f"{sites} sites": Simulated(sites) for sites in arguments.sites} | UNEQUAL
        results = {
            name: run(
                lambda number, world=world, ratio=ratio: simulated(number, world, ratio, random),
                experiments,
            )
            for name, world in worlds.items()
        }
        print_shares(f"{title}, of {experiments:,}", results)
    print_times(results)
    if arguments.folder is not None:
        real(arguments.folder, arguments.experiments // 2, random)


if __name__ == "__main__":
    main()
