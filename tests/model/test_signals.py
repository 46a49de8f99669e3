"""What signals change in the probability of an update, and how their worth is learned."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from hacs_crawler.model import (
    POINTS,
    USUAL_SIGNALS,
    Beliefs,
    Rates,
    SignalRecords,
    beliefs_of,
    fit_prior_of_signals,
    gap_log_likelihood,
    known_rates,
    log_quiet_factor,
    open_log_likelihood,
    posterior,
    signals,
    trust_of,
)
from hacs_crawler.model.signals import DELAYS_DAYS, FALSE_PER_DAY, RECALLS, SHAPE
from hacs_crawler.state.signal_records import MOST_SIGNALS
from hacs_crawler.utils.arrays import FloatArray

NAN = float("nan")
PROMPT = 0.05


def records(pages: int = 1, **columns: float | FloatArray) -> SignalRecords:
    """Pages last visited on day 0, with no signals but the given ones."""
    usual = dict.fromkeys(("visit", "count", "watched", "quiet_count", "quiet_days"), 0.0)
    usual |= dict.fromkeys(("update", "before", "first", "latest"), NAN)
    return SignalRecords(
        **{
            name: np.broadcast_to(np.asarray(value, np.float64), pages).copy()
            for name, value in {**usual, **columns}.items()
        }
    )


def sure(recall: float, false: float, delay: float = PROMPT) -> Beliefs:
    """Beliefs of one site of which r, and phi to the nearest on the grid, are known."""
    weights = np.zeros(SHAPE)
    nearest = int(np.argmin(np.abs(np.log(FALSE_PER_DAY / false))))
    weights[recall == RECALLS, nearest, delay == DELAYS_DAYS] = 1.0
    return Beliefs(weights.sum(axis=2).ravel()[None], np.array([delay]), np.array([recall]))


def no_update(one: SignalRecords, beliefs: Beliefs, rate: float, days: float) -> float:
    """The probability of no update since the visit, `days` ago, of a page of that rate."""
    rates = known_rates(np.array([rate]))
    factor = log_quiet_factor(one, beliefs, np.zeros(1, np.int64), rates, np.ones(1))
    return float(np.exp(-rate * days + factor[0]))


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize(("recall", "place"), [(0.0, 8), (0.4, 8), (0.65, 14), (0.95, 3)])
def test_p_is_that_of_busa_fekete_and_others_where_all_is_known(
    recall: float, place: int, count: int
) -> None:
    rate, watched, days = 0.05, 30.0, 40.0
    false = float(FALSE_PER_DAY[place])
    one = records(first=12.0, latest=28.0, count=count, watched=watched)
    expected = (
        np.exp(-rate * (1 - recall) * watched)
        * (false / (false + recall * rate)) ** count
        * np.exp(-rate * (days - watched))
    )
    # a true signal is late by half an hour or so
    assert no_update(one, sure(recall, false), rate, days) == pytest.approx(expected, rel=0.03)


def test_the_time_after_the_source_was_read_says_nothing() -> None:
    beliefs = sure(0.95, 0.001)
    fresh, old = records(watched=30.0), records(watched=10.0)
    assert no_update(old, beliefs, 0.05, 30.0) > np.exp(-1.5)
    assert no_update(fresh, beliefs, 0.05, 30.0) > no_update(old, beliefs, 0.05, 30.0)


def test_two_rates_are_averaged_over_by_their_shares() -> None:
    one, recall, false = records(watched=30.0), 0.65, float(FALSE_PER_DAY[8])
    two = Rates(*np.array([[0.3], [0.3], [1.0], [0.01], [0.0], [0.0]]))
    factor = log_quiet_factor(one, sure(recall, false), np.zeros(1, np.int64), two, np.ones(1))
    rates, shares = np.array([1.0, 0.01]), np.array([0.3, 0.7])
    expected = 1.0 / (shares @ np.exp(-recall * 30.0 * rates))
    assert np.exp(factor[0]) == pytest.approx(expected, rel=0.02)


def test_silence_takes_nothing_of_time_that_is_known_to_be_quiet_already() -> None:
    one, beliefs, where = records(watched=30.0), sure(0.95, 0.001), np.zeros(1, np.int64)
    rates = known_rates(np.array([0.05]))
    none, half, whole = (
        log_quiet_factor(one, beliefs, where, rates, np.array([left]))[0]
        for left in (0.0, 0.5, 1.0)
    )
    assert none == pytest.approx(0.0, abs=1e-9)
    assert half == pytest.approx(whole / 2)


def test_a_late_signal_of_an_update_that_was_found_hardly_counts() -> None:
    beliefs = sure(0.95, 0.003, delay=5.0)
    signal = records(first=1.0, latest=1.0, count=1.0, watched=5.0)
    after_update = replace(signal, update=np.zeros(1), before=np.full(1, -10.0))
    assert no_update(after_update, beliefs, 0.02, 5.0) > 1.6 * no_update(signal, beliefs, 0.02, 5.0)


def test_a_late_signal_of_an_update_that_was_found_is_no_false_one() -> None:
    """After the signal the page was visited, and had not changed since the visit before."""
    signal = records(first=0.3, latest=0.3, count=1.0, watched=20.0)
    late = replace(signal, update=np.zeros(1), before=np.full(1, -1.0))
    arguments = (known_rates(np.array([0.05])), np.full(1, 20.0), np.zeros(1, np.bool_))
    false, excused = (
        trust_of(posterior(20 * gap_log_likelihood(one, *arguments), USUAL_SIGNALS)[0])
        for one in (signal, late)
    )
    assert excused.false_per_day < false.false_per_day / 3


def drawn(
    recall: float, false: float, delay: float, gaps: int, seed: int = 0
) -> tuple[SignalRecords, Rates, FloatArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Gaps of a site with these habits, and what their visits found."""
    rng = np.random.default_rng(seed)
    rate = 0.02 * np.exp(rng.standard_normal(gaps))
    days = rng.uniform(5.0, 40.0, gaps)
    columns = {name: np.full(gaps, NAN) for name in ("first", "latest")} | {"count": np.zeros(gaps)}
    updated = np.zeros(gaps, np.bool_)
    for place in range(gaps):
        at = rng.uniform(0, days[place], rng.poisson(rate[place] * days[place]))
        updated[place] = len(at) > 0
        true = at[rng.random(len(at)) < recall]
        true = true + rng.exponential(delay, len(true))
        wrong = rng.uniform(0, days[place], rng.poisson(false * days[place]))
        signals = np.concatenate([true[true < days[place]], wrong])
        if len(signals):
            columns["first"][place], columns["latest"][place] = signals.min(), signals.max()
            columns["count"][place] = len(signals)
    return records(gaps, watched=days, **columns), known_rates(rate), days, updated


