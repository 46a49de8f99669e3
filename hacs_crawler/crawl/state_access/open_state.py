"""The open state of a crawl: its thread, what reads ahead in it, and what writes behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hacs_crawler.crawl.state_access.read_ahead import ReadAhead
from hacs_crawler.crawl.state_access.state_thread import StateThread
from hacs_crawler.crawl.state_access.write_behind import BUFFER_VISITS, FLUSH_SECONDS, WriteBehind
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import Recorded, State
from hacs_crawler.utils.loop import Worker


class OpenState(StateThread):
    """See the module; visits are written when `flush_visits` of them wait, or after some seconds."""

    def __init__(
        self,
        state: State,
        worker: Worker,
        on_error: Callable[[StateError], None],
        on_recorded: Callable[[Sequence[Recorded]], None],
        flush_visits: int,
    ) -> None:
        super().__init__(state, worker, on_error)
        self.read_ahead = ReadAhead(self)
        self.write_behind = WriteBehind(
            self,
            self.read_ahead,
            on_recorded,
            count=flush_visits,
            seconds=FLUSH_SECONDS,
            limit=BUFFER_VISITS,
        )
