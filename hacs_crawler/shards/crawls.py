"""Starts the crawls of one round, shows their progress, and collects their failures."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Final

from hacs_crawler.exceptions import ClusterError, HacsError, StateUnavailableError
from hacs_crawler.shards.engine import Pool, Result
from hacs_crawler.shards.rounds import ENDED, Round, RoundNotes
from hacs_crawler.state import Shard
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

LOOK_SECONDS: Final = 0.5
# After how long without any worker that is logged, and the command fails.
LACK_SECONDS: Final = 5.0
MOST_LACK_SECONDS: Final = 600.0


class ShardCrawls:
    """The crawls of one round."""

    def __init__(
        self, notes: RoundNotes, round_: Round, pool: Pool, command: tuple[str, ...]
    ) -> None:
        self._notes, self._pool, self._command = notes, pool, command
        self._began, self._count = round_.began, len(round_.shards)
        self._running: dict[int, Future[Result]] = {}
        self._begun_with: dict[int, tuple[object, ...]] = {}
        self._failed: set[int] = set()
        self._is_away, self._lack_seconds = False, 0.0

    def to_its_end(self, is_asked: Callable[[], bool]) -> None:
        """Crawl the shards that have pages to visit, until none has.

        If `is_asked` to stop, end the crawls in order. Raises HacsError.
        """
        with Progress("crawl") as progress:
            try:
                while not is_asked():
                    if (round_ := self._current_round()) is not None:
                        self._start(round_)
                        if not self._running:
                            return
                        asked = round(sum(share.counts.get("asked", 0) for share in round_.shards))
                        ended = sum(share.has_ended for share in round_.shards)
                        text = f"{counted(asked, 'request')}, {ended} of {self._count} shards done"
                        progress.update(text, ended, self._count)
                    self._poll()
                self._pool.end()
                while self._running and self._pool.has_workers():
                    self._poll()
            except (KeyboardInterrupt, HacsError) as error:
                if not isinstance(error, ClusterError):  # its workers end them
                    self._pool.end(at_once=isinstance(error, KeyboardInterrupt))
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
        """Return the current round; raises HacsError if another round was planned."""
        round_ = self._notes.read()
        if round_ is None or round_.began != self._began:
            raise HacsError("this round is over: another was planned, or the state is gone")
        return round_

    def _start(self, round_: Round) -> None:
        for number, share in enumerate(round_.shards):
            is_used_up = round_.budget is not None and round_.free <= 0 and share.attempts
            # if nothing has changed since the shard's last crawl began, another is useless
            present = share.seen + share.new, share.given, round_.cut_off, round_.for_new
            is_stuck = self._begun_with.get(number) == present
            is_done = share.has_ended or is_used_up or is_stuck or number in self._failed
            if not is_done and number not in self._running:
                self._begun_with[number] = present
                log = Path(".hacs", f"crawl.{number}-{self._count}.log")
                crawl = "crawl", *self._command, "-s", f"HACS_SHARD={Shard(number, self._count)}"
                self._running[number] = self._pool.start(crawl, log)

    def _poll(self) -> None:
        """Wait a moment, and see which crawls have ended; raises ClusterError if none can run."""
        time.sleep(LOOK_SECONDS)
        has_workers, lacked = self._pool.has_workers(), self._lack_seconds
        self._lack_seconds = 0.0 if has_workers else lacked + LOOK_SECONDS
        if self._lack_seconds >= MOST_LACK_SECONDS:
            raise ClusterError(f"the Dask cluster has no worker, for {MOST_LACK_SECONDS:g} s now")
        if lacked < LACK_SECONDS <= self._lack_seconds:
            msg = "the Dask cluster has no worker left: the crawls wait for one, at most %g s"
            logger.warning(msg, MOST_LACK_SECONDS)
        if has_workers and lacked >= LACK_SECONDS:
            logger.info("the Dask cluster has a worker again: the crawls go on")
        for number, future in list(self._running.items()):
            if future.done():
                del self._running[number]
                try:
                    result = future.result()
                except CancelledError as error:
                    msg = "the connection to the Dask scheduler is lost: the crawls end"
                    raise ClusterError(msg) from error
                # ENDED: Dask starts a second crawl if a worker that it considers lost is only slow
                if result.status and ENDED not in result.said:
                    if self._is_away:
                        del self._begun_with[number]
                        continue
                    self._failed.add(number)
                    logger.error("shard %s failed: %s", self._names([number]), result.said)

    def _current_round(self) -> Round | None:
        """Return the current round, None while the state is unreachable."""
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
