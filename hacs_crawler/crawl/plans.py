"""A crawl's plan, and who makes it."""

from __future__ import annotations

from hacs_crawler.cluster import connected
from hacs_crawler.config import Config
from hacs_crawler.exceptions import ClusterError, ConfigError
from hacs_crawler.ranking.distributed import distributed_plan
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, make_plan
from hacs_crawler.state import State
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


def planned(
    state: State, config: Config, options: RankingOptions, now: float, controls: int
) -> Plan:
    """Return the plan of all that the state knows, see `make_plan`.

    A Dask cluster makes it where HACS_PLANNER names one. One that cannot make it, or is lost meanwhile,
    costs a line in the log: then this process does.
    """
    if config.planner is not None:
        try:
            with connected(config.planner) as cluster:
                shards = [(config.state_arguments, state)]
                return distributed_plan(cluster, shards, options, now, controls=controls)
        except (ClusterError, ConfigError) as error:
            logger.warning("HACS_PLANNER: %s; this process makes the plan", error)
    return make_plan(state, options, now, controls=controls)
