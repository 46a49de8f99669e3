"""What is left to be asked about a seed, noted in the state."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hacs_crawler.exceptions import StateError
from hacs_crawler.harvest.query import Span
from hacs_crawler.harvest.seed import Journal

SECONDS = st.integers(0, 2**32)
SPANS = st.builds(Span, SECONDS, SECONDS, st.text(max_size=9))
JOURNALS = st.builds(Journal, st.lists(SPANS, max_size=4), SECONDS, SECONDS, st.booleans())


def planned(journal: Journal, since: int = 10, until: int = 100) -> list[Span]:
    journal.plan(since, until, at_least=5)
    return journal.todo


@given(JOURNALS)
def test_a_journal_is_read_as_it_was_written(journal: Journal) -> None:
    note = json.loads(json.dumps(journal.to_note()))
    assert Journal.from_note(note, "key") == journal


def test_without_a_note_nothing_is_known() -> None:
    assert Journal.from_note(None, "key") == Journal()


@pytest.mark.parametrize(
    "note", [[], {}, 3, {"todo": [[1, 2]]}, {"todo": [], "latest": "x", "retry_from": 0}]
)
def test_a_damaged_note_is_named(note: object) -> None:
    with pytest.raises(StateError, match="the note 'harvest/x' in the state is damaged"):
        Journal.from_note(note, "harvest/x")


def test_the_first_harvest_asks_for_everything() -> None:
    assert planned(Journal()) == [Span(10, 100)]


def test_a_later_harvest_asks_from_the_latest_capture_on() -> None:
    assert planned(Journal(latest=50)) == [Span(50, 100)]


def test_what_the_archive_failed_to_give_is_asked_for_again_once() -> None:
    journal = Journal(latest=50, retry_from=30)
    assert planned(journal) == [Span(30, 100)]
    assert journal.retry_from == 0


def test_nothing_is_asked_for_outside_the_bounds() -> None:
    assert planned(Journal(latest=50), since=70) == [Span(70, 100)]
    assert planned(Journal(latest=50), until=40) == []


def test_a_harvest_broken_off_goes_on_and_then_with_what_is_newer() -> None:
    todo = [Span(20, 40, "key"), Span(41, 60)]
    assert planned(Journal(todo.copy()), until=100) == [*todo, Span(60, 100)]


def test_a_harvest_broken_off_a_moment_ago_only_goes_on() -> None:
    todo = [Span(20, 97, "key")]
    assert planned(Journal(todo.copy()), until=100) == todo
