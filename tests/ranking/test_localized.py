"""p of pages whose rate changes with time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.model import unpacked_trend
from hacs_crawler.ranking.plan import make_plan
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.utils.times import DAY

URL = "http://example.edu/~ada/"
FIRST = 20_000 * DAY


def state() -> tuple[State, Page]:
    """A page seen daily for 60 days, with its last update found on day 40."""
    found = State(MemoryStore(), Estimation("weibull"))
    updates = (3, 9, 20, 24, 30, 40)
    found.record(
        [
            Visit(URL, FIRST + day * DAY, marks=frozenset(at for at in updates if at <= day))
            for day in range(61)
        ]
    )
    (page,) = (page for page in found.pages() if page is not None)
    return found, page


def expected(page: Page, days: float) -> float:
    """Updates from the window's origin to so many days after the last visit."""
    points, shape = (float(one) for one in unpacked_trend(np.float32(page.log_sd)))
    watched = points * shape / page.rate
    return points * ((watched + days) / watched) ** shape


@pytest.mark.parametrize(("elapsed_from", "since"), [("visit", 0), ("update", -20)])
def test_p_is_of_the_updates_expected_since_the_last_visit_or_update(
    elapsed_from: str, since: int
) -> None:
    found, page = state()
    options = Config.from_settings(Settings({"HACS_ELAPSED_FROM": elapsed_from})).ranking
    plan = make_plan(found, options, FIRST + 70 * DAY)
    p = 1 - math.exp(expected(page, since) - expected(page, 10))
    assert plan.p.tolist() == pytest.approx([p], rel=1e-5)
