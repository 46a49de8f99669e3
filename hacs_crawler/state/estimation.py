"""How rates are estimated from what is kept of the pages."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from hacs_crawler.model import (
    DEFAULT_PRIOR,
    ESTIMATORS,
    USUAL_TOGETHERNESS,
    LogNormalPrior,
    estimate_with_spread,
)
from hacs_crawler.state.page import Page
from hacs_crawler.utils.times import DAY


@dataclass(frozen=True, slots=True)
class Estimation:
    """How rates are estimated: estimator name, fading scale in days, and the prior of bayes.

    `togetherness` is how often pages of a site are updated together. Ranking needs it, rates do not
    depend on it: two that differ in nothing else are equal.
    """

    estimator: str = "bayes"
    fade_days: float = 365.0
    prior: LogNormalPrior = DEFAULT_PRIOR
    togetherness: float = field(default=USUAL_TOGETHERNESS, compare=False)

    def note(self) -> dict[str, Any]:
        """Return what rates are estimated with, as JSON."""
        fields = asdict(self)
        del fields["togetherness"]
        return fields

    @property
    def has_posterior(self) -> bool:
        """Whether rates come from a posterior, which has quantiles."""
        return ESTIMATORS[self.estimator].has_posterior

    @property
    def prior_log_sd(self) -> float:
        """The spread of the rate of a page of which nothing is known; see `rates_with_spread`."""
        return self.prior.log_sd if ESTIMATORS[self.estimator].uses_prior else 0.0

    def rates_with_spread(
        self, pages: Sequence[Page]
    ) -> tuple[
        np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]
    ]:
        """Return each page's estimated rate in 1/day, and its log_sd (`model.estimate_with_spread`)."""
        visit_days, updated, offsets = histories(pages)
        return estimate_with_spread(
            self.estimator,
            visit_days,
            updated,
            offsets,
            prior=self.prior,
            fade_days=self.fade_days,
        )

    def rate_per_day(self, page: Page) -> float:
        """Return the estimated rate of one page, in 1/day."""
        return float(self.rates_with_spread([page])[0][0])


def histories(
    pages: Sequence[Page],
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.float64]],
    np.ndarray[tuple[int], np.dtype[np.bool_]],
    np.ndarray[tuple[int], np.dtype[np.int64]],
]:
    """Return the pages' visit times in days, whether each found an update, and offsets, flat."""
    visits, offsets = _joined([page.visits for page in pages])
    updates, update_offsets = _joined([page.update_times for page in pages])
    places = np.searchsorted(_of_pages(visits, offsets), _of_pages(updates, update_offsets))
    is_kept = places < np.repeat(offsets[1:], np.diff(update_offsets))
    updated = np.zeros(len(visits), np.bool_)
    updated[places[is_kept]] = True
    updated[offsets[:-1][np.diff(offsets) > 0]] = False
    return visits / DAY, updated, offsets


def _joined(
    times: Sequence[array[int]],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint32]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return arrays of seconds one after the other, and where each begins; last where all end."""
    offsets = np.zeros(len(times) + 1, np.int64)
    np.cumsum([len(one) for one in times], out=offsets[1:])
    return np.frombuffer(b"".join(times), np.uint32), offsets


def _of_pages(
    seconds: np.ndarray[tuple[int], np.dtype[np.uint32]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return numbers that are in the order of pages, and of time within a page."""
    pages = np.arange(len(offsets) - 1, dtype=np.int64)
    return (np.repeat(pages, np.diff(offsets)) << 32) + seconds
