"""A page that goes on by two rates: how they are fitted, and what p is then."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.model import Rates, chance_of_update, has_two_rates, packed_share, unpacked_share
from hacs_crawler.model.two_rates import TIMES, fitted_two_rates

RATES = st.floats(1e-4, 20.0)


def survival(share: float, fast: float, slow: float) -> np.ndarray:
    found: np.ndarray = share * np.exp(-fast * TIMES) + (1 - share) * np.exp(-slow * TIMES)
    return found


def p_of(share: float, fast: float, slow: float, days: np.ndarray) -> np.ndarray:
    rates = Rates(*np.array([[0.0], packed_share([share]), [0.0], [0.0], [fast], [slow]]))
    return chance_of_update(rates, days)


@given(st.floats(0.05, 0.95), RATES, st.floats(2.0, 50.0))
def test_two_rates_are_found_again(share: float, slow: float, times: float) -> None:
    share_found, fast, slow_found = fitted_two_rates(survival(share, slow * times, slow)[None])
    days = TIMES[survival(share, slow * times, slow) > 0.2]
    found = p_of(share_found[0], fast[0], slow_found[0], days)
    assert found == pytest.approx(p_of(share, slow * times, slow, days), abs=0.003)


@given(RATES)
def test_one_rate_is_found_again(rate: float) -> None:
    share, fast, slow = fitted_two_rates(np.exp(-rate * TIMES)[None])[:, 0]
    assert p_of(share, fast, slow, 1 / rate) == pytest.approx(1 - np.exp(-1), abs=0.003)


@given(st.lists(st.tuples(st.floats(0.01, 1.0), RATES), min_size=1, max_size=9))
def test_of_any_mixture_p_is_met_at_three_times(parts: list[tuple[float, float]]) -> None:
    weight, rate = np.array(parts).T
    weight /= weight.sum()
    true = weight @ np.exp(-np.multiply.outer(rate, TIMES))
    share, fast, slow = fitted_two_rates(true[None])[:, 0]
    assert 0 <= share <= 1
    assert fast >= slow >= 0
    first = max(np.count_nonzero(true[: len(TIMES) // 2] >= 0.85) - 1, 0)
    times = TIMES[first] * np.array([1.0, 2.0, 3.0])
    exact = 1 - weight @ np.exp(-np.multiply.outer(rate, times))
    assert p_of(share, fast, slow, times) == pytest.approx(exact, abs=0.003)


@given(st.floats(0.05, 0.95), st.floats(1.0, 20.0), st.floats(1e-5, 1e-3))
def test_a_fast_part_that_ends_long_before_the_slow_one_is_found(
    share: float, fast: float, slow: float
) -> None:
    days = TIMES[(TIMES * slow < 1) & (TIMES * fast > 0.3)]
    found = fitted_two_rates(survival(share, fast, slow)[None])[:, 0]
    assert p_of(*found, days) == pytest.approx(p_of(share, fast, slow, days), abs=0.03)


def test_a_page_whose_rate_grows_has_one_rate() -> None:
    share, fast, slow = fitted_two_rates(np.exp(-((TIMES / 100.0) ** 2))[None])[:, 0]
    assert (share, fast) == (0.0, slow)


def test_the_share_is_told_from_a_log_sd() -> None:
    kept = np.array([packed_share(0.0), packed_share(0.3), 0.0, 1.5])
    assert has_two_rates(kept).tolist() == [True, True, False, False]
    assert unpacked_share(kept) == pytest.approx([0.0, 0.3, 0.0, 0.0])


def test_p_is_that_of_the_days_that_no_sibling_was_quiet() -> None:
    rates = Rates(*np.array([[0.0], packed_share([0.4]), [0.0], [0.0], [1.0], [0.01]]))
    quiet = chance_of_update(rates, 10.0, quiet_days=4.0)
    assert quiet == pytest.approx(chance_of_update(rates, 6.0))
    assert chance_of_update(rates, np.inf) == pytest.approx(1.0)
