"""The journal of a seed's harvest: its progress, and captures to request again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from hacs_crawler.archive import Capture, key_of
from hacs_crawler.harvest.query import Span

MOST_MISSED: Final = 1_000
# The most runs in which a capture is requested that the archive fails to show.
MOST_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Missed:
    """A capture at second `at` that the archive failed to show in `tries` runs.

    Once it is shown or given up, it is kept with `MOST_TRIES` tries for as long as the index may
    name it again. `place` is the capture's.
    """

    url: str
    at: int
    tries: int = 1
    digest: str = ""
    place: str = ""

    @classmethod
    def of(cls, capture: Capture) -> Self:
        """Return a capture that the archive failed to show for the first time."""
        return cls(capture.url, capture.at, digest=capture.digest, place=capture.place)

    @property
    def key(self) -> tuple[str, int, str]:
        """The capture's key; see `Capture.key`."""
        return self.url, self.at, self.place

    @property
    def capture(self) -> Capture:
        """The capture, with the fields that its memento needs."""
        key = key_of(self.url)[0]
        return Capture(key, self.url, self.at, None, "text/html", self.digest, self.place)

    @property
    def is_open(self) -> bool:
        """Whether it must be requested again."""
        return self.tries < MOST_TRIES


@dataclass(slots=True)
class Journal:
    """The progress of a seed's harvest.

    `todo` are the remaining spans of an unfinished harvest, `latest` is the time of the latest
    known capture in seconds since 1970 UTC, 0 for none. `missed` are captures that the archive
    failed to show. `has_visits` says whether any capture became a visit.
    """

    todo: list[Span] = field(default_factory=list)
    latest: int = 0
    is_blocked: bool = False
    missed: list[Missed] = field(default_factory=list)
    has_visits: bool = False

    @property
    def status(self) -> str:
        """The value for `SeedHistory.status`."""
        if self.is_blocked:
            return "blocked"
        if self.latest:
            return "history" if self.has_visits else "unread"
        return "none"

    def plan(self, since: int, until: int, *, at_least: int) -> None:
        """Add the time since the last requested span; to an unfinished harvest, `at_least` seconds."""
        if self.todo:
            last = max(span.until for span in self.todo)
            if until - last >= at_least:
                self.todo.append(Span(last, until))
        else:
            start = max(since, self.latest)
            if until >= start:
                self.todo.append(Span(start, until))

    def on_tried(
        self, asked: Sequence[Missed], failed: Iterable[Capture], *, all_were_asked: bool
    ) -> int:
        """Note which missed captures failed again; if all were asked, the others were shown.

        Returns how many are given up.
        """
        again = {capture.key for capture in failed}
        tried: dict[Missed, Missed] = {}
        for capture in asked:
            if capture.key in again:
                tried[capture] = replace(capture, tries=capture.tries + 1)
            elif all_were_asked:
                tried[capture] = replace(capture, tries=MOST_TRIES)
        self.missed = [tried.get(capture, capture) for capture in self.missed]
        return sum(not capture.is_open and capture.key in again for capture in tried.values())

    def forget(self) -> int:
        """Forget captures that the index will not name again; return how many were over the limit."""
        if not self.todo:
            self.missed = [
                capture for capture in self.missed if capture.is_open or capture.at >= self.latest
            ]
        too_many = len(self.missed) - MOST_MISSED
        del self.missed[MOST_MISSED:]
        return max(0, too_many)
