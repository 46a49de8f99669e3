"""Statistics on arrays: calibration, sequential tests, twin crawls. No I/O, no clock."""

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
    from hacs_crawler.statistics.twins import (
        Contrast as Contrast,
        SiteTally as SiteTally,
        contrast as contrast,
        effective_sites as effective_sites,
    )

__getattr__ = face(__name__, __file__)
