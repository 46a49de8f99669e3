"""What visits take, of many pages at once, and the policy that goes by it."""

from __future__ import annotations

import numpy as np
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.parts.rendering.verdicts import PageRendering, Verdict
from hacs_crawler.ranking.costs import LEAST_SECONDS, PLAIN_SECONDS, Costs, read_costs
from hacs_crawler.ranking.plan import make_plan
from hacs_crawler.ranking.policies import POLICIES, Candidates, hacs
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.page import Visit
from hacs_crawler.state.store import Annotation
from hacs_crawler.utils.times import DAY


def state_of(marks: dict[int, bytes]) -> State:
    store = MemoryStore()
    store.annotate(
        PageRendering.KIND, [Annotation(key, b"", value) for key, value in marks.items()]
    )
    return State(store, Estimation())


def test_costs_are_joined_to_the_pages_asked_for() -> None:
    marks = {
        7: PageRendering(seconds=2.0),
        -3: PageRendering(Verdict.BROWSER, rendered=True, seconds=4.0),
        5: PageRendering(seconds=0.001),
        9: PageRendering(Verdict.PLAIN),
    }
    state = state_of({key: mark.encoded() for key, mark in marks.items()} | {11: b"damaged"})
    found = read_costs(state).of(np.array([9, 7, 1, -3, 5, 11, 2**62]))
    assert found.tolist() == [
        PLAIN_SECONDS,
        2.0,
        PLAIN_SECONDS,
        4.0,
        LEAST_SECONDS,
        PLAIN_SECONDS,
        PLAIN_SECONDS,
    ]


def test_where_nothing_is_known_every_page_costs_what_a_plain_answer_does() -> None:
    costs = read_costs(state_of({}))
    assert costs.of(np.array([1, 2])).tolist() == [PLAIN_SECONDS] * 2
    assert len(costs.of(np.zeros(0, np.int64))) == 0


def candidates(p: list[float]) -> Candidates:
    number = len(p)
    zeros, counts = np.zeros(number), np.zeros(number, np.int64)
    return Candidates(
        page_ids=np.arange(number),
        rate_per_day=zeros,
        fast_share=zeros,
        fast_per_day=zeros,
        slow_per_day=zeros,
        days_since_visit=zeros,
        days_since_update=zeros,
        p=np.array(p),
        visits=counts,
        updates=counts,
        failures=counts,
        churn=zeros,
        churning=zeros,
        seed=0,
    )


def test_a_page_that_takes_ten_times_as_long_has_to_be_worth_ten_others() -> None:
    score = Costs(np.arange(3), np.array([5.0, 0.5, 0.5])).score(candidates([0.9, 0.1, 0.8]))
    assert np.argsort(-score).tolist() == [2, 1, 0]


def test_without_costs_the_order_is_that_of_p() -> None:
    pages = candidates([0.9, 0.1, 0.8])
    assert POLICIES["per-cost"](pages).tolist() == hacs(pages).tolist()


def test_costs_of_one_page_are_found() -> None:
    costs = Costs(np.array([4]), np.array([3.0]))
    assert costs.of(np.array([5, 4, 3])).tolist() == [PLAIN_SECONDS, 3.0, PLAIN_SECONDS]


def test_a_plan_goes_by_what_visits_take_where_the_policy_asks_for_it() -> None:
    now = 1_000 * DAY
    urls = ["http://a.edu/", "http://b.edu/"]
    state = State(MemoryStore(), Estimation())
    state.record(
        [
            Visit(url, now - days * DAY, marks=frozenset({1}))
            for url, last in zip(urls, (3, 2), strict=True)
            for days in (last + 2, last)
        ]
    )
    slow = PageRendering(Verdict.BROWSER, rendered=True, seconds=5.0)
    state.store.annotate(PageRendering.KIND, [Annotation(page_id_of(urls[0]), b"", slow.encoded())])
    plans = {}
    for policy in ("hacs", "per-cost"):
        options = Config.from_settings(Settings({"HACS_POLICY": policy})).ranking
        plans[policy] = make_plan(state, options, now)
    ids = [page_id_of(url) for url in urls]
    assert plans["hacs"].page_ids.tolist() == ids
    assert plans["per-cost"].page_ids.tolist() == ids[::-1]
