"""Localized rates of stored visits: the last window, quiet time, and what the state keeps of them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import ArrayLike

from hacs_crawler.model import (
    DEFAULT_PRIOR,
    LOCALIZED,
    MIN_POINTS,
    Rates,
    Visits,
    chance_of_update,
    estimate,
    estimate_with_churn,
    expected_up_to,
    gaps_between,
    is_trend,
    predictive_probability,
    unpacked_trend,
)
from hacs_crawler.model.bayes import bayes_with_spread
from hacs_crawler.model.trend import expected_updates, packed_trend

quick = settings(deadline=None, max_examples=60, derandomize=True)


def with_spread(name, days, updated, offsets):
    """Rates and what is packed beside them, without fading."""
    found = estimate_with_churn(name, Visits(days, updated, offsets))
    return found.rate_per_day, found.log_sd


def page(*updated_days, days):
    """Visits at days 0 to `days`, of which those found an update."""
    visits = np.arange(days + 1.0)
    return visits, np.isin(visits, updated_days), np.array([0, len(visits)])


def both(name, visits, updated, offsets):
    rates, spreads = with_spread(name, visits, updated, offsets)
    return float(rates[0]), float(spreads[0])


def test_weibull_is_truncated_at_the_last_visit():
    # points at 0.5, 2.5, 4.5, 6.5; the page was last seen at day 16
    rate, spread = both("weibull", *page(1, 3, 5, 7, days=16))
    shape = 4 / sum(math.log(16 / at) for at in (0.5, 2.5, 4.5, 6.5))
    assert rate == pytest.approx(4 * shape / 16)
    points, kept = unpacked_trend(spread)
    assert (float(points), float(kept)) == pytest.approx((4, shape))


def test_duane_s_line_is_scaled_to_the_updates_seen_by_the_last_visit():
    rate, spread = both("duane", *page(1, 3, 5, 7, days=16))
    days = np.array([0.5, 2.5, 4.5, 6.5])
    slope, _ = np.polyfit(np.log(days), np.log(days / np.arange(1, 5)), 1)
    assert rate == pytest.approx(4 * (1 - slope) / 16)
    assert float(unpacked_trend(spread)[1]) == pytest.approx(1 - slope, rel=1e-4)


def test_matloff_counts_the_visits_of_the_window():
    rate, spread = both("matloff", *page(1, 3, 5, 7, days=16))
    assert rate == pytest.approx(-math.log(1 - 4 / 16))
    assert float(unpacked_trend(spread)[1]) == pytest.approx(1.0)


def test_matloff_counts_visits_that_are_whole_seconds_apart():
    rng = np.random.default_rng(3)
    gaps = rng.integers(1, 40_000, (40, 60))
    days = (20_000 * 86_400 + np.cumsum(gaps, axis=1)) / 86_400
    updated = rng.random(days.shape) < 0.3
    offsets = np.arange(41) * 60
    rates, spreads = with_spread("matloff", days.ravel(), updated.ravel(), offsets)
    points = np.floor(spreads).astype(int)
    for mine, found, rate, number in zip(days, updated, rates, points, strict=True):
        middles = (mine[1:] + mine[:-1])[found[1:]] / 2
        origin = middles[-number - 1] if number < len(middles) else mine[0]
        k = sum(1 for day in mine if day > origin)
        share = min(number, k - 0.5) / k
        assert rate == pytest.approx(-math.log(1 - share) * k / (mine[-1] - origin))


def test_matloff_is_capped_where_every_visit_found_an_update():
    rate, _ = both("matloff", *page(1, 2, 3, 4, days=4))
    assert rate == pytest.approx(-math.log(0.5 / 4))


@pytest.mark.parametrize("name", LOCALIZED)
def test_the_rate_is_that_of_the_last_window(name):
    """A page that was updated every 30 days, and every day since."""
    slow = np.arange(30, 301, 30)
    visits, updated, offsets = page(*slow, *range(302, 330, 2), days=330)
    rate = estimate(name, visits, updated, offsets)[0]
    assert 0.25 < rate < 1.2
    assert estimate("mle", visits, updated, offsets)[0] < 0.1


@pytest.mark.parametrize("name", LOCALIZED)
@pytest.mark.parametrize(
    "visits",
    [
        page(days=0),
        page(days=30),
        page(3, 9, 20, days=30),
        (np.zeros(0), np.zeros(0, bool), np.zeros(2, int)),
    ],
    ids=["seen once", "never updated", "three updates", "never seen"],
)
def test_with_fewer_than_four_updates_bayes_is_used_and_marked(name, visits):
    rate, spread = both(name, *visits)
    rates, spreads = bayes_with_spread(gaps_between(*visits), DEFAULT_PRIOR)
    assert (rate, spread) == (rates[0], spreads[0])
    assert not is_trend(spread)
    assert np.isnan(unpacked_trend(spread)).all()


def test_the_fallback_fades_and_has_the_prior_as_bayes_does():
    visits = page(3, 9, 20, days=300)
    options = {"prior": DEFAULT_PRIOR, "fade_days": 30.0}
    assert estimate("weibull", *visits, **options) == estimate("bayes", *visits, **options)


def test_an_update_seen_by_the_first_visit_of_all_does_not_count():
    assert not is_trend(both("weibull", *page(0, 3, 9, 20, days=30))[1])


@pytest.mark.parametrize("name", LOCALIZED)
def test_a_batch_gives_what_its_pages_give_one_by_one(name):
    rng = np.random.default_rng(1)
    pages = [[], [5.0], *(np.cumsum(rng.exponential(9.0, n)) for n in rng.integers(2, 200, 60)), []]
    visits = np.concatenate([np.floor(one) + np.arange(len(one)) for one in map(np.array, pages)])
    updated = rng.random(len(visits)) < 0.4
    offsets = np.cumsum([0, *map(len, pages)])
    rates, spreads = with_spread(name, visits, updated, offsets)
    for k, (start, end) in enumerate(itertools.pairwise(offsets)):
        one = both(name, visits[start:end], updated[start:end], np.array([0, end - start]))
        assert (rates[k], spreads[k]) == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("name", LOCALIZED)
def test_thousands_of_updates_of_one_page_have_a_rate(name):
    rate, spread = both(name, *page(*range(1, 5001), days=5000))
    assert 0.5 < rate < math.inf
    assert is_trend(spread)


@pytest.mark.parametrize("name", LOCALIZED)
@given(data=st.data())
@quick
def test_a_further_quiet_visit_never_raises_the_rate(name, data):
    days = data.draw(st.lists(st.integers(1, 300), min_size=4, max_size=30, unique=True))
    last = max(days)
    rate, _ = both(name, *page(*days, days=last))
    more = last + data.draw(st.integers(1, 200))
    visits, updated, _ = page(*days, days=last)
    later = np.append(visits, more), np.append(updated, False)
    assert both(name, *later, np.array([0, len(later[0])]))[0] <= rate * (1 + 1e-9)


def test_weibull_recovers_the_shape_of_what_falls_asleep_and_of_what_wakes():
    rng = np.random.default_rng(2)
    for shape in (0.5, 2.0):
        found = []
        for _ in range(200):
            days = np.ceil(2000 * np.sort(rng.random(60)) ** (1 / shape))
            one = page(*days, days=2000)
            # the threshold far off: the window is the page's whole life
            points = np.unique(days) - 0.5
            found.append(len(points) / np.log(2000 / points).sum())
            assert is_trend(both("weibull", *one)[1])
        assert np.mean(found) == pytest.approx(shape, rel=0.1)


# What the state keeps


@given(
    n=st.integers(MIN_POINTS, 2_000),
    shape=st.floats(math.log(0.002), math.log(500)).map(math.exp),
)
@quick
def test_what_is_packed_survives_a_float_of_32_bits(n, shape):
    packed = packed_trend(n, shape).astype(np.float32)
    points, kept = unpacked_trend(packed)
    assert float(points) == n
    assert float(kept) == pytest.approx(shape, rel=1.3e-4 * (1 + shape) ** 2 / shape)


def test_no_log_sd_is_taken_for_a_trend():
    assert not is_trend(DEFAULT_PRIOR.log_sd)
    assert not is_trend(3.5)
    assert is_trend(packed_trend(MIN_POINTS, 0.0))


@pytest.mark.parametrize("shape", [0.0, math.inf])
def test_extreme_shapes_are_kept_within_bounds(shape):
    points, kept = unpacked_trend(packed_trend(7, shape).astype(np.float32))
    assert float(points) == 7
    assert 0 < kept < math.inf


def pages(rate: ArrayLike, log_sd: ArrayLike) -> Rates:
    columns = np.broadcast_arrays(*np.atleast_1d(rate, log_sd), *[np.zeros(1)] * 4)
    return Rates(*columns)


def test_p_is_of_the_updates_expected_since_the_last_visit():
    n, shape, watched, e = 6, 1.5, 40.0, 10.0
    rate = n * shape / watched
    expected = n * ((watched + e) / watched) ** shape - n
    p = chance_of_update(pages(rate, packed_trend(n, shape)), e)
    assert p[0] == pytest.approx(1 - math.exp(-expected))


def test_p_of_the_paper_s_rule_is_of_the_updates_expected_since_the_last_update():
    n, shape, watched = 6, 1.5, 40.0
    rate = n * shape / watched
    expected = n * (50 / 40) ** shape - n * (33 / 40) ** shape
    p = chance_of_update(pages(rate, packed_trend(n, shape)), 17.0, before_days=7.0)
    assert p[0] == pytest.approx(1 - math.exp(-expected))


def test_a_window_s_beginning_is_the_earliest_that_can_be_counted_from():
    rate = 6 / 40
    whole = expected_updates(rate, packed_trend(6, 1.0), -400.0, 0.0)
    assert float(whole) == pytest.approx(6.0)


def test_quiet_days_of_siblings_take_their_share_off():
    spread = packed_trend(6, 1.0)
    p = chance_of_update(pages(0.1, spread), 10.0, quiet_days=4.0)
    assert p[0] == pytest.approx(1 - math.exp(-0.6))
    assert chance_of_update(pages(0.1, spread), 10.0, quiet_days=11.0) == [0.0]


def test_a_steady_trend_is_a_rate_that_is_known():
    p = chance_of_update(pages([0.1, 0.1], packed_trend(6, 1.0)), [3.0, 0.0])
    assert p == pytest.approx(predictive_probability([0.1, 0.1], 0.0, [3.0, 0.0]), abs=1e-6)


def test_pages_with_a_posterior_are_not_touched_by_the_others():
    spread = np.array([1.0, float(packed_trend(6, 2.0)), 0.0])
    p = chance_of_update(pages(0.1, spread), [5.0, 5.0, math.inf])
    assert p[0] == predictive_probability(0.1, 1.0, 5.0)
    assert p[2] == 1.0


def test_a_page_never_visited_is_sure_to_be_new():
    assert chance_of_update(pages(0.1, packed_trend(6, 2.0)), math.inf) == [1.0]


def test_p_grows_with_time_and_ends_at_one():
    days = np.array([0.0, 1.0, 10.0, 1e3, 1e9])
    for shape in (0.01, 0.5, 1.0, 30.0, 1000.0):
        p = chance_of_update(pages(0.2, packed_trend(9, shape)), days)
        assert p[0] == 0.0
        assert (np.diff(p) >= 0).all()
        assert p[-1] <= 1.0


# Rates of a period


def test_what_is_expected_up_to_the_last_visit_is_what_was_found():
    rng = np.random.default_rng(4)
    days = np.unique(rng.integers(1, 400, 60))
    visits, updated, _ = page(*days, days=420)
    for name in ("weibull", "duane"):
        up_to = expected_up_to(name, visits, updated, np.array([0.0, 200.0, 420.0]))
        assert up_to[0] == 0.0
        assert up_to[2] == pytest.approx(len(days))
        assert up_to[1] == pytest.approx((days < 200).sum(), abs=4)


def test_outside_of_the_visits_nothing_is_expected():
    visits, updated, _ = page(*range(1, 20, 2), days=30)
    up_to = expected_up_to("weibull", visits, updated, np.array([-1.0, 5.0, 31.0]))
    assert np.isnan(up_to).tolist() == [True, False, True]


def test_a_page_of_few_updates_has_no_rates_of_a_period():
    visits, updated, _ = page(1, 2, 3, days=30)
    assert expected_up_to("weibull", visits, updated, np.array([5.0])) is None
