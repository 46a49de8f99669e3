"""When rounds of the instant tier begin, whom they visit, and what that takes of the budget."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from crawl_support import Timers, open_crawl
from hacs_crawler.model import update_index
from hacs_crawler.parts import instant
from hacs_crawler.parts.instant import MOST_SHARE, InstantTier
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.options import InstantOptions, RankingOptions
from hacs_crawler.ranking.policies import POLICIES
from row_states import hubs_of

COUNTED = {"instant/rounds": 3, "instant/visits": 7, "instant/updates": 2, "instant/new_links": 1}

STATS = ("rounds", "sent", "hubs", "price")


@pytest.fixture
def timers() -> Timers:
    return Timers()


def tier_of(timers: Timers, budget: int | None) -> InstantTier:
    options = InstantOptions(Path("instant.txt"))
    ranking = RankingOptions(POLICIES["interest"], budget=budget, instant=options)
    tier = InstantTier(ranking, lambda name: COUNTED.get(name, 0), timers.clock)
    tier.is_running = True
    return tier


def round_of(tier: InstantTier, *values: float) -> list[int]:
    """Begin a round; the numbers of the hubs visited, all of which answer."""
    urls = tier.round(hubs_of(*values))
    for url in urls:
        tier.on_answer(url)
    return [int(url[len("http://h")]) for url in urls]


def test_rounds_are_minutes_apart(timers: Timers) -> None:
    tier = tier_of(timers, None)
    assert tier.due_in() <= 0
    round_of(tier, 1.0)
    assert tier.due_in() == 300.0
    timers.go_on(299)
    assert tier.due_in() == 1.0


def test_without_a_budget_visits_cost_nothing(timers: Timers) -> None:
    tier = tier_of(timers, None)
    assert round_of(tier, 0.01, 2.0, 0.0) == [1, 0]
    assert tier.quota(Quota()).budget is None


def test_a_hub_that_has_not_answered_yet_is_not_asked_again(timers: Timers) -> None:
    tier = tier_of(timers, None)
    (url,) = tier.round(hubs_of(1.0))
    assert tier.round(hubs_of(1.0)) == []
    tier.on_answer(url)
    assert tier.round(hubs_of(1.0)) == [url]
    timers.go_on(3601)
    assert tier.round(hubs_of(1.0)) == [url]


def test_by_value_hubs_are_visited_that_are_worth_more_than_the_last_page(timers: Timers) -> None:
    tier = tier_of(timers, 10)
    assert tier.quota(tier._quota).budget == 5
    tier.chosen(np.zeros(0), twice=5)
    assert tier.price == 0.0
    tier._spent = 0
    tier.chosen(np.array([0.9, 0.8, 0.7]), twice=0)
    assert tier.price == 0.0
    tier.chosen(np.array([0.6]), twice=1)
    assert tier.price == pytest.approx(float(update_index(0.6)))
    assert round_of(tier, 0.1, 0.5, 0.3) == [1, 2]


@pytest.mark.parametrize(("visits", "left"), [(3, 7), (60, 10 - MOST_SHARE * 10)])
def test_what_the_tier_takes_up_to_its_share_is_missing_in_the_next_round(
    visits: int, left: float, timers: Timers
) -> None:
    tier = tier_of(timers, 10)
    for _ in range(visits):
        round_of(tier, 5.0)
    for budget in (left, 10):
        asyncio.run(tier.round_began())
        assert tier.quota(tier._quota).budget == budget


def test_where_the_budget_is_not_used_up_the_price_falls_to_nothing(timers: Timers) -> None:
    tier = tier_of(timers, 4)
    tier.chosen(np.array([0.9, 0.8]), twice=0)
    asyncio.run(tier.round_began())
    assert tier.price > 0
    tier.chosen(np.array([0.9, 0.8, 0.7]), twice=0)
    asyncio.run(tier.round_began())
    assert tier.price == 0.0


def test_one_visit_in_twenty_is_for_a_hub_that_would_never_be_due(timers: Timers) -> None:
    tier = tier_of(timers, None)
    tier.price = 1.0
    visited = [round_of(tier, 5.0, 0.5) for _ in range(40)]
    assert visited.count([0, 1]) == 2
    assert all(0 in urls for urls in visited)


def test_a_crawl_without_rounds_of_the_tier_keeps_its_budget(timers: Timers) -> None:
    tier = tier_of(timers, 10)
    tier.is_running = False
    assert tier.quota(tier._quota).budget == 10


async def test_requests_for_hubs_come_between_those_for_other_pages(
    timers: Timers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def others() -> AsyncIterator[str]:
        yield "page"

    monkeypatch.setattr(instant, "hubs_now", lambda *_: hubs_of(2.0, 0.1, 1.0))
    tier = tier_of(timers, 10)
    tier.is_running, tier.price = False, 0.123456
    async with open_crawl(tmp_path) as crawl:
        asked = [
            one async for one in instant.with_tier(crawl, tier, others(), lambda url: url[7:9])
        ]
        assert asked == ["h0", "h2", "page"]
        assert tier.is_running
        counted = map(crawl.crawler.stats.get_value, map("hacs/instant/{}".format, STATS))
        assert list(counted) == [1, 2, 3, 0.1235]


def test_what_the_tier_did_is_said_once(timers: Timers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    tier = tier_of(timers, None)
    tier.sum_up()
    tier.sum_up()
    assert caplog.messages == [
        "Instant tier: 3 rounds, 7 visits to hubs, 2 updates with 1 new link"
    ]
