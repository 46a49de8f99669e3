"""`hacs crawl`: a spider over all shards of a state; `hacs plan`: the round that it begins with."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, closing, suppress
from itertools import chain
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
from hacs_crawler.exceptions import (
    ClusterError,
    ConfigError,
    HacsError,
    StateUnavailableError,
)
from hacs_crawler.shards import (
    ENDED,
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
    or the cluster workers, which have to run in the project's folder. Ctrl-C ends all crawls in order,
    a second Ctrl-C kills them.
    """
    # a second signal interrupts
    with ending_in_a_line(), signals_noted() as asked, suppress(KeyboardInterrupt):
        config = _checked(spider, arguments, settings)
        is_file = sqlite_path(config.state, config.base) is not None
        reason = "HACS_STATE is an SQLite file, which only this machine can use" if is_file else ""
        with local_pool() if dask is None else dask_pool(dask, reason) as pool:
            with asked.ending_block():
                round_ = _planned(config, shards)
            if not asked.number:
                options = [("-a", one) for one in arguments or ()]
                options += [("-s", one) for one in settings or ()]
                command = (spider, *chain.from_iterable(options))
                with closing(open_rounds(config, shards)) as notes:
                    run = _ShardCrawls(notes, round_, pool, command)
                    run.to_its_end(asked)
                    visited = _show(config, run.round())
                    if not asked.number:
                        run.raise_for_failures()
                        if not visited and round_.budget != 0 and not config.ranking.threshold:
                            raise HacsError(
                                "not one page was visited: HACS_PAGES says which requests are for pages"
                            )
                        notes.write(None)
    if asked.number:
        raise typer.Exit(128 + asked.number)


def _planned(config: Config, shards: int) -> Round:
    round_, pages = plan_round(config, shards)
    logger.info(
        "%s known; budget: %s%s; cut-off: %s",
        counted(pages, "page"),
        "all" if round_.budget is None else round_.budget,
        "" if round_.for_new is None else f", {round_.for_new} of it for pages never seen",
        "none" if round_.cut_off is None else f"{round_.cut_off:.4g}",
    )
    return round_


def _checked(name: str, arguments: list[str] | None, pairs: list[str] | None) -> Config:
    """Read settings and arguments; raises HacsError that names a fault in them."""
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
    if given.get("forever", "0") not in {"", "0"}:
        raise HacsError("forever: one round is crawled, have a timer call `hacs crawl` again")
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

    def __init__(
        self, notes: RoundNotes, round_: Round, pool: Pool, command: tuple[str, ...]
    ) -> None:
        self._notes, self._pool, self._command = notes, pool, command
        self._began, self._count = round_.began, len(round_.shards)
        self._running: dict[int, Future[Result]] = {}
        self._begun_with: dict[int, tuple[object, ...]] = {}
        self._failed: set[int] = set()
        self._is_away = False

    def to_its_end(self, asked: StopSignal) -> None:
        """Start crawls of the shards that have pages to visit, until none has; wait for all crawls."""
        with Progress("crawl") as progress:
            try:
                while not asked.number:
                    if (round_ := self._present()) is not None:
                        self._start(round_)
                        if not self._running:
                            return
                        asked_for = sum(share.counts.get("asked", 0) for share in round_.shards)
                        ended = sum(share.has_ended for share in round_.shards)
                        requests = counted(round(asked_for), "request")
                        text = f"{requests}, {ended} of {self._count} shards done"
                        progress.update(text, ended, self._count)
                    self._look()
                self._pool.end()
                while self._running:
                    self._look()
            except KeyboardInterrupt:
                self._pool.end(at_once=True)
                raise
            except ClusterError:  # its workers end them
                raise
            except HacsError:
                self._pool.end()
                raise

    def raise_for_failures(self) -> None:
        """Raise HacsError if a shard failed, or has pages left to visit."""
        round_ = self.round()
        unfinished = [number for number, share in enumerate(round_.shards) if not share.has_ended]
        if self._failed:
            raise HacsError(f"failed: {self._names(sorted(self._failed))}")
        if unfinished and (round_.budget is None or round_.free > 0):
            raise HacsError(f"not all planned pages were reached: {self._names(unfinished)}")

    def round(self) -> Round:
        """Return the round as it is now; raises HacsError if another round was planned."""
        round_ = self._notes.read()
        if round_ is None or round_.began != self._began:
            raise HacsError("another round was planned meanwhile: this one is over")
        return round_

    def _start(self, round_: Round) -> None:
        for number, share in enumerate(round_.shards):
            is_used_up = round_.budget is not None and round_.free <= 0 and share.attempts
            # a shard that the last crawl left as it is now would be left so again
            present = share.seen + share.new, share.given, round_.cut_off, round_.for_new
            is_stuck = self._begun_with.get(number) == present
            is_done = share.has_ended or is_used_up or is_stuck or number in self._failed
            if not is_done and number not in self._running:
                self._begun_with[number] = present
                shard = Shard(number, self._count)
                arguments = ("crawl", *self._command, "-s", f"HACS_SHARD={shard}")
                log = Path(".hacs", f"crawl.{number}-{self._count}.log")
                future = self._pool.start(Order(arguments, str(log)))
                self._running[number] = future

    def _look(self) -> None:
        """Wait a moment, and see which crawls have ended."""
        time.sleep(LOOK_SECONDS)
        for number, future in list(self._running.items()):
            if future.done():
                del self._running[number]
                try:
                    result = future.result()
                except CancelledError as error:
                    msg = "the connection to the Dask scheduler is lost: the crawls end"
                    raise ClusterError(msg) from error
                # Dask begins a second crawl if it takes a worker for lost that only does not answer
                if result.status and ENDED not in result.said:
                    if self._is_away:
                        del self._begun_with[number]
                        continue
                    self._failed.add(number)
                    logger.error("shard %s failed: %s", self._names([number]), result.said)

    def _present(self) -> Round | None:
        """Return the round as it is now, None while the state is away."""
        try:
            round_, self._is_away = self.round(), False
        except StateUnavailableError as error:
            if not self._is_away:
                logger.warning("%s; the crawls wait until it is back", error)
            self._is_away = True
            return None
        return round_

    def _names(self, numbers: list[int]) -> str:
        return ", ".join(f"{number}/{self._count}" for number in numbers)


def _show(config: Config, round_: Round) -> int:
    """Print the work of each shard's crawls, from their states; return how many pages they visited."""
    count, rows = len(round_.shards), []
    with ExitStack() as stack:
        joined = open_shards(config, count)
        if joined is not None:
            stack.enter_context(closing(joined))
        states = dict(zip(joined.shards, joined.states, strict=True)) if joined is not None else {}
        for number, share in enumerate(round_.shards):
            state = states.get(Shard(number, count))
            visited, updates = visited_since(state, round_.began) if state is not None else ((), 0)
            counts = {**share.counts, "visited": len(visited), "updates": updates}
            rows.append([round(counts.get(name, 0)) for name in COLUMNS])
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    names = [*(f"{number}/{count}" for number in range(count)), "all"]
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    show(column_table({"shard": names, **columns}, texts=("shard",)))
    return rows[-1][COLUMNS.index("visited")]
