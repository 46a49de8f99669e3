"""Work on a Dask cluster: one that is there, or one of this machine's own processes."""

from hacs_crawler.cluster.connection import check_cluster, connected
from hacs_crawler.cluster.tasks import Cluster

__all__ = ["Cluster", "check_cluster", "connected"]
