"""What a Retry-After asks for."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from hacs_crawler.utils.times import retry_after

NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC).timestamp()


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose local time is not UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        yield
    time.tzset()


def asked(value: str | bytes | None) -> float | None:
    return retry_after(value.encode() if isinstance(value, str) else value, NOW)


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("120", 120.0), ("0", 0.0), (" 7 ", 7.0)),
        ("Tue, 14 Nov 2023 22:14:50 GMT", 90.0),
        ("Tue, 14 Nov 2023 22:14:50 -0000", 90.0),
        ("Tue Nov 14 22:14:50 2023", 90.0),
        ("Tuesday, 14-Nov-23 22:14:50 GMT", 90.0),
        ("Tue, 14 Nov 2023 22:13:00 GMT", -20.0),  # which is over
        ("Tue, 99 Nov 2023 22:14:50 GMT", None),
        *((text, None) for text in ("", "soon", "-5", "1.5", "١٢", None)),
    ],
)
def test_it_is_a_number_of_seconds_or_a_date_in_utc(
    text: str | None, seconds: float | None
) -> None:
    assert asked(text) == seconds


def test_more_digits_than_any_time_has_are_a_long_time() -> None:
    assert 1e11 < asked("9" * 5000) < float("inf")


@given(st.one_of(st.binary(max_size=60), st.from_regex(r"[A-Z][a-z]{2}, [-\d :+A-Z]{1,40}")))
def test_no_header_does_harm(value: bytes | str) -> None:
    seconds = asked(value)
    assert seconds is None or abs(seconds) < float("inf")
