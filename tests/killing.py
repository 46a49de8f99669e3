"""A Scrapy extension that kills its process at a moment which the setting KILL_AT names."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler

from hacs_crawler.crawl import crawl
from hacs_crawler.state.database import Recorded, State
from hacs_crawler.state.redis import RedisStore
from hacs_crawler.state.sqlite import SQLiteStore
from hacs_crawler.state.store import Change

TIMES = 3
"""At which request or write the moments that come again and again kill."""


def kill(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write_acknowledged(file: Path) -> None:
    """Have crawls write URL and second of each visit to a file when the state has acknowledged it."""
    note = crawl.Crawl._on_recorded

    def noting(self: crawl.Crawl, recorded: Sequence[Recorded]) -> None:
        visits = (one.visit for one in recorded if one.visit.at in one.after.visits)
        with file.open("a") as lines:
            lines.writelines(f"{visit.url} {visit.at}\n" for visit in visits)
        note(self, recorded)

    crawl.Crawl._on_recorded = noting


class KillAt:
    """Also writes each visit, when it is acknowledged, to the file ACKNOWLEDGED."""

    def __init__(self, crawler: Crawler, moment: str, acknowledged: Path) -> None:
        self._crawler = crawler
        write_acknowledged(acknowledged)
        getattr(self, f"_at_{moment}")()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        return cls(crawler, settings["KILL_AT"], Path(settings["ACKNOWLEDGED"]))

    def _at_opening(self) -> None:
        crawl.open_state = _after(crawl.open_state, 1)

    def _at_ranking(self) -> None:
        State.rows = _after(State.rows, 1)

    def _at_downloading(self) -> None:
        at_last = _after(lambda *_, **__: None, 5 * TIMES)
        self._keep = at_last  # signals hold their receivers weakly
        self._crawler.signals.connect(at_last, signals.request_reached_downloader)

    def _at_writing(self) -> None:
        """In the middle of a transaction, or when a pipeline was sent, not yet answered."""
        SQLiteStore._insert_outcomes = _after(SQLiteStore._insert_outcomes, TIMES)

        def sent(pipe: Any) -> list[Any]:
            connection = pipe.connection_pool.get_connection()
            connection.send_packed_command(
                connection.pack_commands([args for args, _ in pipe.command_stack])
            )
            kill()
            raise AssertionError

        count = iter(range(TIMES))
        real = RedisStore.write

        def at_last(store: RedisStore, changes: Sequence[Change]) -> dict[int, bytes]:
            if next(count, None) is None:
                RedisStore._written = lambda _, pipe: sent(pipe)
            return real(store, changes)

        RedisStore.write = at_last

    def _at_acknowledging(self) -> None:
        """Between the write and the moment at which the crawl learns of it."""
        State.record = _after(State.record, TIMES)

    def _at_closing(self) -> None:
        State.refit_prior = kill


def _after(function: Callable[..., Any], times: int) -> Callable[..., Any]:
    """Return a function that does the same, and kills when it was called so often."""
    calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        result = function(*args, **kwargs)
        calls += 1
        if calls >= times:
            kill()
        return result

    return call
