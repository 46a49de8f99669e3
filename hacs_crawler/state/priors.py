"""What a state learns of all its pages: priors of their rates, how many churn, sibling correlation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import compress
from math import isclose, log
from typing import Annotated, Final

import numpy as np
from msgspec import Meta

from hacs_crawler.model import (
    CHURNING,
    Bursts,
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
from hacs_crawler.utils.times import DAY

SAME_PRIOR: Final = 0.05
"""Up to which difference of log_sd, and relative one of the mean rate, a prior is the same."""
PAGES_TO_FIT: Final = 5_000
"""How many pages at most priors are fitted to: their error is far below their spread by then."""
_SAME_SHARE: Final = 0.3
"""Up to which difference of its logarithm the share of pages that churn is the same."""
_AT_REST: Final = 0.005
"""Up to which difference another fit is not needed, and how often the sample is fitted at most."""
_MOST_FITS: Final = 6
_UPDATES_TO_TELL: Final = 2
"""From how many updates on a page tells whether it churns."""
_PRIOR, _BURSTS, _CHURNING_PAGES = "prior", "bursts", "churning_pages"
"""Under which keys the store keeps them."""
UNFITTED: Final = "visits unfitted"
"""Under which key the state counts the visits that crawls recorded since the priors were fitted."""
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

    What is nearly the same as what is kept does not take its place: pages would have to be estimated
    again for next to nothing. Returns the prior that is kept.
    """
    revisited, siblings = sampled(store, PAGES_TO_FIT)
    pages = load(np.union1d(revisited, siblings).tolist())
    of_siblings = [pages[page_id] for page_id in siblings.tolist() if page_id in pages]
    found = (pages.get(page_id) for page_id in revisited.tolist())
    sample = [page for page in found if page and page.visits]  # a damaged row may say otherwise
    fitted = _at_fixed_point(sample, estimation)
    notes = refitted_sibling_correlation(of_siblings) | {UNFITTED: 0}
    if abs(log(fitted.churning_pages / estimation.churning_pages)) > _SAME_SHARE:
        notes[_CHURNING_PAGES] = fitted.churning_pages
    if not fitted.bursts.is_like(estimation.bursts):
        notes[_BURSTS] = asdict(fitted.bursts)
    is_same = _is_same(fitted.prior, estimation.prior, SAME_PRIOR)
    if not is_same:
        notes[_PRIOR] = asdict(fitted.prior)
    store.write_meta(notes)
    return estimation.prior if is_same else fitted.prior


def _at_fixed_point(pages: Sequence[Page], estimation: Estimation) -> Estimation:
    """Return the estimation with priors fitted to pages until another fit would not move them.

    Pages that churn are left out of the priors of rates, as their updates are not time's; which do
    depends on these priors.
    """
    if not pages:
        return estimation
    has_shown = np.array([len(page.periods) > 3 * _UPDATES_TO_TELL for page in pages], np.bool_)
    fitted = estimation
    for _ in range(_MOST_FITS):
        churning = fitted.churning(pages)
        share = fit_churning_pages(churning[has_shown], fitted.churning_pages)
        ordinary = [*compress(pages, churning < CHURNING)]
        gaps = gaps_between(*histories(ordinary), estimation.fade_days, baselines_of(ordinary))
        before = fitted
        prior = fit_prior(gaps)
        fitted = replace(before, prior=prior, churning_pages=share)
        if _is_same(prior, before.prior, _AT_REST) and isclose(
            share, before.churning_pages, rel_tol=_AT_REST
        ):
            break
    if not estimation.has_bursts:
        return fitted
    last_visits = np.array([page.visits[-1] for page in ordinary], np.float64) / DAY
    bursts = fit_bursts(gaps, last_visits, estimation.fade_days, fitted.prior)
    return replace(fitted, bursts=bursts)


def _is_same(one: LogNormalPrior, other: LogNormalPrior, most: float) -> bool:
    moved = abs(log(one.mean_rate / other.mean_rate)), abs(one.log_sd - other.log_sd)
    return max(moved) <= most
