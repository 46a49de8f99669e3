"""Twin states: copied and marked at the start of an experiment, and joined at its end."""

from collections.abc import Callable, Sequence
from itertools import islice
from secrets import token_hex

import numpy as np
from msgspec import Struct, to_builtins

from hacs_crawler.exceptions import HacsError
from hacs_crawler.shards import states_in
from hacs_crawler.state import (
    COPYING,
    PAGES_A_CALL,
    TWINS,
    State,
    copy_states,
    finish_copy,
    follow_prior,
    read_note,
    refuse_filled,
    visits_of,
)
from hacs_crawler.utils.times import day_text


class Twins(Struct, frozen=True):
    """The note in twin states: when the experiment began, and the addresses, the original's first.

    `began` is in seconds since 1970 UTC. Addresses lack passwords.
    """

    number: str
    began: int
    places: tuple[str, ...]

    def __str__(self) -> str:
        """Return a sentence about the twins, for error messages."""
        return (
            f"{' and '.join(self.places)} are twins of an experiment since {day_text(self.began)}"
        )


def twins_of(state: State) -> Twins | None:
    """Return the note of a state, None if it is not a twin; raises StateError."""
    return read_note(state.store, TWINS, Twins)


def refuse_twin(state: State) -> None:
    """Raise HacsError if the state is a twin, which must not get other visits."""
    if (twins := twins_of(state)) is not None:
        raise HacsError(f"{twins}: nothing is imported before `hacs experiment end` joins them")


def start(
    state: State,
    others: Sequence[Sequence[State]],
    places: Sequence[str],
    now: float,
    on_pages: Callable[[int], object] = lambda _: None,
) -> int:
    """Copy a state to each of the others, which are given as their shards; mark all as twins.

    `places` are the addresses of all states, for messages. Returns the number of pages. Raises HacsError
    during another experiment, StateError if a target is not empty. An interrupted start is continued.
    """
    twins = twins_of(state)
    is_stopped = any(target.store.read_meta(COPYING) for targets in others for target in targets)
    if twins is not None and not (is_stopped and twins.places == tuple(places)):
        raise HacsError(f"{twins}: `hacs experiment end` ends it")
    if not state.store.count():
        raise HacsError(f"{places[0]} knows no page yet: crawl first, or read archives")
    for address, targets in zip(places[1:], others, strict=True):
        refuse_filled([target.store for target in targets], places[0], address)
    number = 0
    for targets in others:
        number = copy_states(states_in(state), targets, places[0], on_pages)
    note = Twins(token_hex(8), int(now), tuple(places))
    for each in (*(target for targets in others for target in targets), state):
        each.store.write_meta({TWINS: to_builtins(note)})
    for targets in others:
        finish_copy(targets)
    return number


def checked(state: State, others: Sequence[State], places: Sequence[str]) -> Twins:
    """Return the note that all states share; raises HacsError if they do not."""
    note = twins_of(state)
    if note is None:
        raise HacsError(f"{places[0]} is not a twin: `hacs experiment start ADDRESS` copies it")
    for other, address in zip(others, places[1:], strict=True):
        if twins_of(other) != note:
            raise HacsError(f"{address} is not a twin of {places[0]}: {note}")
    return note


def join(state: State, other: State) -> None:
    """Add another state's visits to a state; doing this twice is safe. Raises StateError."""
    pages = (page for page in other.pages() if page is not None)
    while batch := list(islice(pages, PAGES_A_CALL)):
        state.restore(batch)
    theirs = other.outcomes()
    for label in other.labels_of(theirs).values():
        for shard in states_in(state):
            shard.keep_label(label)
    state.store.add_outcomes(theirs[~np.isin(visits_of(theirs), visits_of(state.outcomes()))])


def end(state: State, others: Sequence[State], places: Sequence[str]) -> None:
    """Add the visits of all twins to the first, and remove the marks.

    An interrupted end is continued. Raises HacsError.
    """
    note = twins_of(state)
    if note is None:
        raise HacsError(f"{places[0]} is not a twin: there is nothing to end")
    for other, address in zip(others, places[1:], strict=True):
        if twins_of(other) not in (note, None) or address not in note.places:
            raise HacsError(f"{address} is not a twin of {places[0]}: {note}")
    if missing := [address for address in note.places[1:] if address not in places]:
        raise HacsError(f"{note}: name {' and '.join(missing)}, too")
    for other in others:
        join(state, other)
    for each in (*others, state):
        each.store.write_meta({TWINS: None})
    for shard in states_in(state):
        follow_prior(shard, lambda _: None)
