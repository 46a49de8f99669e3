"""The instant tier: its hubs, what is learned of their links, and who is due."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad

from hacs_crawler.exceptions import ConfigError, HacsError
from hacs_crawler.lab.interest.curves import lognormal_cumulative
from hacs_crawler.links import page_id_of
from hacs_crawler.ranking.demands import weights_of
from hacs_crawler.ranking.instant import (
    ListedHub,
    Tier,
    due,
    hub_rate,
    hubs_now,
    instant_index,
    learned,
    links_gained,
    read_hubs,
    read_tier,
    tier_rate,
    with_hubs,
)
from hacs_crawler.ranking.options import InstantOptions, RankingOptions, instant_options
from hacs_crawler.ranking.plan import make_plan
from hacs_crawler.ranking.policies import POLICIES, interest, policy_of
from hacs_crawler.state import Estimation, MemoryStore, News, Page, State, Visit, shards_of
from hacs_crawler.utils.times import DAY
from row_states import hubs_of

NOW = 1_700_000_000
HOUR = 3600
NEWS = "http://news.example/"
BLOG = "http://blog.example/"
HOME = "http://home.example/~ada/"


@pytest.fixture
def state() -> State:
    return State(MemoryStore(), Estimation())


@pytest.fixture
def options(tmp_path: Path) -> RankingOptions:
    file = tmp_path / "instant.txt"
    file.write_text(
        f"{NEWS} # 0.9: 9 of 10 pages temporal; mu=-1 sigma=0.8 worth=2\n"
        f"{BLOG} # 0.4: 4 of 10 pages temporal; mu=0.5 sigma=1 worth=1\n"
    )
    return RankingOptions(POLICIES["interest"], instant=InstantOptions(file))


def visits(url: str, *links_at: tuple[int, int]) -> list[Visit]:
    """Visits at these seconds before now, each of which shows so many links in all."""
    return [
        Visit(url, NOW - before, marks=frozenset(range(1, number + 1)))
        for before, number in links_at
    ]


def a_tier(options: RankingOptions) -> Tier:
    assert options.instant is not None
    return read_tier(options.instant)


def place_of(tier: Tier, url: str) -> int:
    return tier.urls.index(url)


def test_hubs_have_the_curves_of_the_list(options: RankingOptions) -> None:
    tier = a_tier(options)
    news = place_of(tier, NEWS)
    assert (tier.mu[news], tier.sigma[news], tier.worth[news]) == (-1.0, 0.8, 2.0)
    assert tier.page_ids.tolist() == sorted(map(page_id_of, (NEWS, BLOG)))


def test_of_several_shards_each_has_its_own_hubs(options: RankingOptions) -> None:
    assert options.instant is not None
    tiers = [read_tier(options.instant, shard).urls for shard in shards_of(7)]
    assert sorted(url for urls in tiers for url in urls) == sorted((NEWS, BLOG))
    for shard, urls in zip(shards_of(7), tiers, strict=True):
        assert set(urls) == {url for url in (NEWS, BLOG) if shard.has(url)}


def test_a_shard_without_hubs_has_none_to_visit(state: State, options: RankingOptions) -> None:
    other = next(shard for shard in shards_of(7) if not (shard.has(NEWS) or shard.has(BLOG)))
    assert len(due(hubs_now(state, options, NOW, other), 0.0, 9, 1)) == 0


@pytest.mark.parametrize(
    ("seen", "gained"),
    [
        ([(2 * DAY, 10), (DAY, 22), (12 * HOUR, 40)], (30, 1.5)),
        ([(90 * DAY, 10), (60 * DAY, 1000), (10 * DAY, 1001), (0, 1005)], (4, 10.0)),
        ([(DAY, 10)], (0.0, 0.0)),
        ([], (0.0, 0.0)),
    ],
    ids=["not the first ones", "nor those of long ago", "seen once", "never seen"],
)
def test_links_are_counted_over_the_days_between_visits(
    seen: list[tuple[int, int]], gained: tuple[float, float], state: State
) -> None:
    state.record(visits(NEWS, *seen))
    pages = state.load([page_id_of(NEWS)])
    assert links_gained(pages.get(page_id_of(NEWS), Page(NEWS)), NOW) == gained


def test_a_hub_never_seen_is_taken_for_as_busy_as_its_tier(
    state: State, options: RankingOptions
) -> None:
    tier = a_tier(options)
    assert learned(tier, state, NOW).links_per_day.tolist() == [24.0, 24.0]
    state.record(visits(NEWS, (9 * DAY, 10), (0, 910)))
    after = learned(tier, state, NOW)
    assert after.links_per_day[place_of(tier, NEWS)] == pytest.approx(100, rel=0.01)
    assert after.links_per_day[place_of(tier, BLOG)] == pytest.approx((24 + 900) / 10)


def test_a_visit_of_a_hub_is_worth_its_index_and_of_a_hub_that_is_gone_nothing(
    state: State, options: RankingOptions
) -> None:
    state.record([*visits(NEWS, (9 * DAY, 10), (HOUR, 910)), Visit(BLOG, NOW - 60, News.GONE)])
    hubs = hubs_now(state, options, NOW)
    news, blog = (place_of(hubs.tier, url) for url in (NEWS, BLOG))
    rate = hubs.tier.links_per_day[news]
    assert hubs.value[news] == pytest.approx(float(instant_index(1 / 24, rate, -1, 0.8, 2)))
    assert hubs.days_since_visit[news] == pytest.approx(1 / 24)
    assert hubs.value[blog] == 0.0


class NothingButPages(MemoryStore):
    """A store of which the whole is not to be read."""

    def all_rows(self, after: int | None = None, part: object = None) -> NoReturn:
        pytest.fail("the whole state is read")


def test_a_round_of_the_tier_reads_its_own_pages_only(options: RankingOptions) -> None:
    state = State(NothingButPages(), Estimation())
    state.record([*visits(NEWS, (DAY, 10), (HOUR, 20)), *visits(HOME, (DAY, 1))])
    loaded: list[int] = []
    load = state.store.load

    def noted(page_ids: Sequence[int]) -> dict[int, bytes]:
        loaded.extend(page_ids)
        return load(page_ids)

    state.store.load = noted
    hubs = hubs_now(state, options, NOW)
    assert hubs.value[place_of(hubs.tier, NEWS)] > 0
    assert set(loaded) == {page_id_of(NEWS), page_id_of(BLOG)}


def test_due_are_the_hubs_worth_more_than_the_price_best_first() -> None:
    hubs = hubs_of(1.0, 3.0, 0.5, 2.0)
    assert due(hubs, 0.8, most=10, explore=0).tolist() == [1, 3, 0]
    assert due(hubs, 0.8, most=2, explore=0).tolist() == [1, 3]
    assert due(hubs, 0.5, most=10, explore=0).tolist() == [1, 3, 0]
    assert due(hubs, 5.0, most=10, explore=0).tolist() == []
    assert due(hubs, 0.8, most=0, explore=1).tolist() == []


def test_exploration_takes_the_hub_not_visited_for_longest_of_those_not_due() -> None:
    hubs = hubs_of(1.0, 3.0, 0.5, 0.6, 0.0, days=[1.0, 9.0, 2.0, 5.0, math.inf])
    assert due(hubs, 0.8, most=10, explore=1).tolist() == [1, 0, 3]
    assert due(hubs, 0.8, most=2, explore=1).tolist() == [1, 3]


def test_hubs_and_pages_are_ranked_by_what_a_visit_is_worth(
    state: State, options: RankingOptions
) -> None:
    state.record(visits(NEWS, (9 * DAY, 10), (6 * HOUR, 910)))
    state.record(visits(BLOG, (9 * DAY, 10), (60, 11)))
    state.record(visits(HOME, (9 * DAY, 10), (2 * DAY, 11)))
    plan = make_plan(state, options, NOW)
    ranked = [state.load([one])[one].url for one in plan.page_ids.tolist()]
    assert ranked == [NEWS, HOME, BLOG]


def test_a_weight_counts_for_hubs_and_pages(state: State, options: RankingOptions) -> None:
    state.record([*visits(NEWS, (DAY, 10), (HOUR, 20)), *visits(HOME, (9 * DAY, 10), (DAY, 11))])
    heavy = replace(options, weights=weights_of({"example": 3}))
    one, three = (make_plan(state, chosen, NOW).score for chosen in (options, heavy))
    assert three == pytest.approx(3 * one)


def test_without_a_list_the_policy_ranks_by_p(state: State, options: RankingOptions) -> None:
    for place, url in enumerate((NEWS, BLOG, HOME)):
        state.record(visits(url, (9 * DAY, 10), ((place + 1) * DAY, 10 + place)))
    plain = RankingOptions(options.policy)
    by_p = RankingOptions(POLICIES["hacs"])
    assert make_plan(state, plain, NOW).page_ids.tolist() == (
        make_plan(state, by_p, NOW).page_ids.tolist()
    )


def test_the_policy_may_be_named_by_its_function_too(state: State, options: RankingOptions) -> None:
    named = replace(options, policy=policy_of("my.interest", interest))
    found = with_hubs(named, state, NOW).policy
    assert found.name == "my.interest"
    assert isinstance(found.score, partial)


def test_the_list_is_read_only_if_the_policy_goes_by_it(
    state: State, options: RankingOptions, tmp_path: Path
) -> None:
    missing = InstantOptions(tmp_path / "missing.txt")
    by_p = RankingOptions(POLICIES["hacs"], instant=missing)
    assert with_hubs(by_p, state, NOW) is by_p
    with pytest.raises(
        ConfigError, match=r"HACS_INSTANT: .*missing\.txt: cannot read the list of hubs"
    ):
        with_hubs(RankingOptions(options.policy, instant=missing), state, NOW)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a.txt", InstantOptions(Path("a.txt"))),
        ({"list": "/b", "update_value": 3}, InstantOptions(Path("/b"), update_value=3.0)),
        ('{"list": "a.txt", "minutes": 2}', InstantOptions(Path("a.txt"), minutes=2.0)),
    ],
)
def test_the_setting_is_a_file_or_an_object(value: object, expected: InstantOptions) -> None:
    assert instant_options(value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{not json", "an object in JSON"),
        (7, "the file that `hacs interest seeds` wrote"),
        ({"minutes": 5}, "the file that `hacs interest seeds` wrote"),
        ({"list": "a", "minutes": 0}, "as minutes a number of at least 0.001 and at most 1440"),
        ({"list": "a", "update_value": 0}, "as update_value a number of at least 0.001"),
        ({"list": "a", "hours": 2}, "unknown field `hours`"),
    ],
)
def test_a_wrong_setting_is_named(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        instant_options(value)


# The list of hubs: what is written of each, and read again


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    hubs = [
        ListedHub("https://a.example/", -0.25, 0.9, 1.5),
        ListedHub("https://b.example/news/", 1.0, 1.2, 0.004),
    ]
    file = tmp_path / "instant.txt"
    file.write_text("".join(f"{hub.line('0.812: 3 of 4 pages temporal')}\n" for hub in hubs))
    assert read_hubs(file) == hubs


def test_any_seed_file_is_a_list(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text(
        "\ufeff# hubs\n\nhttps://a.example/#top\nhttps://b.example/ # my own\n"
        "https://b.example/ # 0.1: x\n"
    )
    assert read_hubs(file) == [ListedHub("https://a.example/#top"), ListedHub("https://b.example/")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing\n", "there is no hub in it"),
        ("https://a.example/\nnews\n", "line 2: "),
        ("https://a.example/ # mu=0 sigma=0\n", "line 1: sigma=0: must be 0.01 to 20"),
        ("https://a.example/ # worth=-1\n", "worth=-1: must be"),
        ("https://a.example/\n\xff", "not UTF-8"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "instant.txt"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(HacsError, match=message) as error:
        read_hubs(file)
    assert str(file) in str(error.value)


# What a visit of a hub is worth, against numerical integration


mus = st.floats(-3.0, 3.0)
sigmas = st.floats(0.2, 2.0)
rates = st.floats(0.01, 1000.0)
days = st.floats(0.001, 100.0)


def mean_days(mu: float, sigma: float) -> float:
    """The mean time of interest in a link."""
    return float(np.exp(mu + sigma**2 / 2))


def rest(t: float, mu: float, sigma: float) -> float:
    return float(1.0 - lognormal_cumulative(t, np.array(mu), np.array(sigma)))


@given(days, rates, mus, sigmas, st.floats(0.1, 10.0))
def test_the_index_is_the_interest_left_in_new_links_without_what_waiting_adds(
    e: float, rate: float, mu: float, sigma: float, worth: float
) -> None:
    whole, _ = quad(rest, 0.0, e, args=(mu, sigma), epsabs=1e-12, limit=200)
    expected = rate * worth * (whole - e * rest(e, mu, sigma))
    found = float(instant_index(e, rate, mu, sigma, worth))
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-8 * rate * worth * max(whole, 1.0))


@given(rates, mus, sigmas)
def test_after_a_long_time_the_index_is_the_mean_time_of_interest(
    rate: float, mu: float, sigma: float
) -> None:
    assert instant_index(np.inf, rate, mu, sigma) == pytest.approx(rate * mean_days(mu, sigma))
    assert instant_index(0.0, rate, mu, sigma) == 0.0


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
@pytest.mark.parametrize(("mu", "sigma"), [(-2.0, 0.4), (0.0, 1.0), (2.0, 1.8)])
def test_no_interval_brings_more_than_that_at_which_the_index_is_the_price(
    share: float, mu: float, sigma: float
) -> None:
    price = share * mean_days(mu, sigma)
    intervals = np.exp(mu + sigma * np.linspace(-4.0, 6.0, 60))
    value = np.array([quad(rest, 0.0, days, args=(mu, sigma), limit=200)[0] for days in intervals])
    best = int(np.argmax((value - price) / intervals))
    assert 0 < best < 59
    assert instant_index(intervals[best - 1], 1.0, mu, sigma) < price
    assert instant_index(intervals[best + 1], 1.0, mu, sigma) > price


def test_a_new_hub_has_the_rate_of_its_tier_and_an_old_one_its_own() -> None:
    links, elapsed = np.array([0.0, 3000.0, 0.0]), np.array([0.0, 100.0, 100.0])
    of_tier = tier_rate(links, elapsed, optimistic=24.0)
    assert of_tier == pytest.approx((24 + 3000) / 201)
    new, busy, quiet = hub_rate(links, elapsed, of_tier)
    assert new == pytest.approx(of_tier)
    assert busy == pytest.approx(30.0, rel=0.01)
    assert 0.0 < quiet < 0.01
