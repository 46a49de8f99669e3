"""What a state learns of all its pages: priors of their rates, how many churn, sibling correlation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import log
from typing import Annotated, Final

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
from hacs_crawler.state.samples import sample_of_revisited
from hacs_crawler.state.siblings import read_sibling_correlation, refit_sibling_correlation
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
    refit_sibling_correlation(store, load, estimation.updates)
    loaded = load(sample_of_revisited(store, PAGES_TO_FIT)).values()
    sample = [page for page in loaded if page.visits]  # a damaged row may say otherwise
    churning = estimation.rates(sample).churning
    _keep_churning_pages(store, sample, churning, estimation)
    ordinary = [page for page, share in zip(sample, churning.tolist(), strict=True) if share < 0.5]
    gaps = gaps_between(
        *histories(ordinary, estimation.updates), estimation.fade_days, baselines_of(ordinary)
    )
    prior = fit_prior(gaps, DEFAULT_PRIOR)
    if estimation.has_bursts:
        _keep_bursts(store, ordinary, gaps, prior, estimation)
    before = estimation.prior
    moved = abs(log(prior.mean_rate / before.mean_rate)), abs(prior.log_sd - before.log_sd)
    if max(moved) <= SAME_PRIOR:
        return before
    store.write_meta(_PRIOR, asdict(prior))
    return prior


def _keep_churning_pages(
    store: Store, pages: Sequence[Page], churning: FloatArray, estimation: Estimation
) -> None:
    has_shown = np.array([len(page.runs) > 2 * _UPDATES_TO_TELL for page in pages], np.bool_)
    share = fit_churning_pages(churning[has_shown])
    if abs(log(share / estimation.churning_pages)) > _SAME_SHARE:
        store.write_meta(_CHURNING_PAGES, share)


def _keep_bursts(
    store: Store, pages: Sequence[Page], gaps: Gaps, prior: LogNormalPrior, estimation: Estimation
) -> None:
    last_visits = np.array([page.visits[-1] for page in pages], np.float64) / DAY
    bursts = fit_bursts(gaps, last_visits, estimation.fade_days, prior)
    if not bursts.is_like(estimation.bursts):
        store.write_meta(_BURSTS, asdict(bursts))
