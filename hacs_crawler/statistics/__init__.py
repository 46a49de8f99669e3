"""Statistics on arrays: calibration, sequential tests, clusters. No I/O, no clock."""

from hacs_crawler.statistics.clusters import Difference as Difference
from hacs_crawler.statistics.clusters import Rate as Rate
from hacs_crawler.statistics.clusters import bootstrap as bootstrap
from hacs_crawler.statistics.clusters import difference_of as difference_of
from hacs_crawler.statistics.clusters import effective_clusters as effective_clusters
from hacs_crawler.statistics.clusters import excess_of as excess_of
from hacs_crawler.statistics.clusters import rate_of as rate_of
from hacs_crawler.statistics.clusters import within_variance as within_variance
from hacs_crawler.statistics.scoring import Expectation as Expectation
from hacs_crawler.statistics.scoring import clustered_z as clustered_z
from hacs_crawler.statistics.scoring import reliability as reliability
from hacs_crawler.statistics.scoring import summary as summary
from hacs_crawler.statistics.sequential import anytime_multiplier as anytime_multiplier
from hacs_crawler.statistics.sequential import detecting_error as detecting_error
from hacs_crawler.statistics.sequential import interval_of as interval_of
from hacs_crawler.statistics.sequential import ratio_interval as ratio_interval
