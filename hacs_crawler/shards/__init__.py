"""Shards of one state: locks, rounds, a joined view of their states, and a runner for their crawls."""

from typing import TYPE_CHECKING

from hacs_crawler.utils.faces import face

if TYPE_CHECKING:
    from hacs_crawler.shards.crawls import ShardCrawls as ShardCrawls
    from hacs_crawler.shards.engine import (
        dask_pool as dask_pool,
        local_pool as local_pool,
        start_server as start_server,
    )
    from hacs_crawler.shards.joined import (
        JoinedState as JoinedState,
        found_shards as found_shards,
        open_shards as open_shards,
        state_of as state_of,
        states_in as states_in,
    )
    from hacs_crawler.shards.lock import ShardLock as ShardLock, shard_lock as shard_lock
    from hacs_crawler.shards.plan import plan_of_all as plan_of_all, plan_round as plan_round
    from hacs_crawler.shards.rounds import (
        Round as Round,
        RoundNotes as RoundNotes,
        ShardShare as ShardShare,
        open_rounds as open_rounds,
    )

__getattr__ = face(__name__, __file__)
