"""Localized rates of stored visits: the last window, quiet time, and what the state keeps of them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hacs_crawler.model import LOCALIZED, Visits, consistent_windows, estimate
from hacs_crawler.model.localized import SHAPES, last_windows

quick = settings(deadline=None, max_examples=60, derandomize=True)


def rates_of(name, *visits):
    return estimate(name, Visits(*visits)).rate_per_day


def page(*updated_days, days):
    """Visits at days 0 to `days`, of which those found an update."""
    visits = np.arange(days + 1.0)
    return visits, np.isin(visits, updated_days), np.array([0, len(visits)])


def both(name, *visits):
    """The rate of a page, and the shape of its last window."""
    return float(rates_of(name, *visits)[0]), float(last_windows(name, Visits(*visits)).shape[0])


def test_weibull_is_truncated_at_the_last_visit():
    # points at 0.5, 2.5, 4.5, 6.5; the page was last seen at day 16
    rate, found = both("weibull", *page(1, 3, 5, 7, days=16))
    shape = 4 / sum(math.log(16 / at) for at in (0.5, 2.5, 4.5, 6.5))
    assert rate == pytest.approx(4 * shape / 16)
    assert found == pytest.approx(shape)


def test_duane_s_line_is_scaled_to_the_updates_seen_by_the_last_visit():
    rate, shape = both("duane", *page(1, 3, 5, 7, days=16))
    days = np.array([0.5, 2.5, 4.5, 6.5])
    slope, _ = np.polyfit(np.log(days), np.log(days / np.arange(1, 5)), 1)
    assert rate == pytest.approx(4 * (1 - slope) / 16)
    assert shape == pytest.approx(1 - slope)


def last_points(days, updated, offsets):
    """How many updates the last window of each page has."""
    points, point_offsets = Visits(days, updated, offsets).update_points()
    windows = consistent_windows(points, point_offsets, days[offsets[:-1]])
    return windows.counts[windows.is_last]


def test_matloff_counts_visits_that_are_whole_seconds_apart():
    rng = np.random.default_rng(3)
    days = (20_000 * 86_400 + np.cumsum(rng.integers(1, 40_000, (40, 60)), axis=1)) / 86_400
    updated = rng.random(days.shape) < 0.3
    offsets = np.arange(41) * 60
    rates = rates_of("matloff", days.ravel(), updated.ravel(), offsets)
    points = last_points(days.ravel(), updated.ravel(), offsets)
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
def test_with_fewer_than_four_updates_bayes_is_used(name, visits):
    alike = (estimate(one, Visits(*visits, 30.0)) for one in (name, "bayes"))
    mine, bayes = ([one.rate_per_day[0], one.fast_share[0], one.slow_per_day[0]] for one in alike)
    assert mine == bayes
    assert not len(last_windows(name, Visits(*visits)).page)


@pytest.mark.parametrize("name", LOCALIZED)
def test_a_batch_gives_what_its_pages_give_one_by_one(name):
    rng = np.random.default_rng(1)
    pages = [[], [5.0], *(np.cumsum(rng.exponential(9.0, n)) for n in rng.integers(2, 200, 60)), []]
    visits = np.concatenate([np.floor(one) + np.arange(len(one)) for one in map(np.array, pages)])
    updated = rng.random(len(visits)) < 0.4
    offsets = np.cumsum([0, *map(len, pages)])
    rates = rates_of(name, visits, updated, offsets)
    for k, (start, end) in enumerate(itertools.pairwise(offsets)):
        one = rates_of(name, visits[start:end], updated[start:end], np.array([0, end - start]))
        assert rates[k] == pytest.approx(one[0], rel=1e-9)


@pytest.mark.parametrize("name", LOCALIZED)
def test_thousands_of_updates_of_one_page_have_a_rate(name):
    rate, shape = both(name, *page(*range(1, 5001), days=5000))
    assert 0.5 < rate < math.inf
    assert SHAPES[0] <= shape <= SHAPES[1]


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
