"""Work on a Dask cluster: one that is there, or one of this machine's own processes."""

from hacs_crawler.cluster.connection import check_cluster, connected
from hacs_crawler.cluster.tasks import HERE, Cluster, Workers, in_order

__all__ = [
    "HERE",
    "Cluster",
    "Workers",
    "check_cluster",
    "connected",
    "in_order",
]
