"""The round of all shards: its budget is exact, and used wherever pages are left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.exceptions import StateError
from hacs_crawler.shards import Round, RoundNotes, open_rounds
from hacs_crawler.shards.rounds import LOT, ShardShare
from hacs_crawler.state import MemoryStore, Shard

BEGAN = 1_000


@pytest.fixture
def notes(state_url: str, namespace: str, tmp_path: Path) -> Iterator[RoundNotes]:
    given = Settings({"HACS_STATE": state_url, "HACS_NAMESPACE": namespace})
    config = replace(Config.from_settings(given), base=tmp_path)
    with closing(open_rounds(config, 2)) as found:
        yield found


def begin(notes: RoundNotes, budget: int | None, shards: int = 2, **given: object) -> None:
    shares = [ShardShare() for _ in range(shards)]
    notes.write(Round(BEGAN, budget, given.get("for_new"), given.get("cut_off"), shares))  # type: ignore[arg-type]


def end(notes: RoundNotes, number: int, *, lost: int = 0, has_more: bool = False) -> Round:
    return notes.end(BEGAN, number, given=0, lost=lost, has_more=has_more)


def test_lots_are_of_fifty_and_fewer_near_the_end(notes: RoundNotes) -> None:
    begin(notes, 230)
    lots = [notes.take(BEGAN, turn % 2, 1_000, 0)[1] for turn in range(12)]
    assert lots[0] == LOT
    assert lots == sorted(lots, reverse=True)
    while lots[-1]:
        lots.append(notes.take(BEGAN, 1, 1_000, 0)[1])
    assert sum(lots) == 230


def test_pages_never_seen_have_their_share_and_known_pages_the_rest(notes: RoundNotes) -> None:
    begin(notes, 10, for_new=4)
    seen = sum(notes.take(BEGAN, 0, 99, 0)[1] for _ in range(20))
    new = sum(notes.take(BEGAN, 1, 0, 99)[2] for _ in range(20))
    assert (seen, new) == (6, 4)


def test_once_all_have_ended_the_rest_is_for_whoever_has_pages_left(notes: RoundNotes) -> None:
    begin(notes, 10, for_new=4, cut_off=0.5)
    notes.take(BEGAN, 0, 1, 0)
    assert end(notes, 0, has_more=True).cut_off == 0.5
    after = end(notes, 1)
    assert (after.cut_off, after.for_new) == (None, None)
    assert [share.has_ended for share in after.shards] == [False, True]
    joined = notes.join(Shard(0, 2))
    assert joined is not None
    assert not joined[1]
    assert sum(notes.take(BEGAN, 0, 99, 0)[1] for _ in range(20)) == 9


def test_a_shard_that_has_ended_waits_for_the_next_plan(notes: RoundNotes) -> None:
    begin(notes, 10)
    end(notes, 0)
    with pytest.raises(StateError, match=r"0/2 has ended in the round .* `hacs plan --shards 2`"):
        notes.join(Shard(0, 2))


def test_what_a_killed_crawl_took_is_free_once_its_successor_has_ended(notes: RoundNotes) -> None:
    begin(notes, 10)
    assert notes.join(Shard(0, 2)) is not None
    taken = sum(notes.take(BEGAN, 0, 99, 0)[1] for _ in range(20))
    joined = notes.join(Shard(0, 2))
    assert joined is not None
    assert (taken, joined[0].free, joined[1]) == (10, 0, True)
    assert end(notes, 0, lost=3).free == 3


def test_a_shard_that_was_given_requests_meanwhile_has_not_ended(notes: RoundNotes) -> None:
    begin(notes, None)

    def given_to_first(round_: Round) -> None:
        round_.shards[0].given += 1

    notes.change(BEGAN, given_to_first)
    assert [share.has_ended for share in end(notes, 0).shards] == [False, False]
    assert notes.end(BEGAN, 0, given=1, lost=0, has_more=False).shards[0].has_ended


def test_without_a_round_there_is_nothing_to_join(notes: RoundNotes) -> None:
    assert notes.read() is None
    assert notes.join(Shard(0, 2)) is None
    begin(notes, 3)
    notes.write(None)
    assert notes.join(Shard(0, 2)) is None


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 300),
    st.none() | st.integers(0, 300),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90), st.integers(0, 90)), max_size=60),
)
def test_no_more_is_taken_than_there_is(
    budget: int, for_new: int | None, turns: list[tuple[int, int, int]]
) -> None:
    notes = RoundNotes(MemoryStore())
    for_new = None if for_new is None else min(for_new, budget)
    begin(notes, budget, shards=4, for_new=for_new)
    seen = new = 0
    for number, wants_seen, wants_new in turns:
        _, got_seen, got_new = notes.take(BEGAN, number, wants_seen, wants_new)
        assert 0 <= got_seen <= wants_seen
        assert 0 <= got_new <= wants_new
        seen, new = seen + got_seen, new + got_new
    assert seen + new <= budget
    assert new <= (for_new or 0)
    assert seen <= budget - (for_new or 0)