@pytest.mark.parametrize(
    ("recall", "false", "delay"),
    [(0.9, 0.005, 0.3), (0.9, 0.005, 3.0), (0.5, 0.05, 0.3), (0.0, 0.02, 0.1), (0.0, 1.0, 0.1)],
)
def test_the_habits_of_a_site_are_learned_from_its_visits(
    recall: float, false: float, delay: float
) -> None:
    gaps = drawn(recall, false, delay, 600)
    share = min(1.0, MOST_SIGNALS / gaps[0].count.sum())
    seen = gap_log_likelihood(*gaps) + share * open_log_likelihood(*gaps[:2])
    seen = seen.sum(axis=0, keepdims=True)
    trust = trust_of(posterior(seen, USUAL_SIGNALS)[0])
    assert trust.recall == pytest.approx(recall, abs=0.25)
    assert false / 2 < trust.false_per_day < 2 * false


def test_daily_stamps_are_seen_through_before_any_visit() -> None:
    one = records(100, first=0.5, latest=9.5, count=10.0, watched=10.0)
    rates = known_rates(np.full(100, 0.02))
    seen = open_log_likelihood(one, rates).sum(axis=0, keepdims=True)
    weights = posterior(seen, USUAL_SIGNALS)
    assert trust_of(weights[0]).false_per_day == pytest.approx(1.0, rel=0.5)
    beliefs = beliefs_of(weights, USUAL_SIGNALS)
    assert no_update(one.take(np.array([0])), beliefs, 0.02, 10.0) == pytest.approx(
        np.exp(-0.2), rel=0.05
    )


def test_a_page_unlike_its_site_is_known_by_its_own_record() -> None:
    beliefs = beliefs_of(
        posterior(
            gap_log_likelihood(*drawn(0.9, 0.001, 0.1, 600)).sum(axis=0, keepdims=True),
            USUAL_SIGNALS,
        ),
        USUAL_SIGNALS,
    )
    signal = records(first=0.5, latest=0.5, count=1.0, watched=1.0)
    liar = replace(signal, quiet_count=np.full(1, 60.0), quiet_days=np.full(1, 60.0))
    assert no_update(signal, beliefs, 0.02, 1.0) < 0.3
    assert no_update(liar, beliefs, 0.02, 1.0) > 0.9


def test_a_prior_is_fitted_to_sites_and_new_ones_begin_there() -> None:
    seen = np.concatenate(
        [
            gap_log_likelihood(*drawn(0.9, 0.003, 0.1, 60, seed)).sum(axis=0, keepdims=True)
            for seed in range(20)
        ]
    )
    prior = fit_prior_of_signals(seen)
    assert prior.sum() == pytest.approx(1.0)
    assert trust_of(prior).recall > trust_of(USUAL_SIGNALS).recall + 0.2
    assert fit_prior_of_signals(np.zeros((0, POINTS))) == pytest.approx(USUAL_SIGNALS)
    assert USUAL_SIGNALS.sum() == pytest.approx(1.0)


def test_whatever_was_heard_gives_a_number() -> None:
    one = records(3, first=[0.0, 1e4, NAN], latest=[0.0, 2e4, NAN], count=[1, 6e4, 0], watched=0.0)
    beliefs = beliefs_of(USUAL_SIGNALS[None], USUAL_SIGNALS)
    rates = known_rates(np.array([0.0, 50.0, 1e-9]))
    factor = log_quiet_factor(one, beliefs, np.zeros(3, np.int64), rates, np.ones(3))
    found = gap_log_likelihood(one, rates, np.full(3, 1e-5), np.array([True, False, True]))
    assert np.isfinite(factor).all()
    assert np.isfinite(found).all()


def test_late_signals_of_the_last_update_have_the_strength_of_plain_quadrature() -> None:
    pages = records(2, update=np.array([2.0, NAN]), before=np.array([0.5, NAN]))
    strength = signals._residual_strength(pages, np.array([0.4]), np.array([3.0]))
    late = quad(lambda at: math.exp(-(at - 2.0) / 3.0), 4.0, 6.0)[0] / 2.0
    expected = [0.4 * (1.0 - math.exp(-1.5 / 3.0)) / 1.5 * late, 0.0]
    assert strength(np.full(2, 4.0), np.full(2, 6.0))[:, 0] == pytest.approx(expected)
    begun = signals._mean_decay(np.array([-1.0]), np.array([0.5]), np.array([3.0]))
    assert begun[0, 0] == pytest.approx(quad(lambda at: math.exp(-at / 3.0), 0.0, 0.5)[0] / 0.5)
