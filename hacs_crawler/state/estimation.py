"""Estimation of rates from the stored pages."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import compress
from math import isclose
from typing import Annotated, Any, Final, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from hacs_crawler.model import (
    CHURNING_PAGES,
    DEFAULT_BURSTS,
    DEFAULT_PRIOR,
    ESTIMATORS,
    ONE_RATE,
    USUAL_SIBLING_CORRELATION,
    WITH_POSTERIOR,
    Bursts,
    LinkLifetime,
    LinkLifetimes,
    LogNormalPrior,
    Rates,
    Visits,
    estimate,
    known_rates,
)
from hacs_crawler.state.judging import CHURN_SECONDS
from hacs_crawler.state.page import Counted, Page
from hacs_crawler.state.rule_changes import is_of_items
from hacs_crawler.state.spells import OPEN
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray, offsets_of
from hacs_crawler.utils.settings import Setting
from hacs_crawler.utils.times import DAY

_Seconds = NDArray[np.uint32]
# A gap that is longer than others by this factor is a break in crawling.
LONG_GAP: Final = 2
# A share of churning pages so small that no history outweighs it.
_NO_CHURN: Final = 1e-300
# Relative difference up to which rates count as equal: rounding depends on the batch.
_SAME_RATE = 1e-9
# The same for values kept in single precision.
_SAME_SINGLE = 1e-5


@dataclass(frozen=True, slots=True)
class Estimation:
    """How rates are estimated: estimator name, fading scale in days, and the priors of bayes and bursts.

    `updates` defines an update, as HACS_UPDATES does. `sibling_correlation` is how often pages of a
    site are updated together. Only ranking needs it, so it is ignored in comparisons.
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
            How slowly old visits lose weight, in days. It is H in the weight exp(-age/H) of a gap
            between visits, in `bursts` and `bayes`. A smaller value follows pages whose habits change, a
            larger one uses more of a short history, and with `inf` all visits count alike.
            """,
        ),
    ] = 365.0
    prior: LogNormalPrior = DEFAULT_PRIOR
    churning_pages: float = CHURNING_PAGES
    bursts: Bursts = DEFAULT_BURSTS
    updates: Counted = "default"
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
        return self.estimator in WITH_POSTERIOR

    @property
    def has_bursts(self) -> bool:
        """Whether pages may alternate between two rates."""
        return self.estimator == "bursts"

    def expected(self) -> Rates:
        """Return the expected rates of an unknown page."""
        is_known = self.estimator in ONE_RATE
        return _expected("bayes" if is_known else self.estimator, self.prior, self.bursts, is_known)

    def rates(self, pages: Sequence[Page]) -> Rates:
        """Return the estimated rates of each page.

        If the marks are the user's choice, every update is time's, unless a control visit differed.
        """
        pages = [page.sound for page in pages]
        is_trusted = np.array([page.is_chosen and not _is_measured(page) for page in pages], bool)
        if is_trusted.all() or not is_trusted.any():
            share = _NO_CHURN if is_trusted.any() else self.churning_pages
            return self._rates(pages, share)
        parts = [
            self._rates([*compress(pages, mask)], share)
            for mask, share in ((is_trusted, _NO_CHURN), (~is_trusted, self.churning_pages))
        ]
        in_turn = [[getattr(part, name) for part in parts] for name in Rates.__slots__]
        # where each page is in these: first the trusted ones, in their order, then the others
        places = np.argsort(np.argsort(~is_trusted, kind="stable"))
        return Rates(*map(np.concatenate, in_turn)).of(places)

    def _rates(self, pages: Sequence[Page], churning_pages: float) -> Rates:
        if self.estimator not in ONE_RATE and all(len(page.visits) < 2 for page in pages):
            return self.expected().of(np.zeros(len(pages), np.int64))
        history = histories(pages)
        # no other estimator asks for them
        became = _lifetimes_of_gaps(pages, *history[1:]) if self.has_posterior else None
        visits = Visits(*history, self.fade_days, baselines_of(pages), became)
        return estimate(self.estimator, visits, self.prior, churning_pages, self.bursts)

    def churning(self, pages: Sequence[Page]) -> FloatArray:
        """Return how likely each sound page churns, as `rates` does: 0 if no visit brought anything."""
        may_churn = [_has_new_marks(page) or bool(page.digests) for page in pages]
        churning = np.zeros(len(pages))
        if any(may_churn):
            # bursts do not change it, and cost most
            alike = replace(self, estimator="bayes") if self.has_bursts else self
            churning[may_churn] = alike.rates([*compress(pages, may_churn)]).churning
        return churning

    def estimate(self, pages: Sequence[Page]) -> None:
        """Estimate the stored values of pages, in place."""
        for page in pages:
            page.count(self.updates)
        rates = self.rates(pages)
        rate, *others = (getattr(rates, name) for name in Rates.__slots__)
        # in single precision: rounding depends on the batch
        columns = [rate.tolist(), *(column.astype(np.float32).tolist() for column in others)]
        for page, *estimated in zip(pages, *columns, strict=True):
            page.rate, page.share, page.fast, page.slow, page.churn, page.churning = estimated

    def rate_per_day(self, page: Page) -> float:
        """Return the estimated rate of one page, in 1/day."""
        return float(self.rates([page]).rate_per_day[0])


def is_same_estimate(page: Page, other: Page | None) -> bool:
    """Whether both pages have the same estimates, except for rounding."""
    return (
        other is not None
        and isclose(page.rate, other.rate, rel_tol=_SAME_RATE)
        and page.updates == other.updates
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


def histories(pages: Sequence[Page]) -> tuple[FloatArray, BoolArray, IndexArray]:
    """Return visit times in days, whether each found an update, and offsets; for sound pages."""
    visits, offsets = _joined([page.visits for page in pages])
    updates, update_offsets = _joined([page.update_times for page in pages])
    updated = _first_since(visits, offsets, updates, update_offsets)
    updated[offsets[:-1][offsets[1:] > offsets[:-1]]] = False
    return visits / DAY, updated, offsets


def lifetimes(pages: Sequence[Page], updated: BoolArray | None = None) -> LinkLifetimes:
    """Return for each visit, flat as in `histories`, the lifetime of its new links.

    Other marks, such as a price or a text, are lasting if two visits in a row showed them. Otherwise
    their lifetime is unknown: the next value replaces them in any case, whether time or the request
    brought them.

    With `updated`, the visits that found an update (see `histories`), all links of a page are lasting if
    all its new links stayed until the next visit and no control visit found an update: pages with news
    every day look like that. Beside a gap `LONG_GAP` times longer than any in which new links stayed,
    others may be gone: after a break, a list of the latest news has replaced all, and soon does again.
    """
    visits, offsets = _joined([page.visits for page in pages])
    of_visits = np.zeros(len(visits), np.uint8)
    periods, period_offsets = _joined([page.spells.periods for page in pages])
    if not len(periods):
        return of_visits
    first, last, number = periods.reshape(-1, 3).T
    period_offsets //= 3
    numbers = np.diff(period_offsets)
    shown_at = [page.shown_at for page in pages]
    latest = np.array([times[-1] if times else 0 for times in shown_at], np.uint32)
    latest_of_page = np.repeat(latest, numbers)
    until = np.where(last == OPEN, latest_of_page, last)
    seen_again = _last_seen(pages, until, number)
    begins = np.flatnonzero(np.diff(_keys_of(first, period_offsets), prepend=-1))
    seen_again = np.maximum.reduceat(seen_again, begins)
    first, latest_of_page = first[begins], latest_of_page[begins]
    page_of = np.repeat(np.arange(len(pages)), numbers)[begins]
    is_known = latest_of_page > first
    # marks taken by other rules cannot be seen again
    last_baseline = [
        baselines[-1] if baselines else 0 for baselines in (page.baselines for page in pages)
    ]
    is_known &= first >= np.array(last_baseline, np.uint32)[page_of]
    of_runs = np.select(
        [~is_known, seen_again == latest_of_page, seen_again > first],
        [LinkLifetime.UNKNOWN, LinkLifetime.LASTING, LinkLifetime.PASSING],
        LinkLifetime.FLEETING,
    )
    is_chosen = np.array([page.is_chosen for page in pages], np.bool_)[page_of]
    in_spells = np.where(seen_again > first, LinkLifetime.LASTING, LinkLifetime.UNKNOWN)
    of_runs = np.where(is_chosen & is_known, in_spells, of_runs)
    keys = (page_of.astype(np.int64) << 32) + first
    places = np.searchsorted(_keys_of(visits, offsets), keys)
    is_kept = places < offsets[1:][page_of]
    of_visits[places[is_kept]] = of_runs[is_kept]
    if updated is not None:
        is_new = np.append(updated, False)[places] & (latest_of_page > first) & ~is_chosen
        is_lost = is_new & (np.minimum.reduceat(until, begins) == first)
        is_control = updated & (np.diff(visits, prepend=0) <= CHURN_SECONDS)
        keep = np.zeros(len(pages), np.bool_)
        if (baselines := baselines_of(pages)) is not None:
            # a visit by other rules does not show whether links are still there
            is_lost &= ~np.append(baselines, [True, True])[places + 1]
        # gaps[i] ends at visit i; what visits beside a page's own have is not used
        gaps = np.append(np.diff(visits.astype(np.int64), prepend=0), [0, 0])
        longest = np.zeros(len(pages), np.int64)
        np.maximum.at(longest, page_of, np.where(is_new & ~is_lost, gaps[places + 1], 0))
        is_late = np.maximum(gaps[places], gaps[places + 1]) >= LONG_GAP * longest[page_of]
        is_lost &= ~is_late | (longest[page_of] == 0)
        keep[page_of[is_new]] = True
        keep[page_of[is_lost]] = False
        keep[np.searchsorted(offsets, np.flatnonzero(is_control), "right") - 1] = False
        of_visits[np.repeat(keep, np.diff(offsets))] = LinkLifetime.LASTING
    return of_visits


def _last_seen(pages: Sequence[Page], last: _Seconds, number: _Seconds) -> _Seconds:
    """Return when the marks of each period were last seen; for links, later spells count too."""
    last = last.astype(np.uint32)
    start = 0
    for page in pages:
        end = start + len(page.spells.periods) // 3
        if not page.is_chosen and len(set(page.spells.marks)) < len(page.spells.marks):
            mine, counts = last[start:end], number[start:end].astype(np.int64)
            _, marks = np.unique(np.array(page.spells.marks), return_inverse=True)
            latest = np.zeros(len(page.spells.marks), np.uint32)
            np.maximum.at(latest, marks, np.repeat(mine, counts))
            last[start:end] = np.maximum.reduceat(latest[marks], np.cumsum(counts) - counts)
        start = end
    return last


def _lifetimes_of_gaps(
    pages: Sequence[Page], updated: BoolArray, offsets: IndexArray
) -> LinkLifetimes | None:
    """Return `lifetimes`, computed for the few pages with new marks only; None without such pages."""
    has_new = np.array([*map(_has_new_marks, pages)], np.bool_)
    if not has_new.any():
        return None
    of_visits = np.repeat(has_new, np.diff(offsets))
    of_gaps = np.zeros(len(of_visits), np.uint8)
    of_gaps[of_visits] = lifetimes([*compress(pages, has_new)], updated[of_visits])
    return of_gaps


def _is_measured(page: Page) -> bool:
    """Whether a control visit, or another visit as soon after the one before, found an update.

    Items have no control visits: two visits in quick succession come from two crawls.
    """
    if is_of_items(page.latest_rules):
        return False
    visits = page.visits
    places = (bisect_left(visits, at) for at in page.update_times)
    return any(
        0 < index < len(visits) and visits[index] - visits[index - 1] <= CHURN_SECONDS
        for index in places
    )


def _has_new_marks(page: Page) -> bool:
    """Whether any visit after the first showed new marks."""
    periods = page.spells.periods
    return bool(periods) and periods[-3] > page.visits[0]


def baselines_of(pages: Sequence[Page]) -> BoolArray | None:
    """Return which visits are baselines, in the order of `histories`; None without baselines."""
    baselines, baseline_offsets = _joined([page.baselines for page in pages])
    if not len(baselines):
        return None
    return _first_since(*_joined([page.visits for page in pages]), baselines, baseline_offsets)


def _first_since(
    visits: _Seconds, offsets: IndexArray, times: _Seconds, time_offsets: IndexArray
) -> BoolArray:
    """Return which visits are the first of their page at or after any of its times."""
    is_first = np.zeros(len(visits), np.bool_)
    if not len(times):
        return is_first
    places = np.searchsorted(_keys_of(visits, offsets), _keys_of(times, time_offsets))
    is_kept = places < np.repeat(offsets[1:], np.diff(time_offsets))
    is_first[places[is_kept]] = True
    return is_first


def _joined(times: Sequence[array[int]]) -> tuple[_Seconds, IndexArray]:
    """Return concatenated arrays of seconds, and their offsets (one more than there are arrays)."""
    offsets = offsets_of(np.array([*map(len, times)], np.int64))
    return np.frombuffer(b"".join(times), np.uint32), offsets


def _keys_of(seconds: _Seconds, offsets: IndexArray) -> IndexArray:
    """Return keys that sort by page, then by time."""
    pages = np.arange(len(offsets) - 1, dtype=np.int64)
    return (np.repeat(pages, np.diff(offsets)) << 32) + seconds
