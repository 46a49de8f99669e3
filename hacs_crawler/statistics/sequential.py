"""Looking at an experiment every day: intervals that are right at all times together.

A usual interval is right in 95 % of the experiments at one time fixed in advance. Who looks every day
and stops when it excludes 0 is wrong much more often. An asymptotic confidence sequence is right in 95 %
of them at every time from the first to the last: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas,
"Time-uniform central limit theory and asymptotic confidence sequences", Annals of Statistics 52(6),
2024, arXiv:2103.06476. The boundary is Robbins' normal mixture: "Statistical methods related to the law
of the iterated logarithm", Annals of Mathematical Statistics 41(5), 1970.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.utils.arrays import FloatArray

# The relative difference for which intervals are narrowest: 1.28-fold. They are valid for any value
# that is not chosen by the data, and somewhat wider if the difference is much smaller or larger.
MIXTURE_SD: Final = 0.25


def multiplier(
    relative_error: ArrayLike, alpha: float, freedom: ArrayLike = math.inf
) -> FloatArray:
    """Return how many standard errors an interval reaches to each side, to hold at all times.

    The error is relative to the rate, so the estimate is roughly the logarithm of a ratio. For
    an efficient estimate with variance s^2, times the information 1 / s^2, the path over time is a
    Brownian motion in that information (Scharfstein, Tsiatis and Robins, "Semiparametric efficiency
    and its implication on the design and analysis of group-sequential studies", JASA 92, 1997). Mixing
    its likelihood ratios over differences ~ Normal(0, t^2), t = `MIXTURE_SD`, gives a martingale that
    ever reaches 1 / alpha with probability alpha at most (Ville), and solved for the difference

        s sqrt((1 + s^2 / t^2) (log(1 + t^2 / s^2) + 2 log(1 / alpha))).

    The variance is itself an estimate, with that many degrees of freedom: Student's t takes the quantile
    that has the same tail as the normal quantile (Jennison and Turnbull, "Group sequential methods",
    2000, on t-tests). Shapes broadcast. NaN if an argument is, infinite if the error is.
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
