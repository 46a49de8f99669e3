"""The forecast for a page: its mean rate, and the probability of no update in x days after a visit.

    S(x) = w e^(-a x) + (1 - w) e^(-b x),   p = 1 - S(x),   a >= b

is what every estimator returns, and ranking, bounds, signals and reports use. A single known rate has
w = 1 and a = b; an uncertain rate, or a rate that falls in quiet time, has w between 0 and 1; a growing
rate has w below 0 (then a = 2b and w >= -1, so that S always falls).
"""

import math
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.utils.arrays import FloatArray, IndexArray

# Days after a visit, from 20 minutes to 34 years, at which S is fitted.
TIMES: Final = np.outer(2.0 ** np.arange(-6, 14), [1.0, 1.5]).ravel()
# In ten groups, each of twice the times of the one before: there S is squared, for fewer exponentials.
_ORDER: Final = np.arange(len(TIMES)).reshape(2, 10, 2).swapaxes(0, 1).reshape(10, 4)
# The fit matters most between these multiples of the page's mean gap, when its next visit usually is,
_WINDOW: Final = 0.06, 3.5
# and after that while S is between these values, when most visits are made.
_LEVELS: Final = 0.4, 0.98
# The weights of times in the window, at these levels outside of it, and of all others.
_WEIGHTS: Final = 1.0, 0.05, 0.02
# Weights are divided by S (1 - S) plus this, so that small p are fitted in proportion.
_LEAST_VARIANCE: Final = 0.15
_STEPS: Final = 6
_DAMPING: Final = 0.02
_LEAST: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Rates:
    """The estimates of pages; arrays of shape (n_pages,).

    `rate_per_day` is λ, the mean rate of updates; `fast_share` is w, `fast_per_day` a and
    `slow_per_day` b. `churn` is the posterior mean of c, the chance that any request shows new links,
    and `churning` the probability that the page churns at all (c > 0; see `model.churn`).
    """

    rate_per_day: FloatArray
    fast_share: FloatArray
    fast_per_day: FloatArray
    slow_per_day: FloatArray
    churn: FloatArray
    churning: FloatArray

    def of(self, places: IndexArray | slice) -> "Rates":
        """Return the rates of some of the pages."""
        return Rates(*(getattr(self, name)[places] for name in Rates.__slots__))

    def probability(self, days: ArrayLike) -> FloatArray:
        """Return p, the probability of an update in that number of days; see `chance_of_update`."""
        return chance_of_update(self.fast_share, self.fast_per_day, self.slow_per_day, days)


def known_rates(rate_per_day: FloatArray) -> Rates:
    """Return the estimates of pages with one known rate each and no churn."""
    ones, zeros = np.ones(len(rate_per_day)), np.zeros(len(rate_per_day))
    return Rates(rate_per_day, ones, rate_per_day, rate_per_day, zeros, zeros)


def elapsed_days(now_day: ArrayLike, reference_day: ArrayLike) -> FloatArray:
    """Return the elapsed time e = now - reference, in days. Shapes broadcast.

    `reference_day` is the last visit, or, by the paper's rule, the last known update (tau); nan (no
    visit or no update) gives inf. A reference in the future (clocks that disagree) gives 0.
    """
    now = np.asarray(now_day, dtype=np.float64)
    reference = np.asarray(reference_day, dtype=np.float64)
    days = np.maximum(now - reference, 0.0)
    return np.where(np.isnan(reference), math.inf, days)


def chance_of_update(
    fast_share: ArrayLike, fast_per_day: ArrayLike, slow_per_day: ArrayLike, days: ArrayLike
) -> FloatArray:
    """Return p = 1 - S(days), the probability of at least one update; shapes broadcast.

    Infinite days give 1 at any rate, even 0: they stand for a page that was never visited, on which
    everything is new.
    """
    share, fast, slow, elapsed = (
        np.asarray(value, np.float64) for value in (fast_share, fast_per_day, slow_per_day, days)
    )
    never = np.isinf(elapsed)
    finite = np.where(never, 0.0, elapsed)
    with np.errstate(over="ignore"):
        p = -share * np.expm1(-fast * finite) - (1.0 - share) * np.expm1(-slow * finite)
    return np.where(never, 1.0, np.maximum(p, 0.0))


def update_probability(rate_per_day: ArrayLike, days: ArrayLike) -> FloatArray:
    """Return p = 1 - exp(-lambda e) of one known rate, Eq. 1 of HACS (Jayawardana et al. 2020)."""
    return chance_of_update(1.0, rate_per_day, rate_per_day, days)


def update_index(p: ArrayLike) -> FloatArray:
    """Return 1 - (1 + x) exp(-x) with x = -ln(1 - p), the gain from one more visit; p from 0 to 1.

    V evenly spaced visits over a time T find V (1 - exp(-λT / V)) updates, and this is the derivative by
    V, with x = λT / V (Olston and Pandey 2008). It orders pages as p does; p = 1 gives 1.
    """
    with np.errstate(divide="ignore"):
        return days_out_of_date(1.0, 1.0, 1.0, -np.log1p(-np.asarray(p, np.float64)))


