"""Work on a Dask cluster: one that is there, or one of this machine's own processes."""

from hacs_crawler.cluster.connection import LOCAL, check_cluster, connected
from hacs_crawler.cluster.crawls import Crawls, CrawlTask, Ended
from hacs_crawler.cluster.tasks import HERE, Cluster, Workers, in_order

__all__ = [
    "HERE",
    "LOCAL",
    "Cluster",
    "CrawlTask",
    "Crawls",
    "Ended",
    "Workers",
    "check_cluster",
    "connected",
    "in_order",
]
