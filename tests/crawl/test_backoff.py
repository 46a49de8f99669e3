"""Hosts that want to be left alone, and how a Retry-After is read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import Response

from hacs_crawler.crawl.backoff import LONGEST_WAIT_SECONDS, HostPauses, retry_after

NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC).timestamp()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pauses(clock: Clock) -> HostPauses:
    return HostPauses(clock)


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose local time is not UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Pacific/Auckland")
        time.tzset()
        yield
    time.tzset()


def asked(value: str | bytes) -> float | None:
    return retry_after(Response("http://a.example/", headers={"Retry-After": value}), NOW)


def test_a_host_is_left_alone_for_as_long_as_it_asked(pauses: HostPauses, clock: Clock) -> None:
    pauses.pause("a.example", 30.0)
    assert pauses.seconds_left("a.example") == 30.0
    clock.now += 29.0
    assert pauses.seconds_left("a.example") == 1.0
    assert pauses.holds("a.example")
    clock.now += 1.0
    assert pauses.seconds_left("a.example") == 0.0
    assert not pauses.holds("a.example")


def test_other_hosts_may_be_asked_meanwhile(pauses: HostPauses) -> None:
    pauses.pause("a.example", 30.0)
    assert pauses.seconds_left("b.example") == 0.0
    assert not pauses.holds("b.example")


def test_of_two_wishes_the_longer_counts(pauses: HostPauses) -> None:
    pauses.pause("a.example", 30.0)
    pauses.pause("a.example", 5.0)
    assert pauses.seconds_left("a.example") == 30.0
    pauses.pause("a.example", 40.0)
    assert pauses.seconds_left("a.example") == 40.0


def test_a_pause_that_is_over_is_forgotten(pauses: HostPauses, clock: Clock) -> None:
    pauses.pause("a.example", 30.0)
    assert len(pauses) == 1
    clock.now += 31.0
    pauses.seconds_left("a.example")
    assert len(pauses) == 0


def test_requests_wait_for_a_host_that_asks_for_little_and_not_for_one_that_asks_for_too_much(
    pauses: HostPauses, clock: Clock
) -> None:
    pauses.pause("a.example", LONGEST_WAIT_SECONDS)
    pauses.pause("b.example", LONGEST_WAIT_SECONDS + 1.0)
    assert pauses.holds("a.example")
    assert not pauses.holds("b.example")
    assert pauses.seconds_left("b.example") == LONGEST_WAIT_SECONDS + 1.0
    clock.now += 2.0
    assert pauses.holds("b.example"), "what is left of it can be waited for"


@pytest.mark.parametrize(("text", "seconds"), [("120", 120.0), ("0", 0.0), (" 7 ", 7.0)])
def test_retry_after_may_be_a_number_of_seconds(text: str, seconds: float) -> None:
    assert asked(text) == seconds


def test_retry_after_may_be_a_date() -> None:
    date = datetime.fromtimestamp(NOW + 90.0, UTC)
    assert asked(format_datetime(date, usegmt=True)) == 90.0
    assert asked("Tue, 14 Nov 2023 22:13:00 GMT") == -20.0, "which is over"


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize(
    "text",
    [
        "Tue, 14 Nov 2023 22:14:50 GMT",
        "Tue, 14 Nov 2023 22:14:50 -0000",
        "Tue Nov 14 22:14:50 2023",
        "Tuesday, 14-Nov-23 22:14:50 GMT",
    ],
)
def test_all_forms_of_dates_are_in_utc_as_http_has_it(text: str) -> None:
    assert asked(text) == 90.0


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5", "١٢", "Tue, 99 Nov 2023 22:14:50 GMT"])
def test_what_is_neither_asks_for_nothing(text: str) -> None:
    assert asked(text) is None


def test_an_answer_without_the_header_asks_for_nothing() -> None:
    assert retry_after(Response("http://a.example/"), NOW) is None


def test_more_digits_than_any_time_has_are_a_long_time() -> None:
    seconds = asked("9" * 5000)
    assert seconds is not None
    assert LONGEST_WAIT_SECONDS < seconds < float("inf")


@given(st.one_of(st.binary(max_size=60), st.from_regex(r"[A-Z][a-z]{2}, [-\d :+A-Z]{1,40}")))
def test_no_header_does_harm(value: bytes | str) -> None:
    seconds = asked(value)
    assert seconds is None or abs(seconds) < float("inf")
