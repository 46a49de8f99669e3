"""Under which reading of Singh, IJCAI 2007, do its Tables 2 and 3 come out?

python benchmarks/singh.py [--pages 30000]    # synthetic pages; about a minute
python benchmarks/singh.py --crawls           # simulated crawls of 300 of them; ten minutes

The paper says neither what the squared error is taken of, nor which form of the Weibull estimator its
tables use. For each combination: the average squared error
of each estimator, and in how many windows a form of Weibull has a smaller error than Duane, Cho and
Matloff, each and all at once (the paper: 91.5 %).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from hacs_crawler.lab.evaluation.localized import CONTESTANTS, Contestant, next_gaps
from hacs_crawler.lab.evaluation.power_law import PowerLaw
from hacs_crawler.lab.evaluation.update_points import synthetic_chunks
from hacs_crawler.lab.simulation.simulation import Scenario
from hacs_crawler.lab.simulation.tournament import compare, standings_parts
from hacs_crawler.lab.timelines import Events, Timelines, parse_day
from hacs_crawler.links import page_id_of
from hacs_crawler.model import LOCALIZED, MIN_POINTS, Windows, consistent_windows
from hacs_crawler.state import Estimation
from hacs_crawler.utils.arrays import FloatArray, IndexArray, page_of_value, sum_by_page
from hacs_crawler.utils.terminal import laid_out
from hacs_crawler.utils.times import DAY

FORMS = ("weibull", "weibull-shape", "weibull-ml")
OTHERS = ("duane", "cho", "matloff")
PLACES = {name: place for place, name in enumerate(CONTESTANTS)}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A contestant's laws of windows, and those at each update point of the windows."""

    windows: Windows
    window: IndexArray
    contestant: Contestant
    law: PowerLaw
    at_point: PowerLaw
    next_gap: FloatArray

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the means over the points of each window."""
        means: FloatArray = sum_by_page(values, self.windows.offsets) / self.windows.counts
        return means

    def gaps(self) -> FloatArray:
        """Return the days before each point since the point before, or the window's origin."""
        gaps: FloatArray = np.diff(self.windows.days, prepend=0.0)
        gaps[self.windows.offsets[:-1]] = self.windows.days[self.windows.offsets[:-1]]
        return gaps

    def number(self) -> FloatArray:
        """Return the number of each point within its window, from 1."""
        first = self.windows.offsets[self.window]
        return (1 + np.arange(len(self.window)) - first).astype(np.float64)


def _next(fitted: Fitted) -> FloatArray:
    rate = fitted.contestant.rate(fitted.law, fitted.windows.last_days)
    return (1.0 / rate - fitted.next_gap) ** 2


def _inside(fitted: Fitted) -> FloatArray:
    rate = fitted.contestant.rate(fitted.at_point, fitted.windows.days)
    return fitted.mean((1.0 / rate - fitted.gaps()) ** 2)


def _points(fitted: Fitted) -> FloatArray:
    law = fitted.at_point
    days = law.end_days * np.power(fitted.number() / law.count, 1.0 / law.shape)
    return fitted.mean((days - fitted.windows.days) ** 2)


READINGS: Final[Mapping[str, Callable[[Fitted], FloatArray]]] = MappingProxyType(
    {"next": _next, "inside": _inside, "points": _points}
)
"""What the squared error of a window may be, in days²; the paper's text is not exact.

next: (1/lambda(t_n) - days to the first update after the window)². inside: the mean over the window's
points of (1/lambda(t_i) - t_i + t_(i-1))². points: the mean of (t_i - the time up to which i are
expected)².
"""


def errors_of(windows, next_gap, error_of):
    """Return the squared error of each contestant in each window; shape (n_contestants, n_windows)."""
    window = page_of_value(windows.offsets)
    found = []
    for contestant in CONTESTANTS.values():
        law = contestant.law(windows)
        at_point = PowerLaw(law.count[window], law.shape[window], law.end_days[window])
        found.append(error_of(Fitted(windows, window, contestant, law, at_point, next_gap)))
    return np.array(found)


