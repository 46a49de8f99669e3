"""Change signals of a simulated web: drawn for its updates, and heard once a day, as by a crawl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.timelines import Timelines
from hacs_crawler.links import menu_of
from hacs_crawler.model import USUAL_SIGNALS, beliefs_of, fit_prior_of_signals, posterior
from hacs_crawler.ranking.signals import Signals
from hacs_crawler.state import (
    RECORD,
    Estimation,
    Ids,
    Reputations,
    Rows,
    joined_ids,
    open_likelihood,
    read_again,
    settled,
    signals_looked_for,
)
from hacs_crawler.utils.arrays import IndexArray
from hacs_crawler.utils.times import DAY

KIND: Final = "simulated"
# How often the evidence of signals on their sources is computed again, to save time.
RELEARN_DAYS: Final = 7
_NAMES: Final = ("r", "phi", "delay")


@dataclass(frozen=True, slots=True)
class SignalHabits:
    """How sites signal their updates, each with numbers of its own from these ranges, ends included.

    `recall` is the share of updates that are signalled, `false_per_day` how many false signals a page
    has a day, `delay_days` the mean of the exponential delay of a true one.
    """

    recall: tuple[float, float]
    false_per_day: tuple[float, float]
    delay_days: tuple[float, float]

    @classmethod
    def parse(cls, text: str) -> SignalHabits:
        """Read `r=0.3..0.9,phi=0.01,delay=0.5`; missing values are 0. Raises HacsError."""
        habits = dict.fromkeys(_NAMES, (0.0, 0.0))
        for part in text.split(","):
            name, _, value = part.partition("=")
            low, _, high = value.partition("..")
            try:
                ends = float(low), float(high or low)
            except ValueError:
                ends = (1.0, 0.0)
            most = 1.0 if name.strip() == "r" else 1000.0
            if name.strip() not in habits or not 0.0 <= ends[0] <= ends[1] <= most:
                raise HacsError(
                    f"--signals: {part!r}: must be r (0 to 1), phi (a page-day) and delay (days), "
                    "each a number or a range, such as r=0.9,phi=0..0.01,delay=0.5"
                )
            habits[name.strip()] = ends
        return cls(*(habits[name] for name in _NAMES))


class Listener:
    """Hears the signals of all pages of a simulated web, each site being a source of its own."""

    def __init__(
        self, habits: SignalHabits, timelines: Timelines, places: IndexArray, end: int, seed: int
    ) -> None:
        self._order = np.argsort(timelines.page_ids[places])
        in_order = places[self._order]
        self._page_ids = timelines.page_ids[in_order]
        menus = [menu_of(timelines.urls[index]) for index in in_order.tolist()]
        names, self._source = np.unique(menus, return_inverse=True)
        self._records = joined_ids(np.zeros(0, RECORD), self._page_ids)
        self._reputations = Reputations.empty(len(names))
        rng = np.random.default_rng([seed, 16])
        self._at, self._page = _drawn(habits, timelines, in_order, self._source, end, rng)
        self._heard = self._days = 0
        self._prior = USUAL_SIGNALS
        self._latest = np.zeros(len(in_order), np.int64)

    def listen(self, now: int, rows: Rows, estimation: Estimation) -> Sequence[Signals]:
        """Read all sources at second `now`, learn from the visits since the last time; return signals.

        `rows` are the ranking rows of the simulated pages.
        """
        rows = rows[self._order]
        until = int(np.searchsorted(self._at, now, side="right"))
        new = slice(self._heard, until)
        np.maximum.at(self._latest, self._page[new], self._at[new])
        self._heard = until
        records, gaps = settled(self._records, rows, estimation)
        self._reputations.add_gaps(self._source[gaps.places], gaps.log_likelihood())
        self._records = records = read_again(records, self._latest, now)
        if self._days % RELEARN_DAYS == 0:
            self._reputations.set_open(
                self._source,
                open_likelihood(records, rows, estimation),
                signals_looked_for(records, rows, estimation),
            )
            self._prior = fit_prior_of_signals(self._reputations.log_likelihood())
        self._days += 1
        weights = posterior(self._reputations.log_likelihood(), self._prior)
        return [Signals(KIND, records, self._source, beliefs_of(weights, self._prior))]


def _drawn(
    habits: SignalHabits,
    timelines: Timelines,
    places: IndexArray,
    source: IndexArray,
    end: int,
    rng: np.random.Generator,
) -> tuple[Ids, IndexArray]:
    """Return the seconds of all signals up to the end, ascending, and each one's page."""
    number = int(source.max()) + 1
    recall, false, delay = (
        rng.uniform(*ends, number)
        for ends in (habits.recall, habits.false_per_day, habits.delay_days)
    )
    at, page = [], []
    for number, (index, own) in enumerate(zip(places.tolist(), source.tolist(), strict=True)):
        updates = timelines.updates.of(index)
        is_signalled = rng.random(len(updates)) < recall[own]
        late = rng.exponential(delay[own] * DAY, len(updates))
        true = (updates + late)[is_signalled]
        first = int(timelines.first_seen[index])
        span = max(end - first, 0)
        wrong = first + span * rng.random(rng.poisson(false[own] * span / DAY))
        both = np.concatenate([true, wrong]).astype(np.int64)
        at.append(both[both < end])
        page.append(np.full(len(at[-1]), number))
    times, pages = np.concatenate(at), np.concatenate(page)
    order = np.argsort(times, kind="stable")
    return times[order], pages[order]
