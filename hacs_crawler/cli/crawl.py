"""`hacs crawl`: a spider over all shards of a state; `hacs plan`: the round that it begins with."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Annotated, Final

import typer
from scrapy import Spider
from scrapy.crawler import CrawlerRunner
from scrapy.settings import Settings
from scrapy.utils.conf import arglist_to_dict, feed_complete_default_values_from_settings

from hacs_crawler.cli.common import (
    Set,
    StopSignal,
    project_settings,
    signals_noted,
)
from hacs_crawler.cli.output import ending_in_a_line, show
from hacs_crawler.config import Config, warn_of_unknown
from hacs_crawler.doctor import wiring
from hacs_crawler.exceptions import ClusterError, ConfigError, HacsError
from hacs_crawler.shards import (
    Order,
    Pool,
    Result,
    Round,
    RoundNotes,
    dask_pool,
    local_pool,
    open_rounds,
    open_shards,
    plan_round,
    visited_since,
)
from hacs_crawler.state import MOST_SHARDS, Shard, sqlite_path
from hacs_crawler.utils.terminal import Progress, column_table
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

LOOK_SECONDS: Final = 0.5
COLUMNS: Final = ("asked", "visited", "updates", "dropped", "items", "seconds")
Number = Annotated[int, typer.Option("--shards", min=1, max=MOST_SHARDS, help="number of shards")]


def plan(shards: Number, settings: Set = None) -> None:
    """Begin a round of all shards: one cut-off, and one budget that their crawls share.

    Crawls of shards (`scrapy crawl` with HACS_SHARD) then visit the best pages of all, until each has
    ended. `hacs crawl` begins with this by itself.
    """
    with ending_in_a_line():
        given = project_settings(settings)
        config = Config.from_settings(given)
        warn_of_unknown(given)
        _planned(config, shards)


def crawl(
    spider: Annotated[str, typer.Argument(help="as `scrapy crawl` takes it")],
    shards: Number,
    dask: Annotated[
        str | None,
        typer.Option(help="use the workers of a Dask cluster: its scheduler's HOST:PORT"),
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Option("-a", help="an argument of the spider: NAME=VALUE")
    ] = None,
    settings: Set = None,
) -> None:
    """Crawl all shards of a state as one, with one HACS_BUDGET.

    Each shard is a `scrapy crawl` in a process of its own: as many at a time as this machine has cores,
    or the cluster workers, which have to run in the project's folder. Ctrl-C ends all of them in order,
    a second one at once.
    """
    with ending_in_a_line(), signals_noted() as asked:
        config = _checked(spider, arguments, settings)
        with _pool(config, dask) as pool:
            with asked.ending_block():
                round_ = _planned(config, shards)
            if not asked.number:
                run = _ShardCrawls(config, round_, pool, (spider, *_options(arguments, settings)))
                with closing(run.notes):
                    run.to_its_end(asked)
                    run.show()
                    if not asked.number:
                        run.raise_for_failures()
        if asked.number:
            raise typer.Exit(128 + asked.number)


def _planned(config: Config, shards: int) -> Round:
    round_, known = plan_round(config, shards)
    logger.info(
        "%s known; budget: %s%s; cut-off: %s",
        counted(known, "page"),
        "all" if round_.budget is None else round_.budget,
        "" if round_.for_new is None else f", {round_.for_new} of it for pages never seen",
        "none" if round_.cut_off is None else f"{round_.cut_off:.4g}",
    )
    return round_


def _pool(config: Config, dask: str | None) -> AbstractContextManager[Pool]:
    if dask is None:
        return local_pool()
    is_file = sqlite_path(config.state, config.base) is not None
    reason = "HACS_STATE is an SQLite file, which only this machine can use" if is_file else ""
    return dask_pool(dask, reason)


def _options(arguments: list[str] | None, pairs: list[str] | None) -> list[str]:
    given = [("-a", one) for one in arguments or ()] + [("-s", one) for one in pairs or ()]
    return [part for option in given for part in option]


def _checked(name: str, arguments: list[str] | None, pairs: list[str] | None) -> Config:
    """Read settings and arguments; raises HacsError for what is wrong with them."""
    settings = project_settings(pairs)
    config = Config.from_settings(settings)
    warn_of_unknown(settings)
    try:
        spider = CrawlerRunner(settings).spider_loader.load(name)
    except KeyError:
        raise HacsError(f"there is no spider {name!r} in this project") from None
    if hasattr(spider, "redis_key"):
        msg = f"{name} is fed by a queue: start `scrapy crawl {name}` on any machine"
        raise HacsError(msg)
    check = wiring(settings)
    if check.status == "failure":
        raise HacsError(f"{check.found}; {check.advice}")
    try:
        given = arglist_to_dict(arguments or [])
    except ValueError:
        raise typer.BadParameter("-a takes NAME=VALUE") from None
    if given.get("forever") == "1":
        raise HacsError("forever=1: one round is crawled, have a timer call `hacs crawl` again")
    if given.get("seeds") == "-":
        raise HacsError("seeds=-: each shard's crawl reads the seeds, use a file")
    _check_feeds(settings, spider)
    return config


def _check_feeds(settings: Settings, spider: type[Spider]) -> None:
    """Raise ConfigError if the crawls of several shards would overwrite one file."""
    settings = settings.copy()
    spider.update_settings(settings)
    for address, given in settings.getdict("FEEDS").items():
        feed = feed_complete_default_values_from_settings(dict(given), settings)
        scheme = str(address).partition("://")[0] if "://" in str(address) else "file"
        overwrites = feed.get("overwrite", scheme not in {"file", "stdout"})
        if overwrites and "%(hacs_shard)s" not in str(address):
            raise ConfigError(
                f"FEEDS: {address} would be overwritten by the crawl of each shard: name it with "
                "%(hacs_shard)s, or set overwrite to False"
            )


class _ShardCrawls:
    """The crawls of one round."""

    def __init__(self, config: Config, round_: Round, pool: Pool, command: tuple[str, ...]) -> None:
        self._config = config
        self._pool = pool
        self._command = command
        self._began = round_.began
        self._count = len(round_.shards)
        self._running: dict[int, Future[Result]] = {}
        self._begun_with: dict[int, tuple[object, ...]] = {}
        self._attempts: dict[int, int] = {}
        self._failed: set[int] = set()
        self.notes: RoundNotes = open_rounds(config, self._count)

    def to_its_end(self, asked: StopSignal) -> None:
        """Start crawls of the shards that have pages to visit, until there are none; see what ends."""
        with Progress("crawl") as progress:
            try:
                while not asked.number:
                    self._start(self._round())
                    if not self._running:
                        return
                    self._look(progress)
                self._pool.end()
                while self._running:
                    self._look(progress)
            except KeyboardInterrupt:
                self._pool.end(at_once=True)
                raise typer.Exit(130) from None
            except ClusterError:  # its workers end them
                raise
            except HacsError:
                self._pool.end()
                raise

    def show(self) -> None:
        """Print what the crawls of each shard did, by their states."""
        round_, rows = self._round(), []
        joined = open_shards(self._config, self._count)
        states = dict(zip(joined.shards, joined.states, strict=True)) if joined is not None else {}
        for number, share in enumerate(round_.shards):
            state = states.get(Shard(number, self._count))
            visited, updates = visited_since(state, self._began) if state is not None else ((), 0)
            counts = {**share.counts, "visited": len(visited), "updates": updates}
            rows.append([round(counts.get(name, 0)) for name in COLUMNS])
        if joined is not None:
            joined.close()
        rows.append([sum(column) for column in zip(*rows, strict=True)])
        self._visited = rows[-1][COLUMNS.index("visited")]
        names = [*(f"{number}/{self._count}" for number in range(self._count)), "all"]
        columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
        table = column_table({"shard": names, **columns}, texts=("shard",))
        show(table)

    def raise_for_failures(self) -> None:
        """Raise HacsError if a shard failed, or has pages left to visit, or nothing was visited."""
        round_ = self._round()
        unfinished = [number for number, share in enumerate(round_.shards) if not share.has_ended]
        if self._failed:
            raise HacsError(f"failed: {self._names(sorted(self._failed))}")
        if unfinished and (round_.budget is None or round_.free > 0):
            raise HacsError(f"not all planned pages were reached: {self._names(unfinished)}")
        if not self._visited and round_.budget != 0 and not self._config.ranking.threshold:
            raise HacsError(
                "not one page was visited: HACS_PAGES says which requests are for pages"
            )
        self.notes.write(None)

    def _start(self, round_: Round) -> None:
        for number, share in enumerate(round_.shards):
            is_used_up = round_.budget is not None and round_.free <= 0 and share.attempts
            # one that a crawl just left as it was would be left so again
            present = share.seen + share.new, share.given, round_.cut_off, round_.for_new
            is_stuck = self._begun_with.get(number) == present
            is_done = share.has_ended or is_used_up or is_stuck or number in self._failed
            if not is_done and number not in self._running:
                self._begun_with[number], self._attempts[number] = present, share.attempts
                shard = Shard(number, self._count)
                arguments = ("crawl", *self._command, "-s", f"HACS_SHARD={shard}")
                log = Path(".hacs", f"crawl.{shard.index}-{shard.count}.log")
                self._running[number] = self._pool.start(Order(arguments, str(log)))

    def _look(self, progress: Progress) -> None:
        """Wait a moment, show how far the crawls are, and see which have ended."""
        time.sleep(LOOK_SECONDS)
        round_ = self._round()
        ended = sum(share.has_ended for share in round_.shards)
        asked = sum(round(share.counts.get("asked", 0)) for share in round_.shards)
        text = f"{counted(asked, 'request')}, {ended} of {self._count} shards done"
        progress.update(text, ended, self._count)
        for number in [one for one, future in self._running.items() if future.done()]:
            try:
                result = self._running.pop(number).result()
            except CancelledError as error:
                msg = "the connection to the Dask scheduler is lost: the crawls end"
                raise ClusterError(msg) from error
            share = self._round().shards[number]
            # one that Dask ran twice finds its shard ended, and does not join
            has_joined = share.attempts > self._attempts[number]
            if result.status and (has_joined or not share.has_ended):
                self._failed.add(number)
                logger.error("shard %s failed: %s", self._names([number]), result.said)

    def _round(self) -> Round:
        found = self.notes.read()
        if found is None or found.began != self._began:
            raise HacsError("another round was planned meanwhile: this one is over")
        return found

    def _names(self, numbers: list[int]) -> str:
        return ", ".join(f"{number}/{self._count}" for number in numbers)
