"""Statistics on arrays: calibration, sequential tests, clusters. No I/O, no clock."""

from typing import TYPE_CHECKING

from hacs_crawler.utils.faces import face

if TYPE_CHECKING:
    from hacs_crawler.statistics.scoring import (
        Expectation as Expectation,
        clustered_z as clustered_z,
        reliability as reliability,
        summary as summary,
    )
    from hacs_crawler.statistics.sequential import multiplier as multiplier

__getattr__ = face(__name__, __file__)
