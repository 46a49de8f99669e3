"""`hacs report`: what HACS knows, plans and has found, as one HTML page."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hacs_crawler.cli.common import Set, Shards, opened, place_of
from hacs_crawler.cli.output import Output, write_file
from hacs_crawler.cli.rank import NO_PAGES
from hacs_crawler.report.html import html, report_data
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


def report(
    output: Output = Path("hacs-report.html"),
    open_: Annotated[bool, typer.Option("--open", help="open it in a browser")] = False,
    limit: Annotated[int, typer.Option(min=1, help="number of pages listed")] = 3_000,
    shards: Shards = None,
    settings: Set = None,
) -> None:
    """Write what HACS knows, plans and has found as a self-contained HTML page.

    It shows the latest updates, the pages and their histories, the plan, the yield of past runs,
    and the accuracy of predictions.
    """
    with opened(settings, shards) as (config, state):
        if not state.store.count():
            logger.info(NO_PAGES, place_of(config))
            return
        page = html(report_data(state, config, config.clock(), limit))
        write_file(output, [page.encode()])
    logger.info("%s written, %.1f MB", output, len(page) / 1e6)
    if open_ and not webbrowser.open(output.absolute().as_uri()):
        logger.warning("no browser was found to open it")
