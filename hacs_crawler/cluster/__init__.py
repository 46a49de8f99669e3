"""Work on a Dask cluster: one that is there, or one of this machine's own processes."""

from hacs_crawler.cluster.connection import LOCAL as LOCAL
from hacs_crawler.cluster.connection import check_cluster as check_cluster
from hacs_crawler.cluster.connection import connected as connected
from hacs_crawler.cluster.crawls import Crawls as Crawls
from hacs_crawler.cluster.crawls import CrawlTask as CrawlTask
from hacs_crawler.cluster.crawls import Ended as Ended
from hacs_crawler.cluster.tasks import HERE as HERE
from hacs_crawler.cluster.tasks import Cluster as Cluster
from hacs_crawler.cluster.tasks import Workers as Workers
