"""How long the links of a site or folder are read, and how much: its temporal pages taken together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hacs_crawler.model.interest_classes import TEMPORAL, Classes
from hacs_crawler.model.interest_curves import Curves
from hacs_crawler.utils.arrays import FloatArray, IndexArray

USUAL_PAGES: Final = 5.0
"""Each place is weighed against so many pages of the usual kind: a few pages' curves say little."""
_LEAST_SIGMA: Final = 0.05


@dataclass(frozen=True, slots=True)
class Tempers:
    """Places: arrays with one element a place.

    `mu` and `sigma` are the mean and the standard deviation of ln(days) of all reading of a place's
    temporal pages together, `worth` how often one of them is read, 1 being the mean of all places'.
    """

    mu: FloatArray
    sigma: FloatArray
    worth: FloatArray


def tempers_of(
    place_of: IndexArray, classes: Classes, curves: Curves, views: FloatArray, count: int
) -> Tempers:
    """Pool the curves of the temporal pages of `count` places; page i is of place `place_of[i]`.

    A place's reading is a mixture of its pages' log-normal curves, of equal weight, whose logarithm has
    the mean E[mu] and the variance E[sigma²] + Var[mu]. All three means are shrunk to those of all
    temporal pages. Where no page is temporal, all places have mu 0, sigma 1 and worth 1.
    """
    is_used = (classes == TEMPORAL) & np.isfinite(curves.mu) & np.isfinite(curves.sigma)
    if not is_used.any():
        ones = np.ones(count)
        return Tempers(np.zeros(count), ones, ones.copy())
    places, mu, sigma = place_of[is_used], curves.mu[is_used], curves.sigma[is_used]
    number = np.bincount(places, minlength=count)

    def pooled(values: FloatArray) -> FloatArray:
        own = np.bincount(places, weights=values, minlength=count)
        mean: FloatArray = (own + USUAL_PAGES * values.mean()) / (number + USUAL_PAGES)
        return mean

    mean_mu = pooled(mu)
    variance = pooled(sigma**2 + mu**2) - mean_mu**2
    return Tempers(
        mean_mu,
        np.sqrt(np.maximum(variance, _LEAST_SIGMA**2)),
        pooled(views[is_used]) / views[is_used].mean(),
    )
