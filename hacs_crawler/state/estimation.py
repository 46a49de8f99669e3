"""How rates are estimated from what is kept of the pages."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import compress
from math import isclose
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from hacs_crawler.model import (
    CHURNING_PAGES,
    DEFAULT_BURSTS,
    DEFAULT_PRIOR,
    ESTIMATORS,
    USUAL_SIBLING_CORRELATION,
    Bursts,
    LinkLifetime,
    LinkLifetimes,
    LogNormalPrior,
    Rates,
    Visits,
    estimate,
    known_rates,
)
from hacs_crawler.state.page import Page, Updates
from hacs_crawler.utils.settings import Setting
from hacs_crawler.utils.times import DAY

_SAME_RATE = 1e-9
"""Up to which relative difference a rate is the same: sums of other batches are rounded otherwise."""
_SAME_SINGLE = 1e-5
"""The same of what is kept in four bytes."""


@dataclass(frozen=True, slots=True)
class Estimation:
    """How rates are estimated: estimator name, fading scale in days, and the priors of bayes and bursts.

    `updates` says what counts as one, as HACS_UPDATES. `sibling_correlation` is how often pages of a
    site are updated together. Ranking needs it, rates do not depend on it: two that differ in nothing
    else are equal.
    """

    estimator: Annotated[
        str,
        Setting(
            "HACS_ESTIMATOR",
            """
            How λ and p are [estimated](estimation.md). When this, [HACS_FADE_DAYS](#hacs_fade_days)
            or [HACS_UPDATES](#hacs_updates) has changed, the next crawl or [`hacs
            estimate`](commands.md#hacs-estimate) estimates all pages again.
            """,
            kind=Literal[tuple(ESTIMATORS)],
        ),
    ] = "bursts"
    fade_days: Annotated[
        float,
        Meta(gt=0),
        Setting(
            "HACS_FADE_DAYS",
            """
            How slowly old visits lose weight, in days. It is the scale H of the weight exp(-age/H)
            that a gap between visits has in `bursts` and `bayes`. A smaller one follows pages whose
            habits change, a larger one uses more of a thin history, and with `inf` all visits count
            alike.
            """,
        ),
    ] = 365.0
    prior: LogNormalPrior = DEFAULT_PRIOR
    churning_pages: float = CHURNING_PAGES
    bursts: Bursts = DEFAULT_BURSTS
    updates: Updates = "page"
    sibling_correlation: float = field(default=USUAL_SIBLING_CORRELATION, compare=False)

    def note(self) -> dict[str, Any]:
        """Return what rates are estimated with, as JSON."""
        return {
            "estimator": self.estimator,
            "fade_days": self.fade_days,
            "prior": asdict(self.prior),
            "churning_pages": self.churning_pages,
            "bursts": [self.bursts.gain, *self.bursts.shares] if self.has_bursts else None,
            "updates": self.updates,
        }

    @property
    def has_posterior(self) -> bool:
        """Whether rates come from a posterior, which has quantiles."""
        return ESTIMATORS[self.estimator].has_posterior

    @property
    def has_bursts(self) -> bool:
        """Whether a page may go on by two rates."""
        return self.estimator == "bursts"

    def expected(self) -> Rates:
        """Return what is expected of an unknown page."""
        is_known = not ESTIMATORS[self.estimator].uses_prior
        return _expected("bayes" if is_known else self.estimator, self.prior, self.bursts, is_known)

    def rates(self, pages: Sequence[Page]) -> Rates:
        """Return what is estimated of each page."""
        found = histories(pages, self.updates)
        # no other estimator asks for them
        became = _lifetimes_of_gaps(pages, found[2]) if self.has_posterior else None
        visits = Visits(*found, self.fade_days, baselines_of(pages), became)
        return estimate(self.estimator, visits, self.prior, self.churning_pages, self.bursts)

    def churning(self, pages: Sequence[Page]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return how likely each page churns, as `rates` does: 0 where no visit brought anything."""
        may_churn = [_has_new_marks(page) or bool(page.digests) for page in pages]
        found = np.zeros(len(pages))
        if any(may_churn):
            found[may_churn] = self.rates([*compress(pages, may_churn)]).churning
        return found

    def estimate(self, pages: Sequence[Page]) -> None:
        """Estimate what is kept of pages, in place."""
        rates = self.rates(pages)
        columns = (getattr(rates, name).tolist() for name in Rates.__slots__)
        for page, *estimated in zip(pages, *columns, strict=True):
            page.rate, page.share, page.fast, page.slow, page.churn, page.churning = estimated

    def kept_rates(self, page: Page) -> Rates:
        """Return what is kept of the page."""
        kept = (page.rate, page.share, page.fast, page.slow, page.churn, page.churning)
        return Rates(*np.array(kept)[:, None])

    def rate_per_day(self, page: Page) -> float:
        """Return the estimated rate of one page, in 1/day."""
        return float(self.rates([page]).rate_per_day[0])


def is_same_estimate(page: Page, other: Page | None) -> bool:
    """Whether the same was estimated of both pages, but for rounding."""
    return (
        other is not None
        and isclose(page.rate, other.rate, rel_tol=_SAME_RATE)
        and all(
            isclose(getattr(page, name), getattr(other, name), rel_tol=_SAME_SINGLE)
            for name in ("share", "fast", "slow")
        )
    )


@lru_cache(maxsize=16)
def _expected(estimator: str, prior: LogNormalPrior, bursts: Bursts, is_known: bool) -> Rates:
    nobody = Visits(np.zeros(0), np.zeros(0, np.bool_), np.zeros(2, np.int64))
    rates = estimate(estimator, nobody, prior, bursts=bursts)
    return known_rates(rates.rate_per_day) if is_known else rates


def histories(
    pages: Sequence[Page], count: Updates = "page"
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.float64]],
    np.ndarray[tuple[int], np.dtype[np.bool_]],
    np.ndarray[tuple[int], np.dtype[np.int64]],
]:
    """Return the pages' visit times in days, whether each found an update, and offsets, flat."""
    visits, offsets = _joined([page.visits for page in pages])
    updates, update_offsets = _joined([page.updates_of(count) for page in pages])
    updated = _first_from(visits, offsets, updates, update_offsets)
    updated[offsets[:-1][offsets[1:] > offsets[:-1]]] = False
    return visits / DAY, updated, offsets


def lifetimes(pages: Sequence[Page]) -> LinkLifetimes:
    """Return of each visit, flat as in `histories`, what became of its new links.

    Of other marks, such as a price or a text, those that two visits in a row showed are as good as
    lasting, and of those that were gone at once nothing is known: the next one takes their place anyway,
    whoever brought it.
    """
    visits, offsets = _joined([page.visits for page in pages])
    found = np.zeros(len(visits), np.uint8)
    runs, run_offsets = _joined([page.runs for page in pages])
    first, links = runs[::2], runs[1::2].astype(np.int64)
    if not len(first):
        return found
    run_offsets //= 2
    last, link_offsets = _joined([page.last_seen for page in pages])
    # not to be split by 0 links, and a page without links has no run
    latest_of_run = np.maximum.reduceat(last, np.cumsum(links) - links)
    has_links = np.flatnonzero(np.diff(link_offsets))
    latest = np.zeros(len(pages), np.uint32)
    latest[has_links] = np.maximum.reduceat(last, link_offsets[:-1][has_links])
    latest_of_page = np.repeat(latest, np.diff(run_offsets))
    is_known = latest_of_page > first
    # links taken by other rules are not seen again, whatever became of them
    last_baseline = [one[-1] if one else 0 for one in (page.baselines for page in pages)]
    is_known &= first >= np.repeat(np.array(last_baseline, np.uint32), np.diff(run_offsets))
    of_runs = np.select(
        [~is_known, latest_of_run == latest_of_page, latest_of_run > first],
        [LinkLifetime.UNKNOWN, LinkLifetime.LASTING, LinkLifetime.PASSING],
        LinkLifetime.FLEETING,
    )
    has_spells = np.repeat([page.keeps_spells for page in pages], np.diff(run_offsets))
    in_spells = np.where(latest_of_run > first, LinkLifetime.LASTING, LinkLifetime.UNKNOWN)
    of_runs = np.where(has_spells & is_known, in_spells, of_runs)
    places = np.searchsorted(_of_pages(visits, offsets), _of_pages(first, run_offsets))
    is_kept = places < np.repeat(offsets[1:], np.diff(run_offsets))
    found[places[is_kept]] = of_runs[is_kept]
    return found


def _lifetimes_of_gaps(
    pages: Sequence[Page], offsets: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> LinkLifetimes | None:
    """Return `lifetimes`, computed only for pages with new marks, which are few; None without any."""
    has_new = np.array([*map(_has_new_marks, pages)], np.bool_)
    if not has_new.any():
        return None
    of_visits = np.repeat(has_new, np.diff(offsets))
    found = np.zeros(len(of_visits), np.uint8)
    found[of_visits] = lifetimes([*compress(pages, has_new)])
    return found


def _has_new_marks(page: Page) -> bool:
    """Whether any visit after the first showed marks that were new."""
    return page.runs[-2:-1] > page.visits[:1]


def baselines_of(pages: Sequence[Page]) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Return which of the visits that `histories` returns are baselines, None where none is."""
    baselines, baseline_offsets = _joined([page.baselines for page in pages])
    if not len(baselines):
        return None
    return _first_from(*_joined([page.visits for page in pages]), baselines, baseline_offsets)


def _first_from(
    visits: np.ndarray[tuple[int], np.dtype[np.uint32]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
    times: np.ndarray[tuple[int], np.dtype[np.uint32]],
    time_offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which visits are the first of their page from one of its times on, itself included."""
    is_first = np.zeros(len(visits), np.bool_)
    if not len(times):
        return is_first
    places = np.searchsorted(_of_pages(visits, offsets), _of_pages(times, time_offsets))
    is_kept = places < np.repeat(offsets[1:], np.diff(time_offsets))
    is_first[places[is_kept]] = True
    return is_first


def _joined(
    times: Sequence[array[int]],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint32]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return arrays of seconds one after the other, and where each begins; last where all end."""
    offsets = np.zeros(len(times) + 1, np.int64)
    np.cumsum([len(array_) for array_ in times], out=offsets[1:])
    return np.frombuffer(b"".join(times), np.uint32), offsets


def _of_pages(
    seconds: np.ndarray[tuple[int], np.dtype[np.uint32]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return numbers that are in the order of pages, and of time within a page."""
    pages = np.arange(len(offsets) - 1, dtype=np.int64)
    return (np.repeat(pages, np.diff(offsets)) << 32) + seconds
