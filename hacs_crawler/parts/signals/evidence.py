"""What the state holds of signals, for the pages that are about to be ranked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Part
from hacs_crawler.ranking.signals import Signals, read_signals
from hacs_crawler.state import Rows, State, refit_signals


class SignalEvidence(Part):
    """Has signals count, whoever brought them and whatever HACS_SIGNALS says."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> SignalEvidence:
        """Return the part: a state without signals is asked in one short read."""
        return cls(crawl)

    async def evidence(self, rows: Rows) -> Sequence[Signals]:
        """Return the signals of the pages of ranking rows."""
        policy = self._crawl.config.ranking.policy

        def read(state: State) -> list[Signals]:
            return read_signals(state.store, rows["site"], policy)

        return await self._crawl.state.once(read)

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Learn the reliability of signals from the recorded visits."""
        del is_asked_to_end
        if self._crawl.stats.recorded:
            await self._crawl.state.once(lambda state: refit_signals(state.store))
