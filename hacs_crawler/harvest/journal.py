"""What is left to be asked of an archive about a seed, so that a killed harvest goes on where it was."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import Any, Final

from hacs_crawler.exceptions import StateError
from hacs_crawler.harvest.query import Span

MOST_MISSED: Final = 1_000
MOST_TRIES: Final = 3
"""In how many runs a capture is asked for that the archive fails to show."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A capture that the archive failed to show, at second `at`, in `tries` runs so far."""

    url: str
    at: int
    tries: int = 1


@dataclass(slots=True)
class Journal:
    """How far a seed's captures are recorded; times are seconds since 1970 UTC, 0 for none.

    `todo` are the spans of a harvest that has not come to its end, `latest` is the latest capture known,
    `retry_from` the earliest one behind which a page has no visit because the archive failed. `missed`
    are captures with visits behind them, which the archive failed to show.
    """

    todo: list[Span] = field(default_factory=list)
    latest: int = 0
    retry_from: int = 0
    is_blocked: bool = False
    missed: list[Missed] = field(default_factory=list)

    def plan(self, since: int, until: int, *, at_least: int) -> None:
        """Add what is newer than all that was asked for, if that is `at_least` seconds."""
        if self.todo:
            last = max(span.until for span in self.todo)
            if until - last >= at_least:
                self.todo.append(Span(last, until))
        else:
            start = max(since, self.retry_from or self.latest)
            self.retry_from = 0
            if until >= start:
                self.todo.append(Span(start, until))

    def to_note(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "todo": [astuple(span) for span in self.todo],
            "latest": self.latest,
            "retry_from": self.retry_from,
            "is_blocked": self.is_blocked,
            "missed": [astuple(one) for one in self.missed[:MOST_MISSED]],
        }

    @classmethod
    def from_note(cls, note: Any, key: str) -> Journal:
        """Return the journal of a note, an empty one for None; raises StateError if it is damaged."""
        if note is None:
            return cls()
        try:
            todo = [
                Span(int(since), int(until), str(after)) for since, until, after in note["todo"]
            ]
            latest, retry_from = int(note["latest"]), int(note["retry_from"])
            missed = [
                Missed(str(url), int(at), int(tries)) for url, at, tries in note.get("missed", [])
            ]
            return cls(todo, latest, retry_from, bool(note["is_blocked"]), missed)
        except (LookupError, TypeError, ValueError) as error:
            msg = f"the note {key!r} in the state is damaged, remove it: {note!r}"
            raise StateError(msg) from error
