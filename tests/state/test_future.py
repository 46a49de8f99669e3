"""Visits that a fast clock left later than now: set aside, and nothing deleted of them."""

from copy import copy

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.links import page_id_of
from hacs_crawler.state import Ids, Rows, State, as_of, without_future
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.merging import thinned
from hacs_crawler.state.page import News, Visit
from hacs_crawler.state.rows import ROW
from hacs_crawler.state.sqlite import MemoryStore
from hacs_crawler.state.store import Store
from hacs_crawler.utils.times import DAY, SKEW_SECONDS, minute_text
from state_support import page_after

URL = "http://example.edu/~ada/"
NOW = 20_000 * DAY
LATER = NOW + 400 * DAY
PAST = [
    Visit(URL, NOW - (20 - day) * DAY, marks=frozenset(range(1 + day // 2))) for day in range(10)
]
FUTURE = [
    Visit(URL, LATER, marks=frozenset(range(50))),
    Visit(URL, LATER + DAY, News.GONE),
    Visit(URL, LATER + 2 * DAY, News.FAILED),
]
IDS = np.array([page_id_of(URL)], np.int64)


def rows_of(*visits: Visit) -> Rows:
    state = State(MemoryStore(), Estimation())
    state.record(visits)
    return state.rows(IDS)


def test_updates_later_than_now_are_no_echoes_yet() -> None:
    page = page_after(*PAST, FUTURE[0])
    for at in (PAST[2].at, LATER):
        page.echoes = thinned([*page.echoes, at])
    assert list(as_of(page, NOW).echoes) == [PAST[2].at]
    assert len(page.echoes) == 2


@pytest.mark.parametrize("future", [FUTURE[:1], FUTURE[:2], FUTURE, FUTURE[1:2], FUTURE[2:]])
def test_a_page_is_ranked_as_if_they_had_not_come(store: Store, future: list[Visit]) -> None:
    state = State(store, Estimation())
    for visit in (*PAST[:5], *future, *PAST[5:]):
        state.record([visit])
    before = state.rows(IDS)
    found, said = without_future(state, IDS, before, NOW)
    seen_alone = future == FUTURE[2:]  # only its row tells of a failure, and rows know no times
    if not seen_alone:
        assert found.tobytes() == rows_of(*PAST).tobytes()
        assert str(said).startswith("1 page has")
        assert f"the latest at {minute_text(max(visit.at for visit in future))} UTC" in str(said)
    assert state.rows(IDS).tobytes() == before.tobytes(), "the state stays as it is"


def test_failures_are_looked_at_where_another_page_shows_that_a_clock_was_fast() -> None:
    other = "http://example.edu/~charles/"
    state = State(MemoryStore(), Estimation())
    state.record([*PAST, FUTURE[2], Visit(other, LATER, marks=frozenset())])
    ids = np.array([page_id_of(URL), page_id_of(other)], np.int64)
    found, said = without_future(state, ids, state.rows(ids), NOW)
    assert found["failures"].tolist() == [0, 0]
    assert found["visits"].tolist() == [10, 0]
    assert str(said).startswith(
        "2 pages have visits later than now, the latest at 2025-11-10 00:00"
    )


def test_they_count_again_when_their_time_has_come(store: Store) -> None:
    state = State(store, Estimation())
    state.record([*PAST, *FUTURE])
    rows = state.rows(IDS)
    found, said = without_future(state, IDS, rows, LATER + 3 * DAY)
    assert found is rows
    assert said is None


def test_clocks_of_machines_may_be_some_minutes_apart() -> None:
    state = State(MemoryStore(), Estimation())
    state.record([Visit(URL, NOW + SKEW_SECONDS, marks=frozenset())])
    assert without_future(state, IDS, state.rows(IDS), NOW)[1] is None
    assert without_future(state, IDS, state.rows(IDS), NOW - 1)[1] is not None


def test_a_404_of_today_that_is_to_be_waited_for_stays() -> None:
    gone = [Visit(URL, NOW - (9 - number) * DAY, News.GONE) for number in range(5)]
    state = State(MemoryStore(), Estimation())
    state.record([*PAST, *gone])
    rows = state.rows(IDS)
    assert rows["not_before"][0] > NOW + 100 * DAY
    assert without_future(state, IDS, rows, NOW) == (rows, None)


VISITS = st.lists(
    st.builds(
        Visit,
        st.just(URL),
        st.integers(1, 60).map(lambda day: day * DAY),
        st.sampled_from(News),
        marks=st.one_of(st.none(), st.frozensets(st.integers(0, 20))),
        digest=st.sampled_from([0, 5, 9]),
        rules=st.sampled_from([0, 7]),
    ),
    max_size=12,
    unique_by=lambda visit: visit.at,
)


@given(VISITS, st.integers(1, 60))
def test_what_is_known_as_of_a_day_is_what_the_visits_until_then_tell(
    visits: list[Visit], day: int
) -> None:
    page, until = page_after(*visits), day * DAY
    before = copy(page)
    past = as_of(page, until)
    expected = page_after(*(visit for visit in visits if visit.at <= until))
    assert (page, past.spells) == (before, expected.spells)
    if not any(visit.news is News.REPEATED for visit in visits):
        assert (past.visits, past.update_times) == (expected.visits, expected.update_times)


def test_rows_of_many_pages_are_looked_at_without_reading_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.zeros(5, ROW)
    rows["last_visit"] = NOW - DAY
    rows["not_before"] = NOW + 6 * DAY
    state = State(MemoryStore(), Estimation())

    def fail(page_ids: Ids) -> None:
        raise AssertionError(page_ids)

    monkeypatch.setattr(state, "load", fail)
    assert without_future(state, np.arange(5), rows, NOW) == (rows, None)
