"""What a state learns of all its pages: priors of their rates, how many churn, sibling correlation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import log
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta

from hacs_crawler.model import (
    DEFAULT_PRIOR,
    Bursts,
    Gaps,
    LogNormalPrior,
    fit_bursts,
    fit_churning_pages,
    fit_prior,
    gaps_between,
)
from hacs_crawler.state.estimation import Estimation, baselines_of, histories
from hacs_crawler.state.page import Page
from hacs_crawler.state.samples import sampled
from hacs_crawler.state.siblings import (
    NOTE as SIBLINGS_NOTE,
    read_sibling_correlation,
    refitted_sibling_correlation,
)
from hacs_crawler.state.store import Store, read_note
from hacs_crawler.utils.arrays import FloatArray
from hacs_crawler.utils.times import DAY

SAME_PRIOR: Final = 0.05
"""Up to which difference of log_sd, and relative one of the mean rate, a prior is the same."""
PAGES_TO_FIT: Final = 5_000
"""How many pages at most priors are fitted to: their error is far below their spread by then."""
_SAME_SHARE: Final = 0.3
"""Up to which difference of its logarithm the share of pages that churn is the same."""
_UPDATES_TO_TELL: Final = 2
"""From how many updates on a page tells whether it churns."""
_PRIOR, _BURSTS, _CHURNING_PAGES = "prior", "bursts", "churning_pages"
"""Under which keys the store keeps them."""
PRIOR_NOTES: Final = (_PRIOR, _BURSTS, _CHURNING_PAGES, SIBLINGS_NOTE)
"""The notes that `read_priors` reads."""
_Share = Annotated[float, Meta(gt=0, lt=1)]


def read_priors(store: Store, estimation: Estimation) -> Estimation:
    """Return an estimation with what the store keeps; raise StateError where that is damaged."""
    return replace(
        estimation,
        sibling_correlation=read_sibling_correlation(store),
        churning_pages=read_note(store, _CHURNING_PAGES, _Share) or estimation.churning_pages,
        prior=read_note(store, _PRIOR, LogNormalPrior) or estimation.prior,
        bursts=read_note(store, _BURSTS, Bursts) or estimation.bursts,
    )


def refit_priors(
    store: Store, load: Callable[[Sequence[int]], Mapping[int, Page]], estimation: Estimation
) -> LogNormalPrior:
    """Fit to samples of the store's own pages what `read_priors` reads, and keep it for the next run.

    Pages that churn are left out of the priors: their updates are not time's. What is nearly the same
    as what is kept does not take its place: every page would have to be estimated anew for next to
    nothing. Returns the prior that is kept.
    """
    revisited, siblings = sampled(store, PAGES_TO_FIT)
    pages = load(np.union1d(revisited, siblings).tolist())
    of_siblings = [pages[page_id] for page_id in siblings.tolist() if page_id in pages]
    found = (pages.get(page_id) for page_id in revisited.tolist())
    sample = [page for page in found if page and page.visits]  # a damaged row may say otherwise
    churning = estimation.churning(sample)
    notes = refitted_sibling_correlation(of_siblings, estimation.updates)
    notes |= _churning_pages(sample, churning, estimation)
    ordinary = [page for page, share in zip(sample, churning.tolist(), strict=True) if share < 0.5]
    gaps = gaps_between(
        *histories(ordinary, estimation.updates), estimation.fade_days, baselines_of(ordinary)
    )
    prior = fit_prior(gaps, DEFAULT_PRIOR)
    if estimation.has_bursts:
        notes |= _bursts(ordinary, gaps, prior, estimation)
    before = estimation.prior
    moved = abs(log(prior.mean_rate / before.mean_rate)), abs(prior.log_sd - before.log_sd)
    if max(moved) <= SAME_PRIOR:
        prior = before
    else:
        notes[_PRIOR] = asdict(prior)
    store.write_meta(notes)
    return prior


def _churning_pages(
    pages: Sequence[Page], churning: FloatArray, estimation: Estimation
) -> dict[str, float]:
    has_shown = np.array([len(page.runs) > 2 * _UPDATES_TO_TELL for page in pages], np.bool_)
    share = fit_churning_pages(churning[has_shown])
    moved = abs(log(share / estimation.churning_pages))
    return {_CHURNING_PAGES: share} if moved > _SAME_SHARE else {}


def _bursts(
    pages: Sequence[Page], gaps: Gaps, prior: LogNormalPrior, estimation: Estimation
) -> dict[str, Any]:
    last_visits = np.array([page.visits[-1] for page in pages], np.float64) / DAY
    bursts = fit_bursts(gaps, last_visits, estimation.fade_days, prior)
    return {} if bursts.is_like(estimation.bursts) else {_BURSTS: asdict(bursts)}