def days_out_of_date(
    fast_share: ArrayLike, fast_per_day: ArrayLike, slow_per_day: ArrayLike, days: ArrayLike
) -> FloatArray:
    """Return F(x) = x p(x) - ∫₀ˣ p(t) dt of x = days, finite; shapes broadcast.

    A page that is visited now is expected to have been out of date for ∫₀ˣ p days; F is the additional
    time if its visits came x days apart. It equals ∫₀ˣ S - x S(x); for a single rate,
    [1 - (1 + λx) e^(-λx)] / λ, the index of freshness of Olston and Pandey, "Recrawl scheduling based on
    information longevity", WWW 2008, whose optimum is that of Cho and Garcia-Molina 2003.
    """
    share, time = np.asarray(fast_share, np.float64), np.asarray(days, np.float64)

    def of_one(rate: FloatArray) -> FloatArray:
        r = np.minimum(rate * time, 700.0)
        exact = (-np.expm1(-r) - r * np.exp(-r)) / np.where(rate > 0, rate, 1.0)
        return np.where(r < 1e-4, r * time / 2, exact)  # the series avoids cancellation

    fast, slow = (of_one(np.asarray(rate, np.float64)) for rate in (fast_per_day, slow_per_day))
    return np.asarray(np.maximum(share * fast + (1.0 - share) * slow, 0.0))


def fitted(
    survival: FloatArray, mean_gap_days: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return w, a and b of pages from their survival at `TIMES`, (n_pages, times); shape (n_pages,).

    Weighted least squares (see `_WEIGHTS`), by Levenberg-Marquardt steps on w, ln a and ln b; on w and
    ln b alone for pages whose rate grows, which have a = 2b.
    """
    # the rate grows if S(2x) is below S(x)^2; compared at an x with S(x) of about 0.7
    at = np.clip((survival >= 0.7).sum(axis=1) - 1, 0, len(TIMES) - 3)
    pages = np.arange(len(survival))
    first, two = np.clip(survival[pages, at], _LEAST, 1 - _LEAST), survival[pages, at + 2]
    grows = two < first * first * (1 - 1e-6)
    some_grow = bool(grows.any())  # few pages do
    share = np.where(grows, -0.5, 0.5)
    least, most = -1.0 * grows, 1.0 - grows
    rates = np.where(grows, [[2.2], [1.1]], [[2.0], [0.5]]) * (-np.log(first) / TIMES[at])
    fast, slow = rates

    # whole arrays of each value: numpy takes twice as long to repeat one at every use
    survival, days = survival.T.take(_ORDER, axis=0), TIMES[_ORDER, None].repeat(len(pages), axis=2)
    weight = np.full_like(survival, _WEIGHTS[2])
    weight[(survival >= _LEVELS[0]) & (survival <= _LEVELS[1])] = _WEIGHTS[1]
    begins, ends = np.multiply.outer(_WINDOW, mean_gap_days)
    weight[(begins <= days) & (ends >= days)] = _WEIGHTS[0]
    weight = np.sqrt(weight / (_LEAST_VARIANCE + survival * (1.0 - survival)))
    survival *= weight
    # all views before the loop: numpy takes as long to make one as to multiply a hundred numbers
    decays, products = np.empty((10, 2, 4, len(pages))), np.empty((9, *days.shape))
    groups, fast_decays, slow_decays = [*decays], decays[:, 0], decays[:, 1]
    by_share, by_fast, by_slow, rest = terms = [*np.empty((4, *days.shape))]
    pairs = [*((term, term) for term in terms[:3]), *combinations(terms, 2)]
    multiplied = [*zip(pairs, [*products], strict=True)]
    products = products.reshape(9, len(TIMES), len(pages))
    first_days, ones = -TIMES[_ORDER[0], None], np.ones(len(TIMES))
    for _ in range(_STEPS):
        np.exp(rates[:, None] * first_days, out=groups[0])
        for before, twice in pairwise(groups):
            np.square(before, out=twice)
        # each rate by itself: numpy would copy all that is used for both
        np.multiply(fast_decays, weight, out=by_fast)
        np.multiply(slow_decays, weight, out=by_slow)
        np.subtract(by_fast, by_slow, out=by_share)
        np.subtract(survival, by_slow, out=rest)
        rest -= share * by_share
        by_fast *= days
        by_fast *= -share * fast
        by_slow *= days
        by_slow *= (share - 1.0) * slow
        if some_grow:
            by_slow[..., grows] += by_fast[..., grows]
            by_fast[..., grows] = 0.0
        for pair, product in multiplied:
            np.multiply(*pair, out=product)
        step = _solved(ones @ products)
        share = np.maximum(np.minimum(share + step[0], most), least)
        rates *= np.exp(step[1:])
        if some_grow:
            fast[grows] = 2.0 * slow[grows]
    share = np.where(fast < slow, 1.0 - share, share)
    return share, np.maximum(fast, slow), np.minimum(fast, slow)


def _solved(sums: FloatArray) -> FloatArray:
    """Return the steps that solve the normal equations, from the sums of products of their terms."""
    # of all pages together: LAPACK would solve those of each page by itself
    sums[:3] *= 1.0 + _DAMPING
    sums[:3] += _LEAST
    a, b, c, ab, ac, ra, bc, rb, rc = sums
    u, v, w = ab / a, ac / a, ra / a
    b, bc, rb = b - ab * u, bc - ab * v, rb - ab * w
    c, rc = c - ac * v, rc - ac * w
    s = bc / b
    z = (rc - rb * s) / (c - bc * s)
    y = rb / b - s * z
    steps: FloatArray = np.array((w - u * y - v * z, y, z))
    return np.maximum(np.minimum(steps, 1.0), -1.0)
