"""`hacs crawl` runs a spider over all shards of a state; `hacs plan` begins a round of them."""

from contextlib import closing, nullcontext, suppress
from itertools import chain, product
from typing import Annotated, Final

import typer
from scrapy import Spider
from scrapy.crawler import CrawlerRunner
from scrapy.settings import Settings
from scrapy.utils import conf

from hacs_crawler.analysis import open_existing
from hacs_crawler.cli.common import Set, project_settings, signals_noted
from hacs_crawler.cli.output import show
from hacs_crawler.config import Config, warn_of_unknown
from hacs_crawler.doctor import wiring
from hacs_crawler.exceptions import ConfigError, HacsError
from hacs_crawler.shards import (
    JoinedState,
    Round,
    ShardCrawls,
    dask_pool,
    local_pool,
    open_rounds,
    open_shards,
    plan_round,
    start_server,
)
from hacs_crawler.state import MOST_SHARDS, Shard, sqlite_path
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

COLUMNS: Final = ("asked", "visited", "updates", "dropped", "items", "seconds")
Number = Annotated[int, typer.Option("--shards", min=1, max=MOST_SHARDS, help="number of shards")]


def plan(
    shards: Number,
    spider: Annotated[
        str | None, typer.Argument(help="the spider whose own settings apply", show_default=False)
    ] = None,
    settings: Set = None,
) -> None:
    """Begin a round of all shards: one cut-off, and one budget that their crawls share.

    Crawls of the shards (`scrapy crawl` with HACS_SHARD) then visit the best pages of all shards.
    `hacs crawl` does this itself.
    """
    given = project_settings(settings)
    if spider is not None:
        _loaded(spider, given)
    warn_of_unknown(given)
    config = Config.from_settings(given)
    path = sqlite_path(config.state, config.base)
    if path is not None and not path.exists() and not conf.closest_scrapy_cfg():
        open_existing(config)  # which raises: no crawl would use a state made here
    _planned(config, shards)


def crawl(
    spider: Annotated[str, typer.Argument(help="the name of a spider, as for `scrapy crawl`")],
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

    Each shard is a `scrapy crawl` in its own process: one at a time per core of this machine or
    worker of the cluster, which has to run in the project's folder. Ctrl-C ends all crawls in
    order, a second Ctrl-C kills them.
    """
    if dask is None:
        start_server(is_fork=True)  # before the project's modules, which each crawl imports anew
    with signals_noted() as asked, suppress(KeyboardInterrupt):  # that of a second signal
        config = _checked(spider, arguments, settings)
        file = sqlite_path(config.state, config.base)
        with local_pool() if dask is None else dask_pool(dask, file) as pool:
            with asked.ending_block():
                round_ = _planned(config, shards)
            if not asked.number:
                given = [*product(["-a"], arguments or ()), *product(["-s"], settings or ())]
                command = (spider, *chain.from_iterable(given))
                with closing(open_rounds(config, shards)) as notes:
                    run = ShardCrawls(notes, round_, pool, command)
                    run.to_its_end(lambda: bool(asked.number))
                    visited = _show(config, run.round())
                    if not asked.number:
                        run.raise_for_failures()
                        if not visited and round_.budget != 0 and not config.ranking.least_p:
                            raise HacsError(
                                "not one page was visited: HACS_PAGES says which requests are for pages"
                            )
                        notes.write(None)
    if asked.number:
        raise typer.Exit(128 + asked.number)


def _planned(config: Config, shards: int) -> Round:
    with suppress(HacsError), closing(open_existing(config)) as state:
        is_other = not isinstance(state, JoinedState) or state.shards[0].count != shards
        if is_other and (outside := state.store.count()):
            logger.warning(
                "%s known outside of these shards, and not crawled: add them with `hacs export` and "
                "`hacs import --shards %d`",
                counted(outside, "page is", "pages are"),
                shards,
            )
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
    """Read settings, the spider's own too, and arguments; raises HacsError that names a fault."""
    settings = project_settings(pairs)
    spider = _loaded(name, settings)
    warn_of_unknown(settings)
    if hasattr(spider, "redis_key"):
        raise HacsError(f"{name} is fed by a queue: start `scrapy crawl {name}` on any machine")
    check = wiring(settings)
    if check.status == "failure":
        raise HacsError(f"{check.found}; {check.advice}")
    try:
        given = conf.arglist_to_dict(arguments or [])
    except ValueError:
        raise typer.BadParameter("-a takes NAME=VALUE") from None
    if given.get("forever", "0") not in {"", "0"}:
        raise HacsError("forever: `hacs crawl` crawls one round, have a timer call it again")
    if given.get("seeds") == "-":
        raise HacsError("seeds=-: each shard's crawl reads the seeds, use a file")
    _check_feeds(settings)
    return Config.from_settings(settings)


def _loaded(name: str, settings: Settings) -> type[Spider]:
    """Return a spider of the project, and add its own settings; raises HacsError without it."""
    try:
        spider = CrawlerRunner(settings).spider_loader.load(name)
    except KeyError:
        outside = ": the folder is in no Scrapy project" * (not conf.closest_scrapy_cfg())
        raise HacsError(f"there is no spider {name!r}{outside}") from None
    spider.update_settings(settings)
    return spider


def _check_feeds(settings: Settings) -> None:
    """Raise ConfigError if the shards' crawls would overwrite each other's files."""
    for address, given in settings.getdict("FEEDS").items():
        feed = conf.feed_complete_default_values_from_settings(dict(given), settings)
        scheme = str(address).partition("://")[0] if "://" in str(address) else "file"
        overwrites = feed.get("overwrite", scheme not in {"file", "stdout"})
        if overwrites and "%(hacs_shard)s" not in str(address):
            raise ConfigError(
                f"FEEDS: {address} would be overwritten by the crawl of each shard: name it with "
                "%(hacs_shard)s, or set overwrite to False"
            )


def _show(config: Config, round_: Round) -> int:
    """Print a table of the shards' work in the round; return the number of visited pages."""
    count, rows = len(round_.shards), []
    joined = open_shards(config, count)
    with nullcontext() if joined is None else closing(joined):
        states = {} if joined is None else dict(zip(joined.shards, joined.states, strict=True))
        for number, share in enumerate(round_.shards):
            state, counts = states.get(Shard(number, count)), share.counts
            if state is not None and "visited" not in counts:  # its last crawl was killed
                visited, updates = state.visited_since(round_.began)
                counts |= {"visited": len(visited), "updates": updates}
            rows.append([round(counts.get(name, 0)) for name in COLUMNS])
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    names = [*(f"{number}/{count}" for number in range(count)), "all"]
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    show(column_table({"shard": names, **columns}, texts=("shard",)))
    return rows[-1][COLUMNS.index("visited")]
