"""The round of all shards: its budget is exact, and used wherever pages are left."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.exceptions import StateError
from hacs_crawler.shards import Round, ShardShare, open_rounds
from hacs_crawler.shards.rounds import LOT
from hacs_crawler.state import Shard

FIRST = Shard(0, 2)


def begun(
    budget: int | None, shards: int = 2, for_new: int | None = None, cut_off: float | None = None
) -> Round:
    return Round(1_000, budget, for_new, cut_off, [ShardShare() for _ in range(shards)])


def end(round_: Round, number: int, *, given: int = 0, more: bool = False) -> None:
    round_.end(number, given=given, has_more=more)


def test_lots_are_of_fifty_and_fewer_near_the_end() -> None:
    round_ = begun(230)
    lots = [round_.take(turn % 2, 1_000, 0)[0] for turn in range(12)]
    assert lots[0] == LOT
    assert lots == sorted(lots, reverse=True)
    while lots[-1]:
        lots.append(round_.take(1, 1_000, 0)[0])
    assert sum(lots) == 230


def test_pages_never_seen_have_their_share_and_known_pages_the_rest() -> None:
    round_ = begun(10, for_new=4)
    seen = sum(round_.take(0, 99, 0)[0] for _ in range(20))
    assert (seen, sum(round_.take(1, 0, 99)[1] for _ in range(20))) == (6, 4)


@pytest.mark.parametrize(("new_first", "seen", "new"), [(0, 6, 4), (3, 6, 4), (9, 1, 9)])
def test_known_pages_leave_as_many_visits_to_others_as_the_round_before_left(
    new_first: int, seen: int, new: int
) -> None:
    round_ = begun(10)
    round_.kept = 4
    first = sum(round_.take(0, 0, 1)[1] for _ in range(new_first))
    assert sum(round_.take(0, 99, 0)[0] for _ in range(20)) == seen
    assert first + sum(round_.take(1, 0, 99)[1] for _ in range(20)) == new


@pytest.mark.parametrize(("for_new", "first", "last"), [(None, 3, 3), (2, 1, 5)])
def test_what_was_planned_of_a_shard_is_left_to_it_until_it_has_ended(
    for_new: int | None, first: int, last: int
) -> None:
    round_ = begun(10, for_new=for_new)
    round_.shards[1].planned = 7
    assert sum(round_.take(0, 99, 0)[0] for _ in range(20)) == first
    assert [round_.take(1, 1, 1) for _ in range(2)] == [(1, 1), (1, 1)]
    assert round_.take(0, 99, 0) == (0, 0)
    end(round_, 1)
    assert sum(round_.take(0, 99, 0)[0] for _ in range(20)) == last


def test_once_all_have_ended_the_rest_is_for_whoever_has_pages_left() -> None:
    """Of known pages and of pages never seen each have what is left of their share first."""
    round_ = begun(10, for_new=4, cut_off=0.5)
    round_.take(0, 1, 0)
    end(round_, 0, more=True)
    assert round_.cut_off == 0.5
    end(round_, 1)
    assert (round_.cut_off, round_.for_new) == (None, 4)
    assert [share.has_ended for share in round_.shards] == [False, True]
    assert round_.join(FIRST, done=1).seen == 1
    assert sum(round_.take(0, 99, 0)[0] for _ in range(20)) == 5
    assert sum(round_.take(0, 0, 1)[1] for _ in range(2)) == 2
    end(round_, 0, more=True)
    assert (round_.for_new, round_.shards[0].has_ended) == (None, False)
    assert sum(round_.take(0, 99, 0)[0] for _ in range(20)) == 2


def test_a_shard_that_has_ended_waits_for_the_next_plan() -> None:
    round_ = begun(10)
    end(round_, 0)
    with pytest.raises(StateError, match=r"0/2 has ended in the round .* `hacs plan --shards 2`"):
        round_.join(FIRST, done=0)


def test_what_a_crawl_took_that_ended_in_order_is_used() -> None:
    round_ = begun(10)
    round_.join(FIRST, done=0)
    assert sum(round_.take(0, 99, 0)[0] for _ in range(20)) == 10
    end(round_, 0, given=1)
    assert round_.join(FIRST, done=3).seen == 10  # a page that is visited twice is one page


def test_a_lot_whose_answer_was_lost_is_not_lost() -> None:
    round_ = begun(40)
    round_.take(0, 99, 0)
    assert round_.take(0, 99, 0) == round_.take(0, 99, 0, ShardShare(seen=10)) == (7, 0)
    assert round_.free == 23


def test_a_shard_that_was_given_requests_meanwhile_has_not_ended() -> None:
    round_ = begun(None)
    round_.give({0})
    end(round_, 0)
    assert not round_.shards[0].has_ended
    end(round_, 0, given=1)
    assert round_.shards[0].has_ended
    round_.give({0})
    assert not round_.shards[0].has_ended


def test_a_start_is_usual_if_it_yields_what_that_of_another_shard_did() -> None:
    round_ = begun(None, shards=3)
    starts = [(0, 70), (0, 70), (1, 70), (0, 70), (2, 50)]
    assert [round_.is_usual(*start) for start in starts] == [None, None, True, True, False]


def test_a_round_is_kept_with_the_state_until_it_is_over(
    state_url: str, namespace: str, tmp_path: Path
) -> None:
    given = Settings({"HACS_STATE": state_url, "HACS_NAMESPACE": namespace})
    config = replace(Config.from_settings(given), base=tmp_path)
    round_ = begun(100)
    with closing(open_rounds(config, 2)) as notes, closing(open_rounds(config, 2)) as others:
        assert notes.read() is None
        notes.write(round_)
        changed, taken = others.change(round_.began, lambda found: found.take(0, 3, 0))
        assert taken == (3, 0)
        assert changed == notes.read() != round_
        with pytest.raises(StateError, match="another one was planned"):
            notes.change(round_.began - 1, lambda found: found.take(0, 3, 0))
        changed, _ = notes.change(
            round_.began, lambda found: found.end(1, given=0, has_more=True, unseen=5)
        )
        assert others.unseen() == 5
        notes.write(None)
        assert (others.read(), others.unseen()) == (None, 5)
        notes.write(begun(100))
        assert others.unseen() == 0


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 300),
    st.none() | st.integers(0, 300),
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90), st.integers(0, 90)), max_size=60),
)
def test_no_more_is_taken_than_there_is(
    budget: int, for_new: int | None, kept: int, turns: list[tuple[int, int, int]]
) -> None:
    for_new = None if for_new is None else min(for_new, budget)
    round_ = begun(budget, shards=4, for_new=for_new)
    round_.kept = min(kept, budget) if for_new is None else 0
    seen = new = 0
    for number, wants_seen, wants_new in turns:
        got_seen, got_new = round_.take(number, wants_seen, wants_new)
        assert 0 <= got_seen <= wants_seen
        assert 0 <= got_new <= wants_new
        seen, new = seen + got_seen, new + got_new
    assert seen + new <= budget
    assert for_new is None or new <= for_new
    assert seen <= budget - (round_.kept if for_new is None else for_new)
