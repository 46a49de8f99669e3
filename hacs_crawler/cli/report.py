"""`hacs report`: what HACS knows, plans and has found, as one HTML page."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from hacs_crawler.analysis import open_existing
from hacs_crawler.cli.common import Set, opened
from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.report.data import report_data
from hacs_crawler.report.html import html
from hacs_crawler.report.index import INDEXED_PAGES
from hacs_crawler.report.live import serving
from hacs_crawler.utils.files import replacing
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

PORT = 8765


def report(  # noqa: PLR0917 - one for each option
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the file to be written")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="open it in a browser")] = False,
    limit: Annotated[int, typer.Option(min=1, help="pages, and runs, in a list at most")] = 200,
    index: Annotated[
        int, typer.Option(min=0, help="a search over all pages, of so many at most")
    ] = INDEXED_PAGES,
    serve: Annotated[
        bool, typer.Option("--serve", help="serve it to this machine, and keep it up to date")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="where to serve it; 0 for any")
    ] = PORT,
    every: Annotated[float, typer.Option(min=0.5, help="seconds between two updates of it")] = 10.0,
    settings: Set = None,
) -> None:
    """Write what HACS knows, plans and has found as a self-contained HTML page.

    It has what would be crawled now and why, what past runs found, the experiment, calibration, a search
    over all pages, and a view of each page listed. With --serve nothing is written: the page is served
    to browsers on this machine, and follows a crawl while it runs. See docs/report.md.
    """
    with opened(settings) as (config, state):
        if serve and output is not None:
            raise HacsError("--serve writes no file: leave out -o")
        if serve:
            _serve(lambda: _read_anew(config, limit, index), port, every, opens=open_)
            return
        target = output or Path("hacs-report.html")
        if target.is_dir() or not target.absolute().parent.is_dir():
            msg = f"-o {str(target)!r}: allowed is a file in a folder that exists"
            raise HacsError(msg)
        page = html(report_data(state, config, config.clock(), limit, index))
        try:
            with replacing(target) as file:
                file.write(page.encode())
        except OSError as error:
            raise HacsError(f"cannot write {target}: {error.strerror or error}") from error
    logger.info("%s written, %.1f MB", target, len(page) / 1e6)
    if open_:
        _open(target.absolute().as_uri())


def _read_anew(config: Config, limit: int, index: int) -> dict[str, Any]:
    state = open_existing(config, writes=False, creates=False)
    try:
        return report_data(state, config, config.clock(), limit, index)
    finally:
        state.close()


def _serve(make: Callable[[], dict[str, Any]], port: int, every: float, *, opens: bool) -> None:
    with serving(make, port, every) as address:
        logger.info("the report is at %s until Ctrl-C", address)
        if opens:
            _open(address)
        Event().wait()


def _open(address: str) -> None:
    if not webbrowser.open(address):
        logger.warning("there is no browser to open it with")
