"""Two crawls of the same pages compared: the ratio of their updates per visit.

Each crawl visits all pages with a state of its own and half of the budget, so that neither crawl takes
finds from the other: the budget-split design of Liu, Mao and Kang, "Trustworthy and
powerful online marketplace experimentation with budget-split design", KDD 2021, arXiv:2012.08724.

Arrays have one element a site along their last axis. Axes before it are samples of their own: looks at
one experiment, or simulated experiments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hacs_crawler.statistics.sequential import multiplier
from hacs_crawler.utils.arrays import FloatArray

# A column of which the others leave less than this share says nothing of its own.
_RANK: Final = 1e-9
# A site whose line would follow it wherever it is has this much of its residual at least.
_LEAST_FREE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class SiteTally:
    """What one crawl found on each site, by its visits other than pages' first ones.

    `worth` has one element a sample: the mean of `model.update_index` over all the visits, which is
    what one more visit of the page would have found.
    """

    updates: FloatArray
    visits: FloatArray
    worth: FloatArray


@dataclass(frozen=True, slots=True)
class Contrast:
    """ln(R_A / R_B) of two crawls, its standard error, and the degrees of freedom of that."""

    log_ratio: FloatArray
    error: FloatArray
    freedom: FloatArray

    def interval(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the ratio's interval, which holds at all looks with 1 - `alpha`."""
        with np.errstate(invalid="ignore", over="ignore"):
            reach = self.error * multiplier(self.error, alpha, self.freedom)
            return np.exp(self.log_ratio - reach), np.exp(self.log_ratio + reach)


def contrast(mine: SiteTally, other: SiteTally, pages: FloatArray, past: FloatArray) -> Contrast:
    """Compare two crawls of the same sites, which have `pages` pages each.

    For crawl a, R_a = U_a / V_a. Without site i, its v_ai visits would go to other pages, where
    each is worth mu_a = min(R_a, `worth`) updates and not R_a. With h_i = m_i / sum(m) site i changes
    ln R_a by

        psi_ai = (u_ai - mu_a v_ai - (R_a - mu_a) V_a h_i) / (U_a (1 - h_i)).

    psi_i = psi_Ai - psi_Bi is regressed on X, whose columns are the `pages` and the sites' values from
    before the experiment, `past` (with a last axis for its columns). The estimate stays; the residuals
    rho_i = e_i / (1 - leverage_i), as in the jackknife (HC3: MacKinnon and White, Journal of
    Econometrics 29, 1985), give the variance s^2 = (N - 1) / N sum(rho^2). Its degrees of freedom are

        max(1, min(N - rank X, 2 N / (kappa - 1), sum(m)^2 / sum(m^2) - 1)),

    kappa = N sum(rho^4) / sum(rho^2)^2 being the residuals' kurtosis, and the last term Kish's effective
    number of sites less 1: without it two giants of 40 % of the pages gave 16 % false alarms.
    NaN if a crawl found no update.
    """
    sites = pages.shape[-1]
    share = pages / pages.sum(-1, keepdims=True)
    psi = _influence(mine, share) - _influence(other, share)
    columns = np.concatenate([pages[..., None], past], -1)
    base, rank = _orthonormal(columns)
    fitted = np.einsum("...ik,...k->...i", base, np.einsum("...jk,...j->...k", base, psi))
    leverage = np.einsum("...ik,...ik->...i", base, base)
    squares = ((psi - fitted) / np.maximum(1.0 - leverage, _LEAST_FREE)) ** 2
    total = squares.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kurtosis = sites * (squares**2).sum(-1) / total**2
        tails = np.where(kurtosis > 1.0, 2.0 * sites / (kurtosis - 1.0), np.inf)
        log_ratio = np.log(_rate(mine)) - np.log(_rate(other))
    effective = 1.0 / (share**2).sum(-1)
    freedom = np.minimum(np.minimum(sites - rank, tails), effective - 1.0)
    error = np.sqrt((sites - 1.0) / sites * total)
    return Contrast(log_ratio, error, np.maximum(freedom, 1.0))


def effective_sites(pages: FloatArray) -> float:
    """Return how many sites of equal size weigh as much: Kish's (sum of pages)^2 / sum of squares."""
    return float(pages.sum() ** 2 / (pages**2).sum()) if pages.any() else 0.0


def _rate(tally: SiteTally) -> FloatArray:
    rate: FloatArray = tally.updates.sum(-1) / tally.visits.sum(-1)
    return rate


def _influence(tally: SiteTally, share: FloatArray) -> FloatArray:
    """Return by how much each site changes ln R: psi of `contrast`."""
    updates, visits = tally.updates.sum(-1)[..., None], tally.visits.sum(-1)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = updates / visits
        worth = np.minimum(rate, tally.worth[..., None])
        excess = tally.updates - worth * tally.visits - (rate - worth) * visits * share
        psi: FloatArray = excess / (updates * (1.0 - share))
    return psi


def _orthonormal(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return an orthonormal base of the columns' span, filled up with zeros, and its rank."""
    length = np.sqrt((columns**2).sum(-2, keepdims=True))
    scaled = np.divide(columns, length, out=np.zeros_like(columns), where=length > 0.0)
    base, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    is_kept = sizes > _RANK * np.sqrt(columns.shape[-1])
    return base * is_kept[..., None, :], is_kept.sum(-1).astype(np.float64)
