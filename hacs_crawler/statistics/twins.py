"""Two crawls of the same pages compared: the ratio of their updates per visit.

Each crawl visits all pages with a state of its own and half of the budget, so that neither crawl takes
updates from the other: the budget-split design of Liu, Mao and Kang, "Trustworthy and powerful online
marketplace experimentation with budget-split design", KDD 2021, arXiv:2012.08724.

Looking at an ordinary 95 % interval every day, and stopping when it excludes 0, gives false results in
much more than 5 % of experiments. An asymptotic confidence sequence covers the truth at all times
together in 95 % of experiments: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central
limit theory and asymptotic confidence sequences", Annals of Statistics 52(6), 2024, arXiv:2103.06476.
The boundary is Robbins' normal mixture: "Statistical methods related to the law of the iterated
logarithm", Annals of Mathematical Statistics 41(5), 1970.

Arrays have one element a site along their last axis. Axes before it are separate samples: looks at one
experiment, or simulated experiments.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.utils.arrays import FloatArray

# Relative tolerance below which a column of the regression is a combination of the others.
_RANK: Final = 1e-9
# Lower bound of 1 - leverage, for a site that determines its own fit.
_LEAST_FREE: Final = 1e-6
# The log ratio for which intervals are narrowest: 1.28-fold. They are valid for any constant that is
# not chosen by the data, and somewhat wider if the difference is much smaller or larger.
MIXTURE_SD: Final = 0.25


def multiplier(
    relative_error: ArrayLike, alpha: float, freedom: ArrayLike = math.inf
) -> FloatArray:
    """Return the half-width, in standard errors, of an interval that holds at all times.

    The error is relative to the rate, so the estimate is roughly the logarithm of a ratio. For
    an efficient estimate with variance s^2, times the information 1 / s^2, the path over time is a
    Brownian motion in that information (Scharfstein, Tsiatis and Robins, "Semiparametric efficiency
    and its implication on the design and analysis of group-sequential studies", JASA 92, 1997). Mixing
    its likelihood ratios over differences ~ Normal(0, t^2), t = `MIXTURE_SD`, gives a martingale that
    ever reaches 1 / alpha with probability at most alpha (Ville). Solved for the difference, this gives
    the half-width

        s sqrt((1 + s^2 / t^2) (log(1 + t^2 / s^2) + 2 log(1 / alpha))).

    As the variance is itself an estimate, with `freedom` degrees of freedom, the normal quantile is
    replaced by the quantile of Student's t with the same tail probability (Jennison and Turnbull, "Group
    sequential methods", 2000, on t-tests). Shapes broadcast. NaN if an argument is NaN, infinite if the
    error is infinite.
    """
    from scipy.special import ndtr, stdtrit  # noqa: PLC0415 - slow to load, and few commands need it

    error, degrees = np.broadcast_arrays(
        np.asarray(relative_error, np.float64), np.asarray(freedom, np.float64)
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        spread = (error / MIXTURE_SD) ** 2
        normal = np.sqrt((1.0 + spread) * (np.log1p(1.0 / spread) - 2.0 * math.log(alpha)))
        student = -stdtrit(np.maximum(degrees, 1.0), ndtr(-normal))
    few = np.maximum(np.where(np.isnan(student), np.inf, student), normal)
    multipliers: FloatArray = np.where(np.isinf(degrees), normal, few)
    return np.where(np.isnan(error) | np.isnan(degrees), np.nan, multipliers)


@dataclass(frozen=True, slots=True)
class SiteTally:
    """The updates and visits of one crawl on each site, without the first visits of pages.

    `worth` has one element a sample: the mean of `model.update_index` over all visits, the gain from one
    more visit.
    """

    updates: FloatArray
    visits: FloatArray
    worth: FloatArray


@dataclass(frozen=True, slots=True)
class Contrast:
    """ln(R_A / R_B) of two crawls, its standard error, and the error's degrees of freedom."""

    log_ratio: FloatArray
    error: FloatArray
    freedom: FloatArray

    def interval(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the ratio's interval, which holds at all looks with chance 1 - `alpha`."""
        with np.errstate(invalid="ignore", over="ignore"):
            reach = self.error * multiplier(self.error, alpha, self.freedom)
            return np.exp(self.log_ratio - reach), np.exp(self.log_ratio + reach)


def contrast(mine: SiteTally, other: SiteTally, pages: FloatArray, past: FloatArray) -> Contrast:
    """Compare two crawls of the same sites, which have `pages` pages each.

    For crawl a, R_a = U_a / V_a, updates per visit. Without site i, its v_ai visits would go to other
    pages, each worth mu_a = min(R_a, `worth`) updates there, not R_a. With m_i pages on site i and
    h_i = m_i / sum(m), site i changes ln R_a by

        psi_ai = (u_ai - mu_a v_ai - (R_a - mu_a) V_a h_i) / (U_a (1 - h_i)).

    psi_i = psi_Ai - psi_Bi is regressed on X, whose columns are the `pages` and the sites' values from
    before the experiment, `past` (with a last axis for its columns). The estimate stays; the residuals
    rho_i = e_i / (1 - leverage_i), as in the jackknife (HC3: MacKinnon and White, Journal of
    Econometrics 29, 1985), give the variance s^2 = (N - 1) / N sum(rho^2). Its degrees of freedom are

        max(1, min(N - rank X, 2 N / (kappa - 1), sum(m)^2 / sum(m^2) - 1)),

    with the residuals' kurtosis, kappa = N sum(rho^4) / sum(rho^2)^2, and as the last term Kish's
    effective number of sites minus 1: without it, two sites with 40 % of the pages each gave 16 % false
    alarms. NaN if a crawl found no update.
    """
    sites = pages.shape[-1]
    share = pages / pages.sum(-1, keepdims=True)
    psi = _influence(mine, share) - _influence(other, share)
    columns = np.concatenate([pages[..., None], past], -1)
    length = np.sqrt((columns**2).sum(-2, keepdims=True))
    scaled = np.divide(columns, length, out=np.zeros_like(columns), where=length > 0.0)
    # an orthonormal basis of the columns' span, padded with zeros
    base, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    is_kept = sizes > _RANK * np.sqrt(columns.shape[-1])
    base *= is_kept[..., None, :]
    fitted = np.einsum("...ik,...k->...i", base, np.einsum("...jk,...j->...k", base, psi))
    leverage = np.einsum("...ik,...ik->...i", base, base)
    squares = ((psi - fitted) / np.maximum(1.0 - leverage, _LEAST_FREE)) ** 2
    total = squares.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kurtosis = sites * (squares**2).sum(-1) / total**2
        tails = np.where(kurtosis > 1.0, 2.0 * sites / (kurtosis - 1.0), np.inf)
        log_ratio = np.log(_rate(mine)) - np.log(_rate(other))
    effective = 1.0 / (share**2).sum(-1)
    freedom = np.minimum(np.minimum(sites - is_kept.sum(-1), tails), effective - 1.0)
    error = np.sqrt((sites - 1.0) / sites * total)
    return Contrast(log_ratio, error, np.maximum(freedom, 1.0))


def effective_sites(pages: FloatArray) -> float:
    """Return the effective number of sites: Kish's (sum of pages)^2 / sum of squares."""
    return float(pages.sum() ** 2 / (pages**2).sum()) if pages.any() else 0.0


def _rate(tally: SiteTally) -> FloatArray:
    rate: FloatArray = tally.updates.sum(-1) / tally.visits.sum(-1)
    return rate


def _influence(tally: SiteTally, share: FloatArray) -> FloatArray:
    """Return how much each site changes ln R: psi in `contrast`."""
    updates, visits = tally.updates.sum(-1)[..., None], tally.visits.sum(-1)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = updates / visits
        worth = np.minimum(rate, tally.worth[..., None])
        excess = tally.updates - worth * tally.visits - (rate - worth) * visits * share
        psi: FloatArray = excess / (updates * (1.0 - share))
    return psi
