"""Gaps between the visits of pages, as tests of the model give them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hacs_crawler.model import Gaps, LogNormalPrior, Visits
from hacs_crawler.model.grid import RATES, posterior
from hacs_crawler.utils.arrays import FloatArray

MINUTE = 1 / 1440
GAP = st.floats(math.log(MINUTE), math.log(20_000)).map(math.exp)
HISTORY = st.lists(st.tuples(GAP, st.booleans()), min_size=1, max_size=40)


def gaps_between(*visits: Any, is_interpolated: bool = False, **options: Any) -> Gaps:
    return Visits(*visits, **options).gaps(is_interpolated=is_interpolated)


def bayes(gaps: Gaps, prior: LogNormalPrior) -> FloatArray:
    return posterior(gaps, prior) @ RATES


def gaps_of(*pages: list[tuple[float, bool]], weight: Sequence[float] | None = None) -> Gaps:
    """Pages given as lists of (days, updated)."""
    flat = [one for page in pages for one in page]
    return Gaps(
        np.array([days for days, _ in flat], dtype=float),
        np.array([updated for _, updated in flat], dtype=bool),
        np.ones(len(flat)) if weight is None else np.array(weight, dtype=float),
        np.cumsum([0, *(len(page) for page in pages)]),
    )
