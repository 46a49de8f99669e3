"""Work on a Dask cluster: one that is there, or one of this machine's own processes."""

from hacs_crawler.cluster.connection import (
    LOCAL as LOCAL,
    check_cluster as check_cluster,
    connected as connected,
)
from hacs_crawler.cluster.crawls import (
    CrawlResult as CrawlResult,
    Crawls as Crawls,
    CrawlTask as CrawlTask,
)
from hacs_crawler.cluster.tasks import HERE as HERE, Cluster as Cluster, Workers as Workers
