"""`hacs crawl`: a spider over all shards of a state, by the workers of a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from scrapy.crawler import CrawlerRunner
from scrapy.utils.conf import arglist_to_dict

from hacs_crawler.cli.common import Set, StopSignal, project_settings, signals_noted
from hacs_crawler.cli.crawl_plan import Order, next_rounds
from hacs_crawler.cli.output import ending_in_a_line, show
from hacs_crawler.cluster import LOCAL, Cluster, CrawlResult, Crawls, CrawlTask, connected
from hacs_crawler.config import Config, warn_of_unknown
from hacs_crawler.doctor import wiring
from hacs_crawler.exceptions import HacsError
from hacs_crawler.state import MOST_SHARDS, Shard, held, shard_lock, sqlite_path
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

LOOK_SECONDS: Final = 0.2
MINUTE: Final = 60.0
COLUMNS: Final = {
    "requests": "downloader/request_count",
    "pages": "hacs/visits",
    "first": "hacs/first_visits",
    "updates": "hacs/updates",
    "new links": "hacs/new_links",
    "failed": "hacs/not_observed",
    "items": "item_scraped_count",
}
"""What is shown of each crawl, by the stat."""


def crawl(
    spider: Annotated[str, typer.Argument(help="as `scrapy crawl` takes it")],
    shards: Annotated[int, typer.Option(min=1, max=MOST_SHARDS, help="number of shards")],
    dask: Annotated[
        str, typer.Option(help="run it on a Dask cluster: its scheduler's HOST:PORT, or local")
    ] = LOCAL,
    arguments: Annotated[
        list[str] | None, typer.Option("-a", help="an argument of the spider: NAME=VALUE")
    ] = None,
    settings: Set = None,
) -> None:
    """Crawl all shards of a state as one: one plan splits HACS_BUDGET over them.

    Each shard is crawled by a process of its own beside a Dask worker, which has to run in the
    project's folder. Ctrl-C ends all of them in order, a second one at once. See docs/deploy.md.
    """
    with ending_in_a_line(), signals_noted() as asked:
        order = _order(spider, shards, arguments, settings)
        ended = _crawled(order, dask, asked)
        _show(ended)
        if asked.number:
            raise typer.Exit(128 + asked.number)
        if failed := [result.name for result in ended if result.status]:
            raise HacsError(f"failed: {counted(len(failed), 'shard')} ({', '.join(failed)})")


def _order(name: str, shards: int, arguments: list[str] | None, pairs: list[str] | None) -> Order:
    """Read settings and arguments; raises HacsError for what is wrong with them."""
    settings = project_settings(pairs)
    config = Config.from_settings(settings)
    warn_of_unknown(settings)
    try:
        spider = CrawlerRunner(settings).spider_loader.load(name)
    except KeyError:
        raise HacsError(f"there is no spider {name!r} in this project") from None
    if hasattr(spider, "redis_key"):
        msg = (
            f"{name} is fed by a queue: start `scrapy crawl {name}` where you want (docs/deploy.md)"
        )
        raise HacsError(msg)
    check = wiring(settings)
    if check.status == "failure":
        raise HacsError(f"{check.found}; {check.advice}")
    try:
        given = arglist_to_dict(arguments or [])
    except ValueError:
        raise typer.BadParameter("-a takes NAME=VALUE") from None
    return Order(spider, given, arglist_to_dict(pairs or []), config, shards)


def _crawled(order: Order, dask: str, asked: StopSignal) -> list[CrawlResult]:
    """Crawl, round after round where the spider's crawls go on; return how each has ended."""
    ended: list[CrawlResult] = []
    config = order.config
    lock = shard_lock(config.state, f"{config.namespace}.crawl-{order.shards}", config.base)
    with held(lock), connected(dask) as cluster:
        if sqlite_path(config.state, config.base) is not None:
            cluster.check_here("HACS_STATE is an SQLite file, which only this machine can use")
        crawls, began = Crawls(cluster), 0
        try:
            with Progress("crawl") as progress:
                next_at = time.monotonic()
                while not asked.number and (not began or len(crawls) or order.is_endless):
                    if time.monotonic() >= next_at and (not began or order.is_endless):
                        began = max(began + 1, int(config.clock()))
                        with asked.ending_block():
                            _start_round(order, cluster, crawls, began)
                        next_at = time.monotonic() + config.round_minutes * MINUTE
                    ended += _look(crawls, len(ended), progress)
                if asked.number:
                    crawls.end()
                while len(crawls):
                    ended += _look(crawls, len(ended), progress)
        except KeyboardInterrupt:
            crawls.end(at_once=True)
            raise typer.Exit(130) from None
    return ended


def _start_round(order: Order, cluster: Cluster, crawls: Crawls, began: int) -> None:
    """Plan a round, and start the crawls that are not alive."""
    for number in next_rounds(order, cluster, began):
        task = _task(order, Shard(number, order.shards), began)
        if task.name not in crawls:
            crawls.start(task)


def _look(crawls: Crawls, done: int, progress: Progress) -> list[CrawlResult]:
    """Wait a little, show how far the crawls are, and return those that have ended meanwhile."""
    time.sleep(LOOK_SECONDS)
    found = list(crawls.ended())
    for result in found:
        if result.status:
            logger.error(
                "shard %s failed: %s", result.name, result.said or f"status {result.status}"
            )
    done += len(found)
    pages = counted(crawls.total(COLUMNS["pages"]), "page")
    text = f"{pages} visited, {done} of {done + len(crawls)} shards done"
    progress.update(text, done, done + len(crawls))
    return found


def _task(order: Order, shard: Shard, began: int) -> CrawlTask:
    given: dict[str, Any] = {
        "spider": order.spider.name,
        "arguments": order.arguments,
        "settings": {**order.settings, "HACS_SHARD": str(shard)},
        "began": began,
    }
    log = Path(".hacs", f"crawl.{shard.index}-{shard.count}.log")
    module = "hacs_crawler.parts.shards.shard_process"
    return CrawlTask(str(shard), module, given, str(log), order.is_endless)


def _show(ended: Sequence[CrawlResult]) -> None:
    """Print what each crawl did, and all of them."""
    if not ended:
        return
    ordered = sorted(ended, key=lambda result: int(result.name.partition("/")[0]))
    rows = [[int(result.stats.get(stat, 0)) for stat in COLUMNS.values()] for result in ordered]
    names = [*(result.name for result in ordered), "all"]
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    ends = [*(str(result.stats.get("finish_reason", "failed")) for result in ordered), ""]
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    table = column_table({"shard": names, **columns, "end": ends}, texts=("shard", "end"))
    show(table)
