"""How far a long task is: a bar where standard error is a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

from hacs_crawler.utils.text import safe_logger

if TYPE_CHECKING:
    from rich import progress as bars

logger = safe_logger(__name__)

LOG_SECONDS: Final = 10.0
"""How far apart log lines are at least."""


class Progress:
    """Shows how far a task is while its `with` block runs (or between `start` and `stop`).

    On a terminal it is one line with a bar, which is gone at the end; log lines to standard error and
    what is printed there appear above it. Elsewhere the state is logged every `LOG_SECONDS`. Used from
    one thread at a time.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._first: int | None = None
        self._started = self._logged = time.monotonic()
        self._bar: bars.Progress | None = None
        self._stderr: TextIO = sys.stderr

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Show the task from now on."""
        self._started = self._logged = time.monotonic()
        # not console.is_terminal alone: the variable FORCE_COLOR makes that true of files
        if not sys.stderr.isatty():
            return
        from rich import progress as bars  # noqa: PLC0415 - large, and crawls show no bar
        from rich.console import Console  # noqa: PLC0415 - as above

        console = Console(stderr=True)
        if not console.is_terminal or console.is_dumb_terminal:
            return
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.TaskProgressColumn(),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
        )
        self._bar.add_task(self._title, total=None)
        self._stderr = sys.stderr
        self._bar.start()  # replaces sys.stderr by what prints above the bar
        _redirect_logging(self._stderr, sys.stderr)

    def update(self, text: str, completed: int | None = None, total: int | None = None) -> None:
        """Say in `text` how far the task is; with `completed` of `total` the time left is shown too."""
        if self._bar is not None:
            (task,) = self._bar.task_ids
            description = f"{self._title}: {text}"
            self._bar.update(task, description=description, completed=completed, total=total)
            return
        now = time.monotonic()
        if self._first is None:
            self._first = completed
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            share = self._share(now - self._started, completed, total)
            logger.info("%s: %s%s", self._title, text, share)

    def stop(self) -> None:
        """Take the bar away; to be called once more does no harm."""
        if self._bar is None:
            return
        _redirect_logging(sys.stderr, self._stderr)
        self._bar.stop()
        self._bar = None

    def _share(self, elapsed_seconds: float, completed: int | None, total: int | None) -> str:
        if not completed or not total:
            return ""
        done = completed - (self._first or 0)
        left = elapsed_seconds * (total - completed) / done if done > 0 else None
        share = f" ({100 * completed // total} %"
        return share + (")" if left is None else f", {timedelta(seconds=round(left))} left)")


def _redirect_logging(old: TextIO, new: TextIO) -> None:
    """Have the handlers that log to the stream `old`, such as Scrapy's, log to `new`."""
    handlers: Iterable[logging.Handler] = logging.getLogger().handlers
    for handler in handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            handler.setStream(new)
