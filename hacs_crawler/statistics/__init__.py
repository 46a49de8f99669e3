"""Statistics on arrays: calibration, sequential tests, clusters. No I/O, no clock."""

from typing import TYPE_CHECKING

from hacs_crawler.utils.faces import face

if TYPE_CHECKING:
    from hacs_crawler.statistics.clusters import (
        Difference as Difference,
        Rate as Rate,
        bootstrap as bootstrap,
        difference_of as difference_of,
        effective_clusters as effective_clusters,
        excess_of as excess_of,
        rate_of as rate_of,
        within_variance as within_variance,
    )
    from hacs_crawler.statistics.scoring import (
        Expectation as Expectation,
        clustered_z as clustered_z,
        reliability as reliability,
        summary as summary,
    )
    from hacs_crawler.statistics.sequential import (
        anytime_multiplier as anytime_multiplier,
        detecting_error as detecting_error,
        interval_of as interval_of,
        ratio_interval as ratio_interval,
    )

__getattr__ = face(__name__, __file__)
