"""`hacs demo`: see HACS work, in about a minute and without a network."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from hacs_crawler.cli.common import ending_in_a_line
from hacs_crawler.demo.histories import from_timelines, generated
from hacs_crawler.demo.processes import HACS, EndSignals, Interruption, Processes
from hacs_crawler.demo.project import REPORT, write_web
from hacs_crawler.demo.rounds import ENDING_SECONDS, play, read_archive, serve_web, to_be_found
from hacs_crawler.demo.screen import Screen
from hacs_crawler.demo.web import Web
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.progress import Progress

AUTHORS: Final = 100
SEED: Final = 1
"""Of the first ten webs the one whose result is nearest to the median of a hundred: docs/demo.md."""


def demo(  # noqa: PLR0917 - one for each option
    timelines: Annotated[
        Path | None, typer.Option(help="a folder of true histories, instead of generated ones")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="how long it takes, about")] = 60.0,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="how many crawls, instead of --seconds"),
    ] = None,
    authors: Annotated[int, typer.Option(min=2, help="of generated histories")] = AUTHORS,
    seed: Annotated[int, typer.Option(min=0, help="of generated histories")] = SEED,
    keep: Annotated[
        Path | None, typer.Option(help="a new folder for everything, which is not removed")
    ] = None,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="open the report")] = True,
) -> None:
    """See HACS and Last-Obs crawl a small web side by side, without any network.

    The web is on this machine, and its clock is fast. Everything else is what a real crawl uses: the
    spiders, the state, an experiment, the report. See docs/demo.md.
    """
    until = time.monotonic() + seconds
    screen = Screen(Console(highlight=False))
    try:
        with ending_in_a_line():
            web = generated(seed, authors) if timelines is None else from_timelines(timelines)
            source = (
                f"generated, number {seed}" if timelines is None else f"as {timelines} tells it"
            )
            screen.welcome(web, source)
            with (
                EndSignals() as signals,
                _folders(keep) as (folder, report),
                Processes(folder, signals) as processes,
            ):
                _play(screen, processes, folder, web, until, rounds)
                _show(screen, processes, report, is_opened=open_)
            if keep is not None:
                screen.name("Everything is kept: try `hacs rank` in", folder)
    except Interruption as interruption:
        screen.say("\nStopped: nothing of it runs any more.")
        raise typer.Exit(interruption.exit_status) from None


def _play(
    screen: Screen, processes: Processes, folder: Path, web: Web, until: float, rounds: int | None
) -> None:
    write_web(folder, web)
    address = serve_web(processes, folder, web)
    with Progress("reading the archive"):
        read_archive(processes)
    screen.archive_read(web, address)
    began, most = time.monotonic(), 0.0
    with Progress("crawling"):
        for standing in play(processes, folder, web, until, rounds):
            if not most:
                now = time.monotonic()
                expected = rounds or (until - ENDING_SECONDS - now) / (now - began)
                most = max(2.0, expected) * max(1, *standing.hits)  # the first round finds most
            screen.round(standing, most)
    screen.result(standing, to_be_found(web, standing.at))


def _show(screen: Screen, processes: Processes, report: Path, *, is_opened: bool) -> None:
    """Say what can be concluded, and open the report."""
    with Progress("hacs experiment status"):
        status = processes.run("status", *HACS, "experiment", "status")
    screen.say(f"$ hacs experiment status\n{status}")
    opening = ("--open",) if is_opened and _has_display() else ()
    with Progress("hacs report"):
        processes.run("report", *HACS, "report", "-o", str(report), *opening)
    screen.name("$ hacs report\nThe report:", report)


def _has_display() -> bool:
    """Whether a browser would be in a window, and not in this terminal."""
    return sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


@contextmanager
def _folders(keep: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield a folder to work in and where the report goes; raises HacsError.

    The folder is removed at the end unless it is to be kept. The report stays, for a browser shows it,
    unless something goes wrong.
    """
    if keep is not None:
        yield _made(keep), keep.resolve() / REPORT
        return
    work, shown = (Path(tempfile.mkdtemp(prefix=f"hacs-demo{end}-")) for end in ("", "-report"))
    try:
        yield work, shown / REPORT
    except BaseException:
        shutil.rmtree(shown, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise HacsError(f"--keep {folder}: allowed is a new or an empty folder")
    except OSError as error:
        raise HacsError(f"--keep {folder}: {error.strerror}") from error
    return folder.resolve()
