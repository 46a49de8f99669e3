"""The paper's estimators in a window: closed forms, and recovery of a process that is known."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from hacs_crawler.lab.evaluation.power_law import (
    PowerLaw,
    cho_law,
    corrected_weibull_law,
    duane_law,
    matloff_law,
    naive_law,
    weibull_law,
)
from hacs_crawler.model import MIN_POINTS, Windows

LAWS = {
    "naive": naive_law,
    "cho": cho_law,
    "matloff": matloff_law,
    "duane": duane_law,
    "weibull": corrected_weibull_law,
    "weibull-ml": weibull_law,
}


def windows_of(*pages):
    counts = [len(page) for page in pages]
    return Windows(
        np.concatenate([np.zeros(0), *map(np.array, pages)]).astype(float),
        np.cumsum([0, *counts]),
        np.zeros(len(pages)),
        np.arange(len(pages)),
        np.zeros(len(pages), np.int8),
    )


def process(rng, count, shape, end):
    """A Weibull process up to its `count`-th update: Lambda(t) = count (t / end)^shape on average."""
    return end * (np.cumsum(rng.exponential(1.0, count)) / count) ** (1.0 / shape)


@pytest.mark.parametrize(
    ("law", "days", "rate"),
    [
        (naive_law, [1, 2, 5, 8], 4 / 8),
        # k = 8 days, X = 3 of them with an update: two fall on day 5
        (cho_law, [1.0, 4.2, 4.9, 7.5], -math.log(5.5 / 8.5)),
        (matloff_law, [1.0, 4.2, 4.9, 7.5], -math.log(1 - 3 / 8)),
        # it is capped if every day has one
        (matloff_law, [1, 2, 3, 4], -math.log(0.5 / 4)),
        # an update at a day's end is of that day, also one that rounding puts a little later
        (cho_law, [0.5, 1.0, 1.5, 2.0], -math.log(0.5 / 2.5)),
        (cho_law, [0.5, 1.5, 2.5, 10 * (0.1 + 0.2)], -math.log(0.5 / 3.5)),
    ],
)
def test_a_constant_rate_is_of_the_updates_or_of_the_days_with_an_update(law, days, rate):
    found = law(windows_of(days))
    assert found.rate(found.end_days) == pytest.approx([rate])


def test_weibull_s_shape_is_the_number_over_the_sum_of_logs():
    law = weibull_law(windows_of([1, 2, 4, 8]))
    logs = math.log(8) + math.log(4) + math.log(2)
    assert law.shape == pytest.approx([4 / logs])
    assert law.expected(8.0) == pytest.approx([4.0])
    assert law.rate(8.0) == pytest.approx([4 * (4 / logs) / 8])


def test_weibull_is_of_the_greatest_likelihood():
    days = np.array([0.7, 3.0, 3.5, 9.0, 11.0])

    def cost(x):
        shape, scale = np.exp(x)
        rates = np.log(shape / scale) + (shape - 1) * np.log(days / scale)
        return -(rates.sum() - (days[-1] / scale) ** shape)

    best = np.exp(minimize(cost, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9}).x)
    law = weibull_law(windows_of(days))
    assert law.shape == pytest.approx([best[0]], rel=1e-5)
    assert days[-1] / 5 ** (1 / law.shape[0]) == pytest.approx(best[1], rel=1e-5)  # eta


def test_the_corrections_quarter_the_rate_of_four_updates():
    windows = windows_of([1, 2, 4, 8])
    plain, corrected = weibull_law(windows), corrected_weibull_law(windows)
    assert corrected.rate(8.0) == pytest.approx(plain.rate(8.0) / 4)
    shape_only = corrected_weibull_law(windows, of_rate=False)
    assert shape_only.shape == pytest.approx(plain.shape / 2)
    assert shape_only.expected(8.0) == pytest.approx([4.0])
    assert corrected.rate(3.0) == pytest.approx(shape_only.rate(3.0) / 2)


def test_the_corrected_form_needs_four_updates():
    assert np.isnan(corrected_weibull_law(windows_of([1, 2, 4])).rate(4.0)).all()
    assert not np.isnan(weibull_law(windows_of([1, 2])).shape).any()
    assert np.isnan(weibull_law(windows_of([1])).shape).all()


def test_duane_is_a_line_through_the_logarithms():
    days = np.array([1.0, 2.0, 4.0, 9.0])
    slope, intercept = np.polyfit(np.log(days), np.log(days / np.arange(1, 5)), 1)
    law = duane_law(windows_of(days))
    assert law.shape == pytest.approx([1 - slope])
    assert law.mean_rate(9.0) == pytest.approx([9.0**-slope / math.exp(intercept)])
    assert np.isnan(duane_law(windows_of([3.0])).shape).all(), "one update has no line"


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
def test_weibull_recovers_a_process(shape):
    rng = np.random.default_rng(5)
    windows = windows_of(*(process(rng, 30, shape, 100.0) for _ in range(4_000)))
    corrected = corrected_weibull_law(windows)
    error = corrected.shape.std() / math.sqrt(4_000)
    assert corrected.shape.mean() == pytest.approx(shape, abs=4 * error)
    assert weibull_law(windows).shape.mean() == pytest.approx(shape * 30 / 28, abs=4 * error)


def test_the_corrected_rate_is_unbiased_in_its_inverse():
    """Calabria et al.: at the last update the mean of the true over the estimated rate is near 1."""
    rng = np.random.default_rng(6)
    windows = windows_of(*(process(rng, 6, 1.0, 6.0) for _ in range(20_000)))
    # of a process of rate 1 the rate at the last update is 1
    plain = weibull_law(windows).rate(windows.last_days)
    corrected = corrected_weibull_law(windows).rate(windows.last_days)
    assert abs(np.mean(corrected) - 1) < abs(np.mean(plain) - 1)


@pytest.mark.parametrize("name", sorted({*LAWS} - {"cho", "matloff"}))
def test_scaling_time_divides_the_rate(name):
    rng = np.random.default_rng(7)
    pages = [np.cumsum(rng.exponential(1.0, n)) for n in (4, 5, 20)]
    law = LAWS[name](windows_of(*pages))
    longer = LAWS[name](windows_of(*(7 * page for page in pages)))
    assert longer.rate(longer.end_days) * 7 == pytest.approx(law.rate(law.end_days))
    assert longer.shape == pytest.approx(law.shape)


@pytest.mark.parametrize("name", LAWS)
def test_a_batch_gives_what_its_windows_give_one_by_one(name):
    rng = np.random.default_rng(9)
    pages = [np.cumsum(rng.exponential(1.0, n)) for n in rng.integers(MIN_POINTS, 60, 200)]
    together = LAWS[name](windows_of(*pages))
    alone = [LAWS[name](windows_of(page)) for page in pages]
    assert together.shape == pytest.approx(np.concatenate([one.shape for one in alone]))
    assert together.count == pytest.approx(np.concatenate([one.count for one in alone]))


@pytest.mark.parametrize("name", LAWS)
def test_no_window_gives_no_law(name):
    assert LAWS[name](windows_of()).shape.shape == (0,)


def test_the_rate_is_the_slope_of_what_is_expected():
    law = PowerLaw(np.array([5.0]), np.array([1.7]), np.array([20.0]))
    step = 1e-5
    slope = (law.expected(9.0 + step) - law.expected(9.0 - step)) / (2 * step)
    assert law.rate(9.0) == pytest.approx(slope, rel=1e-6)
