"""What ranks seeds: the scheduler, as far as crawl and middlewares know it."""

from __future__ import annotations

from typing import Protocol

from hacs_crawler.crawl.start_watch import StartWatch


class Ranker(Protocol):
    """See the module."""

    watch: StartWatch

    @property
    def wants_ranking(self) -> bool:
        """Whether enough seeds have come to be ranked."""

    def has_pending_requests(self) -> bool:
        """Whether any request waits to be sent."""

    async def end_round(self) -> None:
        """Rank the seeds that have come, the last ones of this round."""

    def begin_round(self) -> None:
        """Let seeds be ranked that were ranked before."""

    async def make_room(self) -> None:
        """Return when few ranked seeds wait, or the crawl has failed."""

    async def rank_ahead(self) -> None:
        """Rank what is held, and return when more seeds may be read."""

    def expect_a_list(self) -> None:
        """Have the seeds ranked whole, however many there are: they come from a list."""

    async def send_what_can_be_sent(self) -> None:
        """Return when the engine has as many of the seeds held as it can take."""

    def note_failure(self) -> None:
        """Let nothing wait any more: the crawl is about to close."""
