"""Plans across shards: ranks the pages of all shards together, and begins rounds."""

import secrets
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.bound import reach_of
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.finalists import Finalists, finalists_of, merged
from hacs_crawler.ranking.instant import with_hubs
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, plan_from, plan_of, read_rows
from hacs_crawler.shards.joined import JoinedState, open_shards
from hacs_crawler.shards.lock import shard_lock
from hacs_crawler.shards.rounds import Round, ShardShare, open_rounds
from hacs_crawler.state import Ids, Rows, SetAside, State, shards_of, without_future
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


def plan_of_all(
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    *,
    ids_and_rows: tuple[Ids, Rows] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Return the plan of a state, or of joined shards; see `make_plan`.

    `ids_and_rows` are all pages of the state, if read already.
    """
    if isinstance(state, JoinedState):
        return plan_of_shards(state.states, options, now, limit, warns=ids_and_rows is None)[0]
    return plan_of(*(ids_and_rows or read_rows(state, progress, now)), state, options, now, limit)


def plan_of_shards(
    states: Sequence[State],
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    *,
    only_seen: bool = False,
    warns: bool = True,
) -> tuple[Plan, list[Ids]]:
    """Return the plan of all pages, or of visited ones (`only_seen`), and each shard's ranked pages.

    Shards are ranked one after the other, and again if pages that were not ranked may be better than the
    worst of the plan. Pages of the same score are taken from all shards by turns. Visits later than now
    are set aside, and logged if it `warns`. Raises ConfigError, StateError.
    """
    set_aside: dict[int, SetAside] = {}
    options = options.seeded(secrets.randbits(63))  # the same in every shard
    quota = wanted = Quota(options.budget).within(limit)
    parts, to_rank = dict[int, Finalists](), dict(enumerate(states))
    while to_rank:
        for index, state in to_rank.items():
            page_ids, rows = read_rows(state)
            rows, future = without_future(state, page_ids, rows, now)
            set_aside |= {index: future} if future else {}
            if only_seen:
                is_seen = rows["visits"] > 0
                page_ids, rows = page_ids[is_seen], rows[is_seen]
            ranking = with_hubs(options, state, now), now, wanted
            part = finalists_of(page_ids, rows, state, *ranking, is_first_try=index not in parts)
            parts[index] = replace(part, places=part.places * len(states) + index)
        finalists = merged([*parts.values()], quota)
        if quota.budget and len(finalists) >= quota.budget:
            wanted = replace(quota, least=float(finalists.score.min()))
        reach = reach_of(wanted.least)
        to_rank = {index: states[index] for index in parts if parts[index].unranked > reach}
    if set_aside and warns:
        pages, latest = zip(*set_aside.values(), strict=True)
        logger.warning("%s", SetAside(sum(pages), max(latest)))
    plan = plan_from(finalists, quota)
    return plan, [part.candidates.page_ids for part in parts.values()]


def plan_round(config: Config, count: int) -> tuple[Round, int]:
    """Begin a round of all shards of a state; return it, and the number of known pages.

    One prior is fitted to the pages of all shards, so that scores are comparable, and the pages are
    ranked. The cut-off is the score of the last page within HACS_BUDGET. Pages that were never seen
    get their share of it (HACS_DISCOVER), or a visit for each that the last round left. Raises
    ConfigError, StateError; the latter also if a shard is being crawled.
    """
    for shard in shards_of(count):
        lock = shard_lock(config.state, replace(config, shard=shard).own_namespace, config.base)
        if (holder := lock.take()) is not None:
            raise StateError(f"shard {shard} is crawled by {holder}: no other round can begin")
        lock.release()
    options, now = config.ranking, config.clock()
    quota = Quota(options.budget).sharing(options.discover)
    cut_off, pages, shares = None, 0, [ShardShare() for _ in range(count)]
    joined = open_shards(config, count, reads_only=False)
    shards = nullcontext() if joined is None else closing(joined)
    with shards, closing(open_rounds(config, count)) as notes:
        before = notes.read()
        # a round's visits are told from earlier ones by the second in which it began
        if before is not None and int(now) <= max(share.counted_at for share in before.shards):
            time.sleep(1.0 - now % 1.0)
            now = config.clock()
        kept = min(notes.unseen(), quota.budget or 0) if quota.unseen is None else 0
        if joined is not None:
            joined.refit_prior()
            pages = joined.store.count()
            if quota.budget is not None:
                budget, only_seen = quota.budget - (quota.unseen or kept), quota.unseen is not None
                bounded = replace(options, budget=max(budget, 1))
                plan, ranked = plan_of_shards(joined.states, bounded, now, only_seen=only_seen)
                cut_off = float(plan.score[-1]) if len(plan) >= budget else None
                plan.demanded.log(logger, int(plan.is_overdue.sum()), budget)
                for shard, ids in zip(joined.shards, ranked, strict=True):
                    shares[shard.index].planned = int(np.isin(ids, plan.page_ids).sum())
        began = max(int(now), before.began + 1 if before else 0)
        round_ = Round(began, quota.budget, quota.unseen, cut_off, shares, kept)
        notes.write(round_)
    return round_, pages
