"""Users' demands on pages: weights, and the least and most days between visits.

HACS_WEIGHTS and HACS_EVERY name pages by URL patterns; a request's meta may state demands on its page.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from logging import Logger
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.utils.arrays import BoolArray, FloatArray
from hacs_crawler.utils.settings import NotAllowedError, parsed_json
from hacs_crawler.utils.text import counted

T = TypeVar("T")

# The key of a request's meta for the weight of its page.
WEIGHT_KEY: Final = "hacs_weight"
# The key of a request's meta for the interval of its page.
EVERY_KEY: Final = "hacs_every"
# The least score of an overdue page: above all scores of policies, but finite, as JSON requires.
OVERDUE: Final = 1e12
_Days = Annotated[float, Meta(ge=0, le=1e300)] | None


class Interval(NamedTuple):
    """How many days lie between two visits of a page, at least and at most."""

    least_days: float
    most_days: float


Weights = tuple[tuple[re.Pattern[str], float], ...]
Intervals = tuple[tuple[re.Pattern[str], Interval], ...]


class Demands(NamedTuple):
    """The demands on some pages: arrays with one element a page."""

    weight: FloatArray
    least_days: FloatArray
    most_days: FloatArray

    def at(self, places: NDArray[Any]) -> Demands:
        """Return the demands of the pages at some places."""
        return Demands(*(column[places] for column in self))


def nothing_asked(pages: int) -> Demands:
    """Return the defaults, for pages without demands: weight 1, and intervals of 0 to infinite days."""
    return Demands(np.ones(pages), np.zeros(pages), np.full(pages, math.inf))


class Demanded(NamedTuple):
    """The sum of the demands on many pages.

    `overdue` is the number of pages whose longest interval has passed, `visits_a_day` the number of
    visits a day that keeps all longest intervals, `shortest_days` the shortest of them. `matched` are
    the patterns that matched a page.
    """

    overdue: int = 0
    visits_a_day: float = 0.0
    shortest_days: float = math.inf
    matched: frozenset[str] = frozenset()

    def plus(self, other: Demanded) -> Demanded:
        """Return the sum with the demands on other pages."""
        return Demanded(
            self.overdue + other.overdue,
            self.visits_a_day + other.visits_a_day,
            min(self.shortest_days, other.shortest_days),
            self.matched | other.matched,
        )

    def without(self, overdue: int) -> Demanded:
        """Return the demands after that many overdue pages were chosen."""
        return self._replace(overdue=self.overdue - overdue)

    def log(self, logger: Logger, chosen: int, budget: int | None) -> None:
        """Log the overdue pages, those `chosen` and those left, and the cost of the intervals, if any.

        `budget` is the number of visits per run, None if unlimited or not known.
        """
        if not self.visits_a_day:
            return
        now, often = "no page is overdue", ""
        if overdue := chosen + self.overdue:
            now = f"{counted(overdue, 'page is', 'pages are')} overdue, and this run visits {chosen:,}"
        if budget is not None:
            days = min(budget / self.visits_a_day, self.shortest_days)
            often = (
                f": HACS_BUDGET = {budget} keeps them if a run comes at least every {days:.2g} days"
            )
        logger.log(
            logging.WARNING if self.overdue else logging.INFO,
            "Intervals: %s. The longest ones take %.3g visits a day%s",
            now,
            self.visits_a_day,
            often,
        )


NOTHING: Final = Demanded()


def is_overdue(score: FloatArray) -> BoolArray:
    """Return which pages are overdue, by their scores (see `choice.scored`)."""
    return score >= OVERDUE


def demanded_of(most_days: FloatArray, score: FloatArray, may_be_visited: BoolArray) -> Demanded:
    """Return the sum of the demands on pages; pages that may not be visited are not overdue."""
    overdue = int(np.count_nonzero(is_overdue(score) & may_be_visited))
    shortest_days = float(most_days.min(initial=math.inf))
    return Demanded(overdue, float((1.0 / most_days).sum()), shortest_days)


def weight_of(given: Any) -> float:
    """Return a weight; raises NotAllowedError."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < math.inf:
        raise NotAllowedError("a number above 0")
    return float(given)


def interval_of(given: Any) -> Interval:
    """Return the interval for a pair of days (None: no bound); raises NotAllowedError."""
    what = "the least and the most days between two visits, such as [1, 30], or None for no bound"
    try:
        least, most = msgspec.convert(given, tuple[_Days, _Days])
    except msgspec.ValidationError as error:
        raise NotAllowedError(what) from error
    interval = Interval(0.0 if least is None else least, math.inf if most is None else most)
    if not interval.least_days <= interval.most_days or not interval.most_days > 0:
        raise NotAllowedError(what)
    return interval


def weights_of(given: Any) -> Weights:
    """Return the value of HACS_WEIGHTS, an object or its JSON; raises NotAllowedError."""
    return _by_pattern(given, weight_of, "weights above 0", "3")


def intervals_of(given: Any) -> Intervals:
    """Return the value of HACS_EVERY, an object or its JSON; raises NotAllowedError."""
    return _by_pattern(given, interval_of, "the least and the most days", "[1, 30]")


def _by_pattern(
    given: Any, value_of: Callable[[Any], T], what: str, example: str
) -> tuple[tuple[re.Pattern[str], T], ...]:
    given = parsed_json(given) or {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) and key for key in given):
        raise NotAllowedError(f'patterns for URLs with {what}, such as {{"/news/": {example}}}')
    by_pattern = []
    for pattern, value in given.items():
        try:
            by_pattern.append((re.compile(pattern), value_of(value)))
        except re.error as error:
            raise NotAllowedError(f"regular expressions ({pattern!r}: {error})") from error
        except NotAllowedError as error:
            raise NotAllowedError(f"for {pattern!r} {error}") from error
    return tuple(by_pattern)


def demands_of(
    urls: Sequence[str], weights: Weights, every: Intervals, metas: Sequence[Mapping[str, Any]] = ()
) -> tuple[Demands, frozenset[str]]:
    """Return the demands on pages with these URLs, and the patterns that matched any.

    The first pattern that matches a URL counts; a request's meta takes precedence. Raises
    ConfigError if a request's meta has an invalid demand.
    """
    matched: set[str] = set()
    demands = nothing_asked(len(urls))
    weight, interval = demands.weight, np.stack(demands[1:])
    for number, url in enumerate(urls):
        if (heavy := _first(weights, url, matched)) is not None:
            weight[number] = heavy
        if (spaced := _first(every, url, matched)) is not None:
            interval[:, number] = spaced
    for number, meta in enumerate(metas):
        if WEIGHT_KEY in meta:
            weight[number] = _asked(meta, WEIGHT_KEY, weight_of, urls[number])
        if EVERY_KEY in meta:
            interval[:, number] = _asked(meta, EVERY_KEY, interval_of, urls[number])
    return Demands(weight, *interval), frozenset(matched)


def _first(rules: Sequence[tuple[re.Pattern[str], T]], url: str, matched: set[str]) -> T | None:
    for pattern, value in rules:
        if pattern.search(url):
            matched.add(pattern.pattern)
            return value
    return None


def _asked(meta: Mapping[str, Any], key: str, read: Callable[[Any], T], url: str) -> T:
    try:
        return read(meta[key])
    except NotAllowedError as error:
        raise ConfigError(f"meta[{key!r}] = {meta[key]!r} of {url}: must be {error}") from error
