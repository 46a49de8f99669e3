"""`hacs experiment`: two crawls of the same pages, each with a state of its own, compared."""

from __future__ import annotations

import typer

from hacs_crawler.cli.common import Set, Shards, opened
from hacs_crawler.cli.output import STDOUT, Output, export_progress, output_file
from hacs_crawler.shards import states_in
from hacs_crawler.state import export_outcomes
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

experiment_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Live experiments: policies compared on the pages that you crawl.",
)


@experiment_app.callback()
def experiment() -> None:
    """Have `export` be a command of its own."""


@experiment_app.command()
def export(output: Output = STDOUT, shards: Shards = None, settings: Set = None) -> None:
    """Write the record of every ranked visit as JSON Lines, with or without an experiment.

    `hacs import` reads them back. A file appears under its name when it is whole.
    """
    with (
        opened(settings, shards) as (_, state),
        output_file(output) as file,
        export_progress(output) as progress,
    ):
        number = sum(export_outcomes(shard, file, progress) for shard in states_in(state))
    logger.info("%s exported", counted(number, "outcome record"))
