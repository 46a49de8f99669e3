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

from hacs_crawler.statistics.clusters import Difference, Rate
from hacs_crawler.utils.arrays import FloatArray

MIXTURE_SD: Final = 0.25
"""The relative difference for which intervals are made narrow: 1.28-fold. They are right whatever it is,
if the data do not choose it, and somewhat wider where the difference is much smaller or larger.
"""
_MOST_ERROR: Final = 10.0
_BISECTIONS: Final = 60


def multiplier(
    relative_error: ArrayLike, alpha: float, freedom: ArrayLike = math.inf
) -> FloatArray:
    """Return how many standard errors an interval reaches to each side, to hold at all times.

    The error is relative to the rate, so that what is estimated is about the logarithm of a ratio. Of
    an efficient estimate with variance s^2, times the information 1 / s^2, the path over time is a
    Brownian motion in that information (Scharfstein, Tsiatis and Robins, "Semiparametric efficiency
    and its implication on the design and analysis of group-sequential studies", JASA 92, 1997). Mixing
    its likelihood ratios over differences ~ Normal(0, t^2), t = `MIXTURE_SD`, gives a martingale that
    ever reaches 1 / alpha with probability alpha at most (Ville), and solved for the difference

        s sqrt((1 + s^2 / t^2) (log(1 + t^2 / s^2) + 2 log(1 / alpha))).

    The variance is itself an estimate, with that many degrees of freedom: the quantile of Student's t is
    taken that has the same tail as the normal one (Jennison and Turnbull, "Group sequential methods",
    2000, on t-tests). Shapes broadcast. Nan where an argument is, infinite where the error is.
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
    found: FloatArray = np.where(np.isinf(degrees), normal, few)
    return np.where(np.isnan(error) | np.isnan(degrees), np.nan, found)


def anytime_multiplier(difference: Difference, alpha: float) -> FloatArray:
    """Return how many standard errors a difference's interval reaches, see `multiplier`."""
    return multiplier(difference.relative_error, alpha, difference.freedom)


def interval_of(difference: Difference, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval that reaches a number of standard errors to each side."""
    with np.errstate(invalid="ignore"):
        reach = errors * difference.error
    return difference.value - reach, difference.value + reach


def ratio_interval(arm: Rate, control: Rate, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval of arm / control that goes with `interval_of` (Fieller 1954).

    It holds every ratio q for which arm - q control is less than that many of its standard errors away
    from 0: it leaves out 1 where the interval of the difference leaves out 0. From 0 to infinite where
    the control's own rate may be 0.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a = control.value**2 - (errors * control.error) ** 2
        b = arm.value * control.value
        c = arm.value**2 - (errors * arm.error) ** 2
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        is_bounded = (a > 0) & (control.value > 0)
        low = np.where(is_bounded, np.maximum((b - root) / a, 0.0), 0.0)
        high = np.where(is_bounded, (b + root) / a, math.inf)
    return low, high


def detecting_error(ratio: float, alpha: float, freedom: float, power: float = 0.8) -> float:
    """Return the relative error at which a ratio is told from 1 with that probability, looking once.

    The largest s with (multiplier(s) + z) s <= |log ratio|, z being the quantile of the power.
    """
    from scipy.special import ndtri  # noqa: PLC0415 - as above

    # What is needed grows with the error.
    low, high = 0.0, _MOST_ERROR
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        needed = (float(multiplier(middle, alpha, freedom)) + float(ndtri(power))) * middle
        low, high = (middle, high) if needed <= abs(math.log(ratio)) else (low, middle)
    return low
