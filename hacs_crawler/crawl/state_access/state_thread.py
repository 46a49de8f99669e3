"""The open state as a crawl uses it: calls run in order in a thread next to the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

import numpy as np
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.state import Estimation, Future, Ids, Rows, State, without_future
from hacs_crawler.utils.loop import Worker, in_batches, sleep
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

RETRY_SECONDS: Final = 5.0
"""After how long a state that was away is asked again."""
P = ParamSpec("P")
T = TypeVar("T")


class StateThread:
    """Calls functions with the state in its thread. All methods are called from the event loop.

    `on_error` receives errors after which the crawl goes on, such as an unreachable state.
    """

    def __init__(
        self, state: State, worker: Worker, on_error: Callable[[StateError], None]
    ) -> None:
        self._state = state
        self._worker = worker
        self.on_error = on_error

    @property
    def estimation(self) -> Estimation:
        """How the state's rates are estimated."""
        return self._state.estimation

    def run(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Deferred[T]:
        """Queue a call of a function of the state; the Deferred has its result or its exception."""
        return self._worker.run(function, self._state, *args, **kwargs)

    async def once(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the result of a function of the state; raises StateError also if it is away."""
        return await maybe_deferred_to_future(self.run(function, *args, **kwargs))

    async def patiently(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the result of a function of the state, however long the state is away.

        Raises StateError if trying again is useless.
        """
        while True:
            try:
                return await self.once(function, *args, **kwargs)
            except StateUnavailableError as error:
                self.on_error(error)
                logger.warning("%s; next try in %g s", error, RETRY_SECONDS)
                await maybe_deferred_to_future(sleep(RETRY_SECONDS))

    async def rows(self, page_ids: Sequence[int], now: float) -> tuple[Rows, Future | None]:
        """Return the pages' ranking rows without visits later than `now`, and what there is of these.

        Raises StateError.
        """
        return await self.once(_rows, np.array(page_ids, np.int64), now)

    def urls(self) -> AsyncIterator[str]:
        """Stream the URL of every page known; raises StateError."""
        return in_batches(self._worker, self._state.urls())


def _rows(state: State, page_ids: Ids, now: float) -> tuple[Rows, Future | None]:
    return without_future(state, page_ids, state.rows(page_ids), now)
