"""Statistics on arrays: calibration, sequential tests, clusters. No I/O, no clock."""

from hacs_crawler.statistics.clusters import (
    Difference,
    Rate,
    bootstrap,
    difference_of,
    effective_clusters,
    excess_of,
    rate_of,
    within_variance,
)
from hacs_crawler.statistics.isotonic import Correction, fit_isotonic
from hacs_crawler.statistics.scoring import Expectation, clustered_z, reliability, summary
from hacs_crawler.statistics.sequential import (
    anytime_multiplier,
    detecting_error,
    interval_of,
    ratio_interval,
)

__all__ = [
    "Correction",
    "Difference",
    "Expectation",
    "Rate",
    "anytime_multiplier",
    "bootstrap",
    "clustered_z",
    "detecting_error",
    "difference_of",
    "effective_clusters",
    "excess_of",
    "fit_isotonic",
    "interval_of",
    "rate_of",
    "ratio_interval",
    "reliability",
    "summary",
    "within_variance",
]
