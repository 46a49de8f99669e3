"""What a state learns of all its pages: priors of their rates, how many churn, sibling correlation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import isclose, log
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta, Struct

from hacs_crawler.links import site_id
from hacs_crawler.model import (
    CHURNING,
    USUAL_SIBLING_CORRELATION,
    Bursts,
    LogNormalPrior,
    Visits,
    fit_bursts,
    fit_churning_pages,
    fit_prior,
    fit_sibling_correlation,
)
from hacs_crawler.state.estimation import Estimation, baselines_of, histories
from hacs_crawler.state.page import Page
from hacs_crawler.state.store import Ids, Store, read_note
from hacs_crawler.utils.times import DAY

# Priors count as equal if log_sd (absolute) and the mean rate (relative) differ by no more than this.
SAME_PRIOR: Final = 0.05
# Sample size for fitting priors: with this many pages the error is far below the spread.
PAGES_TO_FIT: Final = 5_000
# The same tolerance for the logarithm of the share of pages that churn.
_SAME_SHARE: Final = 0.3
# Fits are repeated until they differ by no more than this, at most `_MOST_FITS` times.
_CONVERGED: Final = 0.005
_MOST_FITS: Final = 6
# A page with at least this many updates is evidence on churn.
_UPDATES_TO_TELL: Final = 2
# Sample size for fitting the sibling correlation.
PAGES_TO_COMPARE: Final = 3_000
# Limit on the pages of one site in this sample, so that a few large sites do not fill it.
PAGES_OF_A_SITE: Final = 200
# Both samples are drawn from at most about this many rows.
ROWS_TO_READ: Final = 200_000
# The keys of the notes that hold the priors.
_PRIOR, _BURSTS, _CHURNING_PAGES, _SIBLINGS = "prior", "bursts", "churning_pages", "siblings"
# The key of the number of visits recorded since the priors were fitted.
UNFITTED: Final = "visits unfitted"
# The notes that `read_priors` reads.
PRIOR_NOTES: Final = (_PRIOR, _BURSTS, _CHURNING_PAGES, _SIBLINGS)
_Share = Annotated[float, Meta(gt=0, lt=1)]


class _Siblings(Struct):
    sibling_correlation: Annotated[float, Meta(ge=0, le=1)]


def read_priors(store: Store, estimation: Estimation) -> Estimation:
    """Return the estimation with the priors in the store; StateError if they are damaged."""
    siblings = read_note(store, _SIBLINGS, _Siblings) or _Siblings(USUAL_SIBLING_CORRELATION)
    return replace(
        estimation,
        sibling_correlation=siblings.sibling_correlation,
        churning_pages=read_note(store, _CHURNING_PAGES, _Share) or estimation.churning_pages,
        prior=read_note(store, _PRIOR, LogNormalPrior) or estimation.prior,
        bursts=read_note(store, _BURSTS, Bursts) or estimation.bursts,
    )


def refit_priors(
    store: Store, load: Callable[[Sequence[int]], Mapping[int, Page]], estimation: Estimation
) -> int:
    """Fit the priors to samples of the store's pages, write them to the store; return the pages' number.

    A prior that hardly differs from the stored one does not replace it, to avoid estimating all pages
    again.
    """
    revisited, siblings = sampled(store, PAGES_TO_FIT)
    pages = load(np.union1d(revisited, siblings).tolist())
    of_siblings = [pages[page_id].sound for page_id in siblings.tolist() if page_id in pages]
    revisits = (pages.get(page_id) for page_id in revisited.tolist())
    # a damaged row may count visits that its page does not have
    sample = [page.sound for page in revisits if page and page.visits]
    fitted = _at_fixed_point(sample, estimation)
    sites = np.array([site_id(page.url) for page in of_siblings], np.int64)
    visits = Visits(*histories(of_siblings), baselines=baselines_of(of_siblings))
    together = fit_sibling_correlation(sites, visits)
    notes: dict[str, Any] = {_SIBLINGS: {"sibling_correlation": together}, UNFITTED: 0}
    if abs(log(fitted.churning_pages / estimation.churning_pages)) > _SAME_SHARE:
        notes[_CHURNING_PAGES] = fitted.churning_pages
    if not fitted.bursts.is_like(estimation.bursts):
        notes[_BURSTS] = asdict(fitted.bursts)
    if not _is_same(fitted.prior, estimation.prior, SAME_PRIOR):
        notes[_PRIOR] = asdict(fitted.prior)
    store.write_meta(notes)
    return len(pages)


def _at_fixed_point(pages: Sequence[Page], estimation: Estimation) -> Estimation:
    """Return the estimation with priors fitted to the pages, by repeated fits until they converge.

    Pages that churn are left out of the fit of rates, as time did not bring their updates; but which
    pages churn depends on the fitted rates.
    """
    if not pages:
        return estimation
    has_shown = np.array(
        [len(page.spells.periods) > 3 * _UPDATES_TO_TELL for page in pages], np.bool_
    )
    all_gaps = Visits(*histories(pages), estimation.fade_days, baselines_of(pages)).gaps()
    fitted = estimation
    for _ in range(_MOST_FITS):
        churning = fitted.churning(pages)
        share = fit_churning_pages(churning[has_shown], fitted.churning_pages)
        is_ordinary = churning < CHURNING
        gaps = all_gaps.of(is_ordinary)
        before = fitted
        prior = fit_prior(gaps)
        fitted = replace(before, prior=prior, churning_pages=share)
        if _is_same(prior, before.prior, _CONVERGED) and isclose(
            share, before.churning_pages, rel_tol=_CONVERGED
        ):
            break
    if not estimation.has_bursts:
        return fitted
    last_visits = np.array([page.visits[-1] for page in pages], np.float64)[is_ordinary] / DAY
    bursts = fit_bursts(gaps, last_visits, estimation.fade_days, fitted.prior)
    return replace(fitted, bursts=bursts)


def _is_same(prior: LogNormalPrior, other: LogNormalPrior, most: float) -> bool:
    moved = abs(log(prior.mean_rate / other.mean_rate)), abs(prior.log_sd - other.log_sd)
    return max(moved) <= most


def sampled(store: Store, size: int) -> tuple[Ids, Ids]:
    """Return ids of up to `size` pages with several visits, and of the updated pages of some sites.

    The second sample takes whole sites (up to `PAGES_OF_A_SITE` pages of each), by their number: it is
    a hash, so the choice is random. Sites with a single updated page are left out. Of a store with more
    than `ROWS_TO_READ` rows only that many are read, which are some pages of each site.
    """
    ids, sites, number = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    revisited = [np.zeros(0, np.int64)]
    for page_ids, rows in store.all_rows():
        revisited.append(page_ids[rows["visits"] > 1])
        is_updated = (rows["updates"] > 0) & (rows["site"] > 0)
        ids.append(page_ids[is_updated])
        sites.append(rows["site"][is_updated].astype(np.int64))
        number += len(rows)
        if number >= ROWS_TO_READ:
            break
    siblings = _sampled_siblings(np.concatenate(ids), np.concatenate(sites))
    return np.concatenate(revisited)[:size], siblings


def _sampled_siblings(ids: Ids, sites: Ids) -> Ids:
    order = np.lexsort((ids, sites))
    ids, sites = ids[order], sites[order]
    starts = np.searchsorted(sites, sites, side="left")
    has_sibling = np.searchsorted(sites, sites, side="right") - starts > 1
    is_kept = has_sibling & (np.arange(len(sites)) - starts < PAGES_OF_A_SITE)
    ids, sites = ids[is_kept], sites[is_kept]
    if len(ids) <= PAGES_TO_COMPARE:
        return ids
    following = sites[PAGES_TO_COMPARE]
    return ids[: np.flatnonzero(sites == following)[0]]
