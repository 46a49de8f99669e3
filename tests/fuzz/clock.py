"""Time in scenarios: HACS_CLOCK stands still within a run, and the process's own clocks run fast."""

import asyncio
import selectors
import time
from collections.abc import Callable

NOON = 1_767_268_800
"""Of 2026-01-01."""
DAY = 86_400
TIMES = 30
"""How much faster pauses pass: those that hosts ask for cost no test its time."""
day = 0


def now() -> float:
    return NOON + DAY * day


def day_of(second: int) -> int:
    return (second - NOON) // DAY


def run_fast() -> None:
    """To be called before anything keeps a function of `time` under a name of its own."""
    time.monotonic = _faster(time.monotonic)
    time.time = _faster(time.time)  # Twisted's timers go by it


def _faster(clock: Callable[[], float]) -> Callable[[], float]:
    begun = clock()
    return lambda: begun + TIMES * (clock() - begun)


class _Selector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found: list[tuple[selectors.SelectorKey, int]] = super().select(
            timeout / TIMES if timeout else timeout
        )
        return found


def fast_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(_Selector())