def cut(chunks, threshold):
    for points in chunks:
        yield consistent_windows(points.days, points.offsets, points.first_days, threshold)


def errors(windows, reading):
    """Squared errors of all windows; shape (n_contestants, n_windows)."""
    found = []
    for some in windows:
        chosen = some.counts >= MIN_POINTS
        if reading == "next":
            chosen &= ~some.is_last
        found.append(errors_of(some.of(chosen), next_gaps(some)[chosen], READINGS[reading]))
    return np.concatenate(found, axis=1)


def row(title, found):
    means = {name: found[place].mean() for name, place in PLACES.items()}
    cells = [title, *(f"{means[name]:.2f}" for name in (*FORMS, *OTHERS))]
    for form in FORMS:
        mine = found[PLACES[form]]
        beats = [mine < found[PLACES[other]] for other in OTHERS]
        cells.append(
            " / ".join(f"{100 * one.mean():.0f}" for one in (*beats, np.all(beats, axis=0)))
        )
    return "| " + " | ".join(cells) + " |"


def timelines(pages, stretch):
    """Made-up pages as timelines that begin in 2024, each a site of its own."""
    start = parse_day("2024-01-01", "start")
    points = next(synthetic_chunks(pages, 1, is_dated=True))
    urls = [f"http://s{number}.example.org/" for number in range(pages)]
    at = start + (points.days * stretch * DAY).astype(np.int64)
    none = np.zeros(0, np.int64)
    return Timelines(
        urls,
        np.array([page_id_of(url) for url in urls]),
        urls,
        np.ones(pages, bool),
        np.full(pages, start),
        Events(at, np.ones_like(at), points.offsets),
        Events(none, none, np.zeros(pages + 1, np.int64)),
    )


def crawls() -> None:
    names = ["hacs", *(f"hacs-{name}" for name in LOCALIZED)]
    start = parse_day("2024-01-02", "start")
    for stretch, last, budgets in ((1, "2024-07-18", (30, 100)), (10, "2029-06-20", (10, 30))):
        end = parse_day(last, "end")
        scenario = Scenario(timelines(300, stretch), start, end, 1, Estimation())
        print(f"\n300 pages, 32,327 updates in {200 * stretch} days\n")
        print(laid_out(*standings_parts(compare(scenario, names, budgets))), flush=True)
        if stretch == 1:
            faded = replace(scenario, estimation=Estimation(fade_days=30.0))
            print("\nHACS_FADE_DAYS 30\n")
            print(laid_out(*standings_parts(compare(faded, ["hacs"], budgets))), flush=True)


def readings(pages) -> None:
    wins = [f"{form} beats Duane / Cho / Matloff / all, %" for form in FORMS]
    for is_dated in (False, True):
        points = "last update of the day" if is_dated else "middle of the day"
        print(f"\nUpdate point: {points}\n")
        print("| reading | " + " | ".join((*FORMS, *OTHERS, *wins)) + " |")
        print("|---|" + "---:|" * (len(FORMS) + len(OTHERS) + len(wins)))
        chunks = list(synthetic_chunks(pages, 0, is_dated=is_dated))
        windows = list(cut(chunks, 3.0))
        for reading in READINGS:
            print(row(reading, errors(windows, reading)), flush=True)
    print("\nBy threshold: middle of the day, reading `inside`\n")
    print("| threshold, days | windows a page | " + " | ".join((*FORMS, *OTHERS, *wins)) + " |")
    print("|---|---:|" + "---:|" * (len(FORMS) + len(OTHERS) + len(wins)))
    chunks = list(synthetic_chunks(pages, 0))
    for threshold in (0.0, 1.0, 3.0, 10.0, 30.0):
        windows = list(cut(chunks, threshold))
        number = sum(map(len, windows)) / pages
        print(row(f"{threshold:g} | {number:.1f}", errors(windows, "inside")), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pages", type=int, default=30_000)
    parser.add_argument("--crawls", action="store_true")
    arguments = parser.parse_args()
    if arguments.crawls:
        crawls()
    else:
        readings(arguments.pages)


if __name__ == "__main__":
    main()
