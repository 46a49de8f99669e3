"""What would be crawled now: every page that the state knows, ranked as the scheduler ranks seeds."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, fields

import numpy as np

from hacs_crawler.ranking.candidates import taken
from hacs_crawler.ranking.choice import Quota, choose
from hacs_crawler.ranking.demands import Demanded, is_overdue
from hacs_crawler.ranking.finalists import Finalists, finalists_of
from hacs_crawler.ranking.instant import with_hubs
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.state import (
    ROW,
    Ids,
    Label,
    Prediction,
    Rows,
    State,
    predictions,
    without_future,
)
from hacs_crawler.utils.arrays import BoolArray
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Candidates):
    """The pages that a crawl would visit now, best first: `Candidates` with more arrays.

    `score` is the policy's, `visit_twice` says which pages get a control visit. With fewer than
    `VISITS_OF_A_RATE` visits, λ is the prior's. `demanded` sums the demands on all pages; its overdue
    pages are those that the budget leaves out.
    """

    score: Floats
    visit_twice: BoolArray
    # Pages in the state.
    known: int
    # Pages that are gone and not to be visited yet.
    waiting: int
    # Pages visited a shorter time ago than HACS_EVERY allows.
    early: int
    below_threshold: int
    # Pages over the budget or the limit.
    left_out: int
    demanded: Demanded

    def __len__(self) -> int:
        return len(self.page_ids)

    @property
    def is_overdue(self) -> BoolArray:
        """Which pages come first of all: the longest interval has passed."""
        return is_overdue(self.score)

    def predictions(self, places: slice, label: Label, run: int) -> list[Prediction]:
        """Return the predictions for some pages, with that label, in the run of that second."""
        return predictions(
            label.number,
            run,
            p=self.p[places],
            rate_per_day=self.rate_per_day[places],
            days_since_visit=self.days_since_visit[places],
            churn=self.churn[places],
        )


def make_plan(
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    progress: Progress | None = None,
    *,
    quota: Quota | None = None,
) -> Plan:
    """Return the pages that `scrapy crawl scholar -a seeds=state` would visit, in its order.

    `now` is in seconds since 1970 UTC. With `limit` only the first pages are returned. `quota` is a
    crawl's; None for the options' budget. Takes memory in proportion to the known pages, and makes no
    Python object per page. Raises StateError, and ConfigError if a policy does not return one number a
    page.
    """
    page_ids, rows = read_rows(state, progress, now)
    return plan_of(page_ids, rows, state, options, now, limit, quota=quota)


def read_rows(
    state: State, progress: Progress | None = None, now: float | None = None
) -> tuple[Ids, Rows]:
    """Return the ids and the ranking rows of every page known, in the store's order.

    With `now`, in seconds since 1970 UTC, visits later than that are set aside, and logged.
    """
    total = state.store.count() if progress is not None else 0
    # they grow in place: joining parts at the end would take twice the memory
    ids, rows = bytearray(), bytearray()
    for some_ids, some_rows in state.store.all_rows():
        ids += some_ids.tobytes()
        rows += some_rows.tobytes()
        if progress is not None:
            number = len(ids) // 8
            progress.update(f"{number} pages", number, total)
    page_ids, kept_rows = np.frombuffer(ids, np.int64), np.frombuffer(rows, ROW)
    if now is None:
        return page_ids, kept_rows
    kept_rows, future = without_future(state, page_ids, kept_rows, now)
    if future is not None:
        logger.warning("%s", future)
    return page_ids, kept_rows


def plan_of(
    page_ids: Ids,
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    *,
    quota: Quota | None = None,
) -> Plan:
    """Return the plan of pages whose ranking rows were read, see `make_plan`."""
    quota = quota or Quota(options.budget)
    options = with_hubs(options, state, now)
    options = options.seeded(secrets.randbits(63))  # the same in every block
    finalists = finalists_of(page_ids, rows, state, options, now, quota.within(limit))
    return plan_from(finalists, quota, limit)


def plan_from(finalists: Finalists, quota: Quota, limit: int | None = None) -> Plan:
    """Return the plan that chooses among finalists, see `make_plan`."""
    picks = choose(finalists.candidates, finalists.score, quota, limit)
    winners, visit_twice = picks.places[:limit], picks.visit_twice[:limit]
    best = taken(finalists.candidates, winners)
    score = finalists.score[winners]
    return Plan(
        **{field.name: getattr(best, field.name) for field in fields(Candidates)},
        score=score,
        visit_twice=visit_twice,
        known=finalists.known,
        waiting=finalists.waiting,
        early=finalists.early,
        below_threshold=finalists.below_threshold,
        left_out=finalists.eligible - len(winners),
        demanded=finalists.demanded.without(int(is_overdue(score).sum())),
    )
