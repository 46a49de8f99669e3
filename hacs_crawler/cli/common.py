"""The Scrapy project around a command: its settings, and the state that they name."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from textwrap import shorten
from types import FrameType
from typing import Annotated

import typer
from scrapy.settings import Settings
from scrapy.utils.conf import arglist_to_dict
from scrapy.utils.project import get_project_settings

from hacs_crawler.analysis import open_existing
from hacs_crawler.config import SETTINGS, Config, warn_of_unknown
from hacs_crawler.exceptions import HacsError
from hacs_crawler.state import MOST_SHARDS, Run, State, describe, sqlite_path
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.settings import choices
from hacs_crawler.utils.text import printable, safe_logger

logger = safe_logger(__name__)

BROKEN_PIPE_STATUS = 141
"""What a shell reports of a command that was ended by SIGPIPE."""


def complete_setting(incomplete: str) -> list[tuple[str, str]]:
    """Return how NAME=VALUE may go on: names with what they are for, or the values of one."""
    name, separator, _ = incomplete.partition("=")
    if not separator:
        found = [
            (f"{setting.name}=", shorten(setting.summary, 70, placeholder="…"))
            for setting in SETTINGS.values()
        ]
    else:
        kind = SETTINGS[name].kind if name in SETTINGS else None
        found = [(f"{name}={choice}", "") for choice in choices(kind)]
    return [setting for setting in found if setting[0].startswith(incomplete)]


Set = Annotated[
    list[str] | None,
    typer.Option("-s", "--set", help="a setting: NAME=VALUE", autocompletion=complete_setting),
]


Shards = Annotated[
    int | None,
    typer.Option(
        min=1, max=MOST_SHARDS, help="read this many shards as one  [default: HACS_SHARDS]"
    ),
]


@contextmanager
def opened(
    pairs: list[str] | None,
    shards: int | None = None,
    *,
    writes: bool = False,
    creates: bool = False,
) -> Iterator[tuple[Config, State]]:
    """Open the state that the project and `-s` name; errors end the command with one line.

    With a number of `shards` these are opened as one. Nothing in it is changed, unless the command
    `writes`. A file that does not exist is an error, unless the command `creates` it.
    """
    with opened_config(pairs) as found:
        config = found if shards is None else replace(found, shards=shards, shard=None)
        state = open_existing(config, writes=writes, creates=creates)
        try:
            yield config, state
        finally:
            state.close()


@contextmanager
def opened_config(pairs: list[str] | None) -> Iterator[Config]:
    """Read the settings of the project and of `-s`; errors end the command with one line."""
    with ending_in_a_line():
        settings = project_settings(pairs)
        config = Config.from_settings(settings)
        warn_of_unknown(settings)
        yield config


def place_of(config: Config) -> str:
    """Return where the state is kept, as it may be shown."""
    path = sqlite_path(config.state, config.base)
    return describe(config.state) if path is None else str(path)


@contextmanager
def ending_in_a_line() -> Iterator[None]:
    """End the command with exit status 1 and one line where an error says what is wrong."""
    try:
        yield
    except HacsError as error:
        logger.error("%s", error)
        raise typer.Exit(1) from None


@contextmanager
def writing_to_stdout() -> Iterator[None]:
    """Write out all that was printed; end the command quietly where nobody reads it on.

    Raises HacsError where standard output cannot be written to.
    """
    if sys.stdout is None:
        raise HacsError("cannot write to standard output: it is closed")
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # what is left in the buffer must not be tried again at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(BROKEN_PIPE_STATUS) from None
        msg = f"cannot write to standard output: {error.strerror or error}"
        raise HacsError(msg) from error


def say(line: str) -> None:
    """Print a line that may hold foreign text."""
    typer.echo(printable(line))


def project_settings(pairs: list[str] | None) -> Settings:
    """Return the project's settings with those of `-s NAME=VALUE`."""
    settings = get_project_settings()
    try:
        settings.setdict(arglist_to_dict(pairs or []), priority="cmdline")
    except ValueError:
        raise typer.BadParameter("-s takes NAME=VALUE") from None
    return settings


class StopSignal:
    """Which signal asked to stop, 0 for none."""

    def __init__(self) -> None:
        self.number = 0
        self._interrupts = False

    def note(self, number: int) -> None:
        """Remember a signal."""
        self.number = number
        if self._interrupts:
            raise KeyboardInterrupt

    @contextmanager
    def ending_block(self) -> Iterator[None]:
        """End the block where a signal comes, whatever it waits for."""
        self._interrupts = True
        with suppress(KeyboardInterrupt):
            yield
        self._interrupts = False


@contextmanager
def signals_noted() -> Iterator[StopSignal]:
    """Yield what notes the signal that asks to stop; asking twice ends the process."""
    asked = StopSignal()

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(number, before[number])
        asked.note(number)

    numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    # a job in the background is started with SIGINT ignored, so that Ctrl-C ends only others
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def showing(progress: Progress, state: State) -> Callable[[Run], None]:
    """Return what shows how many of a state's pages are estimated anew."""
    total = state.store.count()

    def show(run: Run) -> None:
        progress.update(f"{run.pages} pages, {run.changed} changed", run.pages, total)

    return show
