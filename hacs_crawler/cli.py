"""The `hacs` command: work on the state outside of crawls."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from scrapy.settings import Settings
from scrapy.utils.conf import arglist_to_dict
from scrapy.utils.project import get_project_settings

from hacs_crawler.archive import Cleaning, read_cdx, read_lines, read_warc, visits_by_digest
from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.progress import Progress
from hacs_crawler.state.knowledge import Estimation, Knowledge
from hacs_crawler.state.opening import open_store
from hacs_crawler.state.page import DAY, Visit

logger = logging.getLogger(__name__)

BATCH = 1_000

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """Work on what HACS knows of pages, outside of crawls."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO)


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="CDX, CDXJ or WARC files, .gz too")],
    settings: Annotated[
        list[str] | None, typer.Option("-s", "--set", help="a setting: NAME=VALUE")
    ] = None,
) -> None:
    """Record the visits that archive files hold, at the times of their captures.

    WARC files show the links of each capture. CDX and CDXJ files show only whether its content differs
    from that of the capture before it, which then counts as an update. Importing a file twice changes
    nothing. Of a damaged file what could be read is kept.
    """
    try:
        config = Config.from_settings(_settings(settings or []))
        store = open_store(config.state, config.namespace, config.base)
    except HacsError as error:
        raise _failure(error) from None
    dropped: Cleaning = Counter()
    try:
        knowledge = Knowledge(store, Estimation(config.estimator, config.fade_days))
        for file in files:
            found = _record(knowledge, _visits(file, config, dropped), file)
            logger.info("%s: %d visits recorded, %d of them with an update", file, *found)
        knowledge.refit_prior()
    except HacsError as error:
        raise _failure(error) from None
    finally:
        store.close()
        for kind, number in sorted(dropped.items()):
            logger.info("%d captures left out: %s", number, kind)


def _settings(pairs: list[str]) -> Settings:
    settings = get_project_settings()
    try:
        settings.setdict(arglist_to_dict(pairs), priority="cmdline")
    except ValueError:
        raise typer.BadParameter("-s takes NAME=VALUE") from None
    return settings


def _failure(error: HacsError) -> typer.Exit:
    logger.error("%s", error)
    return typer.Exit(1)


def _visits(file: Path, config: Config, dropped: Cleaning) -> Iterator[Visit]:
    if file.name.endswith((".warc", ".warc.gz")):
        visits = read_warc(str(file), dropped, config.link_rules)
    else:
        visits = visits_by_digest(read_cdx(read_lines(str(file)), str(file), dropped))
    latest = time.time() + DAY
    for visit in visits:
        if visit.at > latest:
            dropped["invalid_date"] += 1
        else:
            yield visit


def _record(knowledge: Knowledge, visits: Iterable[Visit], file: Path) -> tuple[int, int]:
    """Record visits in batches; what was read before an error is recorded before it goes on."""
    visits = iter(visits)
    number = updates = 0
    is_over = False
    with Progress(file.name) as progress:
        while not is_over:
            batch: list[Visit] = []
            try:
                batch.extend(islice(visits, BATCH))
                is_over = len(batch) < BATCH
            finally:
                recorded = knowledge.record(batch)
                number += len(recorded)
                updates += sum(one.updated for one in recorded)
            progress.update(f"{number} visits, {updates} updates")
    return number, updates
