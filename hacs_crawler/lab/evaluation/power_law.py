"""The rate inside a window of updates: each estimator's expected number of updates is a power of time.

Estimators of S. R. Singh, "Estimating the Rate of Web Page Updates", IJCAI 2007. Times are days since a
window's origin, rates 1/day. The last of n update points is at t_n; a page is accessed once a day, k
days cover the window, and X of them have an update.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.model import Windows, duane_line, matloff_rate
from hacs_crawler.utils.arrays import FloatArray, IndexArray, page_of_value, sum_by_page

_ROUNDING: Final = 1e-9  # days; a point at the end of an interval belongs to it


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """Updates expected up to t, Lambda(t) = count (t / end_days)^shape, of many windows.

    `count` is the number expected up to `end_days`, the end of the watched time. shape is beta of the
    Weibull process: above 1 the rate rises, below 1 it falls, at 1 it is constant. Shape (n_windows,)
    each; nan if an estimator gives no value.
    """

    count: FloatArray
    shape: FloatArray
    end_days: FloatArray

    def expected(self, days: ArrayLike) -> FloatArray:
        """Return Lambda(t), the number of updates expected up to t >= 0 days."""
        with np.errstate(over="ignore"):
            expected: FloatArray = self.count * np.power(
                np.asarray(days) / self.end_days, self.shape
            )
        return expected

    def rate(self, days: ArrayLike) -> FloatArray:
        """Return the intensity lambda(t) = shape Lambda(t) / t in 1/day, at t > 0 days."""
        return self.shape * self.mean_rate(days)

    def mean_rate(self, days: ArrayLike) -> FloatArray:
        """Return the cumulative rate Lambda(t) / t in 1/day, at t > 0 days."""
        rate: FloatArray = self.expected(days) / np.asarray(days)
        return rate


def naive_law(windows: Windows) -> PowerLaw:
    """Fit n / t_n: updates over time."""
    return _constant(windows.counts / windows.last_days, windows.last_days)


def cho_law(windows: Windows) -> PowerLaw:
    """Fit -log((k - X + 0.5) / (k + 0.5)), 1/day, as `model.estimators.cho`."""
    k, x = _days_covered(windows)
    return _constant(-np.log1p(-x / (k + 0.5)), windows.last_days)


def matloff_law(windows: Windows) -> PowerLaw:
    """Fit `matloff_rate` of the days that cover each window."""
    return _constant(matloff_rate(*_days_covered(windows), 1.0), windows.last_days)


def weibull_law(windows: Windows) -> PowerLaw:
    """Fit by maximum likelihood, truncated at t_n: beta = n / sum log(t_n / t_i), Lambda(t_n) = n.

    eta = t_n / n^(1/beta), lambda(t) = (beta/eta) (t/eta)^(beta-1); L. H. Crow 1974. n of at least 2:
    with one point the shape is nan.
    """
    n = windows.counts.astype(np.float64)
    ages = np.log(windows.last_days[page_of_value(windows.offsets)] / windows.days)
    logs = sum_by_page(ages, windows.offsets)
    shape = np.divide(n, logs, out=np.full(len(windows), np.nan), where=logs > 0)
    return PowerLaw(n, shape, windows.last_days)


def corrected_weibull_law(windows: Windows, *, of_rate: bool = True) -> PowerLaw:
    """Fit corrected for bias: the shape is (n - 2)/n beta, and the rate times (n - 3)/(n - 2).

    lambda~(t) = n beta~ t^(beta~ - 1) / t_n^beta~ with beta~ = (n - 2)/n beta is `of_rate` = False;
    lambda^(t) = (n - 3)/(n - 2) lambda~(t) is the paper's. R. Calabria, M. Guida, G. Pulcini, "Some
    modified maximum likelihood estimators for the Weibull process", Reliability Engineering and System
    Safety 23, 1988. n of at least 4, else nan. At t_n both together multiply the rate by (n - 3)/n: 1/4
    for n = 4.
    """
    plain = weibull_law(windows)
    n = np.where(plain.count >= 4, plain.count, np.nan)
    count = n * (n - 3) / (n - 2) if of_rate else n
    return PowerLaw(count, (n - 2) / n * plain.shape, plain.end_days)


def duane_law(windows: Windows) -> PowerLaw:
    """Fit Duane's plot: least squares of log(t_i / i) on log t_i, slope gamma, intercept log alpha.

    Lambda(t) = t^(1 - gamma) / alpha; the cumulative rate is t^(-gamma) / alpha. J. T. Duane, "Learning
    curve approach to reliability monitoring", IEEE Transactions on Aerospace 2, 1964. gamma < 1 always,
    for points increase. n of at least 2, else nan.
    """
    shape, intercept = duane_line(windows)
    count = np.exp(shape * np.log(windows.last_days) - intercept)
    return PowerLaw(count, shape, windows.last_days)


def _days_covered(windows: Windows) -> tuple[FloatArray, IndexArray]:
    """Return how many days cover each window, and how many of them have an update."""
    number = np.ceil(windows.days - _ROUNDING)
    is_new = np.append(np.ones(min(number.size, 1), np.bool_), number[1:] != number[:-1])
    is_new[windows.offsets[:-1]] = True
    x = sum_by_page(is_new.astype(np.float64), windows.offsets).astype(np.int64)
    return number[windows.offsets[1:] - 1], x


def _constant(rate: FloatArray, end_days: FloatArray) -> PowerLaw:
    return PowerLaw(rate * end_days, np.ones(len(rate)), end_days)
