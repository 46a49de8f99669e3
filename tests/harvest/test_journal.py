"""What is left to be asked about a seed, noted in the state."""

from dataclasses import asdict

import pytest
from hypothesis import given, strategies as st

from hacs_crawler.exceptions import StateError
from hacs_crawler.harvest.journal import MOST_MISSED, MOST_TRIES, Journal, Missed
from hacs_crawler.harvest.query import Span
from hacs_crawler.state import MemoryStore, read_note

SECONDS = st.integers(0, 2**32)
TEXTS = st.text(max_size=9)
URL = "http://a.org/"
MISSED = st.builds(Missed, st.just(URL), SECONDS, st.integers(1, MOST_TRIES), TEXTS, place=TEXTS)
JOURNALS = st.builds(
    Journal,
    st.lists(st.builds(Span, SECONDS, SECONDS, TEXTS, index=TEXTS), max_size=4),
    SECONDS,
    st.booleans(),
    st.lists(MISSED, max_size=4),
    st.booleans(),
)


def noted(note: object) -> Journal:
    store = MemoryStore()
    store.write_meta({"harvest/x": note})
    return read_note(store, "harvest/x", Journal)


@given(JOURNALS)
def test_a_journal_is_read_as_it_was_written(journal: Journal) -> None:
    assert noted(asdict(journal)) == journal


@pytest.mark.parametrize(
    "note", [[], 3, {"todo": [[1, 2]]}, {"todo": [{}]}, {"todo": [], "latest": "x"}]
)
def test_a_damaged_note_is_named(note: object) -> None:
    with pytest.raises(StateError, match="the note 'harvest/x' in the state is damaged"):
        noted(note)


def test_captures_of_one_second_in_two_archives_are_told_apart() -> None:
    journal = Journal(missed=[Missed(URL, 5, place="a"), Missed(URL, 5, place="b")])
    failed = [journal.missed[0].capture]
    journal.on_tried(journal.missed, failed, all_were_asked=True)
    assert [one.is_open for one in journal.missed] == [True, False]


TODO = [Span(20, 40, "key"), Span(41, 60)]
A_MOMENT_AGO = [Span(20, 97, "key")]


@pytest.mark.parametrize(
    ("todo", "latest", "bounds", "plan"),
    [
        ([], 0, (10, 100), [Span(10, 100)]),
        ([], 50, (10, 100), [Span(50, 100)]),
        ([], 50, (70, 100), [Span(70, 100)]),
        ([], 50, (10, 40), []),
        # one that was broken off goes on, and then with what is newer
        (TODO, 0, (10, 100), [*TODO, Span(60, 100)]),
        (A_MOMENT_AGO, 0, (10, 100), A_MOMENT_AGO),
    ],
)
def test_a_harvest_asks_from_the_latest_capture_on_and_for_nothing_outside_the_bounds(
    todo: list[Span], latest: int, bounds: tuple[int, int], plan: list[Span]
) -> None:
    journal = Journal([*todo], latest=latest)
    journal.plan(*bounds, at_least=5)
    assert journal.todo == plan


def missed(*tries: int) -> list[Missed]:
    """Captures of the seconds 1, 2 and so on, asked for so often."""
    return [Missed(URL, at, number) for at, number in enumerate(tries, 1)]


def test_of_captures_asked_for_again_those_that_failed_are_counted_once_more() -> None:
    journal = Journal(missed=missed(1, 2, 1))
    failed = [one.capture for one in journal.missed[:2]]
    assert journal.on_tried(journal.missed, failed, all_were_asked=True) == 1
    assert [one.tries for one in journal.missed] == [2, MOST_TRIES, MOST_TRIES]


def test_captures_that_were_not_asked_for_any_more_are_left_for_the_next_run() -> None:
    journal = Journal(missed=missed(1, 1))
    journal.on_tried(journal.missed, [journal.missed[0].capture], all_were_asked=False)
    assert [one.tries for one in journal.missed] == [2, 1]


def test_a_capture_given_up_is_kept_while_the_index_may_name_it_again() -> None:
    journal = Journal(latest=2, missed=missed(MOST_TRIES, MOST_TRIES, 1))
    assert journal.forget() == 0
    assert [one.at for one in journal.missed] == [2, 3]
    assert Journal(missed=missed(*[1] * (MOST_MISSED + 7))).forget() == 7, "and more are counted"
