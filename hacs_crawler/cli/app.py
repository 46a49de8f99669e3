"""The `hacs` command: work on the state outside of crawls."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from hacs_crawler.archive import Cleaning
from hacs_crawler.cli.calibrate import calibrate
from hacs_crawler.cli.common import Set, opened, writing_to_stdout
from hacs_crawler.cli.demo import demo
from hacs_crawler.cli.doctor import doctor
from hacs_crawler.cli.estimate import estimate
from hacs_crawler.cli.evaluate import evaluate_command
from hacs_crawler.cli.experiment import experiment_app
from hacs_crawler.cli.export import export_pages
from hacs_crawler.cli.host import forget
from hacs_crawler.cli.import_ import Importer
from hacs_crawler.cli.interest import interest_app
from hacs_crawler.cli.rank import rank
from hacs_crawler.cli.report import report
from hacs_crawler.cli.show import show
from hacs_crawler.cli.signal_ import signal
from hacs_crawler.cli.simulate import simulate
from hacs_crawler.state import follow_prior
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """Work on what HACS knows of pages, outside of crawls."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO)


@app.command("import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(help="CDX, CDXJ, WARC, TimeMap or exported files, .gz too; - for stdin"),
    ],
    settings: Set = None,
) -> None:
    """Record what archive files and exports hold of pages.

    WARC files show the links of each capture. CDX and CDXJ files show only whether its content differs
    from that of the capture before it, which then counts as an update. TimeMaps make pages known, but
    show no visit. What `hacs export` wrote is merged with what the state knows. Importing a file twice
    changes nothing. Of a damaged file what could be read is kept.
    """
    dropped: Cleaning = Counter()
    with opened(settings, creates=True) as (config, state):
        importer = Importer(state, config.link_rules, dropped, config.clock)
        try:
            for file in files:
                importer.import_file(str(file))
            with Progress("estimate") as progress:
                follow_prior(
                    state,
                    lambda run, total: progress.update(f"{run.pages} pages", run.pages, total),
                )
        finally:
            for kind, number in sorted(dropped.items()):
                logger.info("%d captures left out: %s", number, kind)


@app.command()
def export(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="a file, gzipped if named .gz")
    ] = None,
    settings: Set = None,
) -> None:
    """Write everything that is known of pages as JSON Lines, one page a line.

    The lines go to standard output or to a file, which appears under its name when it is whole.
    """
    target = None if output == Path("-") else output
    with opened(settings) as (_, state), nullcontext() if target else writing_to_stdout():
        number = export_pages(state, target)
        logger.info("%d pages exported", number)


app.command("evaluate")(evaluate_command)
app.command()(simulate)
app.command()(rank)
app.command()(show)
app.command()(signal)
app.command()(forget)
app.command()(doctor)
app.command()(calibrate)
app.command()(estimate)
app.command()(report)
app.command()(demo)
app.add_typer(experiment_app, name="experiment")
app.add_typer(interest_app, name="interest")
