"""A crawl's plan: who makes it, and what of it is not requests yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import numpy as np
from scrapy import Request

from hacs_crawler.cluster import connected
from hacs_crawler.config import Config
from hacs_crawler.exceptions import ClusterError, ConfigError
from hacs_crawler.ranking.distributed import distributed_plan
from hacs_crawler.ranking.families import Families
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, make_plan, plan_and_families
from hacs_crawler.state import Label, Prediction, State
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

MakeRequests = Callable[[Sequence[int]], Awaitable[dict[int, Request]]]
"""Makes requests for known pages by their ids; raises StateError."""


def ranks_anew(config: Config) -> bool:
    """Whether what waits is ranked anew in a run: its order is by p, and one for the whole crawl."""
    options = config.ranking
    policies = [arm.policy for arm in options.experiment.arms]
    return (
        len(policies) == 1
        and policies[0].is_by_p
        and policies[0].is_pointwise
        and options.counts_siblings
        and not config.rank_window
    )


def planned(
    state: State, config: Config, options: RankingOptions, now: float, controls: int
) -> tuple[Plan, Families]:
    """Return the plan of all that the state knows, see `make_plan`, and the siblings of its pages.

    Siblings are looked for only where pages are ranked anew. A Dask cluster makes the plan where
    HACS_PLANNER names one; it does not tell siblings. One that cannot make it, or is lost meanwhile,
    costs a line in the log: then this process does.
    """
    if config.planner is not None:
        try:
            with connected(config.planner) as cluster:
                shards = [(config.state_arguments, state)]
                plan = distributed_plan(cluster, shards, options, now, controls=controls)
                return plan, Families()
        except (ClusterError, ConfigError) as error:
            logger.warning("HACS_PLANNER: %s; this process makes the plan", error)
    if not ranks_anew(config):
        return make_plan(state, options, now, controls=controls), Families()
    return plan_and_families(state, options, now, controls=controls)


class PlannedPages:
    """The pages of a plan that become requests bit by bit, best first.

    Meanwhile some may be ranked anew, or asked for before their turn, and the last ones left out.
    """

    def __init__(self, plan: Plan, families: Families, labels: Sequence[Label], run: int) -> None:
        self.plan = plan
        self.families = families
        self._labels = labels
        self._run = run
        self._next = 0
        self._end = len(plan)
        self._order = np.argsort(plan.page_ids)
        self._asked: set[int] = set()
        self._anew: dict[int, tuple[float, Prediction]] = {}

    def __len__(self) -> int:
        return len(self.plan)

    def ahead(self, most: int) -> list[int]:
        """Return the places of the pages that are next, so many at most."""
        return list(range(self._next, min(self._next + most, self._end)))

    def predictions(self, places: Sequence[int]) -> list[Prediction]:
        """Return what the plan predicts of pages at places one after the other."""
        return self.plan.predictions(slice(places[0], places[-1] + 1), self._labels, self._run)

    def take(self, place: int, prediction: Prediction) -> tuple[float, Prediction] | None:
        """Return a page's score and what is predicted of it now; None where it is not to be asked for.

        To be called for one place after the other.
        """
        self._next = place + 1
        page_id = int(self.plan.page_ids[place])
        if place >= self._end or page_id in self._asked:
            return None
        self._asked.add(page_id)
        return self._anew.pop(page_id, (float(self.plan.score[place]), prediction))

    def note_ranked(self, page_id: int, score: float, prediction: Prediction) -> None:
        """Note that a page was ranked anew."""
        if self._place_of(page_id) is not None:
            self._anew[page_id] = (score, prediction)

    def could_come(self, page_id: int, score: float) -> bool:
        """Whether a page may be asked for now: it was not, and is better than those that are next."""
        if page_id in self._asked:
            return False
        is_next = self._next < self._end and score > self.plan.score[self._next]
        return self._place_of(page_id) is None or is_next

    def take_early(self, page_id: int) -> bool:
        """Take a page of the plan before its turn; returns whether it is one that waits for its turn."""
        if self._place_of(page_id) is None:
            return False
        self._asked.add(page_id)
        return True

    def leave_out_last(self, score: float) -> bool:
        """Leave out the plan's last page, where its score is below that; returns whether it was."""
        while self._end > self._next:
            last = int(self.plan.page_ids[self._end - 1])
            if last not in self._asked:
                if self._score_at(self._end - 1) >= score:
                    return False
                self._end -= 1
                return True
            self._end -= 1
        return False

    def note_asked(self, page_id: int) -> None:
        """Note that a page is asked for that may not be of the plan."""
        self._asked.add(page_id)

    def _score_at(self, place: int) -> float:
        page_id = int(self.plan.page_ids[place])
        return self._anew[page_id][0] if page_id in self._anew else float(self.plan.score[place])

    def _place_of(self, page_id: int) -> int | None:
        """Return where in the rest of the plan a page stands."""
        ids = self.plan.page_ids
        at = int(np.searchsorted(ids, page_id, sorter=self._order))
        if at == len(ids) or ids[self._order[at]] != page_id:
            return None
        place = int(self._order[at])
        return place if self._next <= place < self._end and page_id not in self._asked else None
