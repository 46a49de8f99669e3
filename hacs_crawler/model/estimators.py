"""Rates in closed form: updates over time, and Cho and Garcia-Molina's correction of it."""

import numpy as np

from hacs_crawler.model.gaps import Gaps
from hacs_crawler.utils.arrays import FloatArray, sum_by_page


def naive(gaps: Gaps) -> FloatArray:
    """Divide updates seen by time watched: lambda = X / T, per day (HACS Eq. 3).

    Shape (n_pages,). Biased low: several updates in one gap count once. X is the number of gaps
    with an update, T the sum of all gaps. A page without gaps gets 0. Weights are not used (every
    gap counts 1), as in the paper.
    """
    n_updated = sum_by_page(gaps.updated.astype(np.float64), gaps.offsets)
    total_days = sum_by_page(gaps.days, gaps.offsets)
    return np.divide(n_updated, total_days, out=np.zeros(len(gaps)), where=total_days > 0)


def cho(gaps: Gaps) -> FloatArray:
    """Lambda = -log((n - X + 0.5) / (n + 0.5)) / (mean gap), per day (HACS Eq. 4).

    Shape (n_pages,). Exact only for regular access: n gaps of one length, X of them with an
    update. Source: Cho and Garcia-Molina, "Estimating frequency of change", ACM TOIT 3(3), 2003,
    doi:10.1145/857166.857170. No update or no gap -> 0. Weights are not used, as in the paper.
    """
    n_gaps = gaps.counts.astype(np.float64)
    n_updated = sum_by_page(gaps.updated.astype(np.float64), gaps.offsets)
    total_days = sum_by_page(gaps.days, gaps.offsets)
    # -log1p(-X/(n+0.5)) is the same expression, exact 0 at X = 0.
    rate_per_gap = -np.log1p(-n_updated / (n_gaps + 0.5))
    return np.divide(
        rate_per_gap * n_gaps, total_days, out=np.zeros(len(gaps)), where=n_updated > 0
    )
