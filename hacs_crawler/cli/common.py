"""Shared by commands: the Scrapy project's settings, its state, and signals to stop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from types import FrameType
from typing import Annotated

import typer
from scrapy.settings import Settings
from scrapy.utils.conf import arglist_to_dict
from scrapy.utils.project import get_project_settings

from hacs_crawler.analysis import open_existing
from hacs_crawler.config import SETTINGS, Config, warn_of_unknown
from hacs_crawler.state import MOST_SHARDS, Run, State, describe, sqlite_path
from hacs_crawler.utils.settings import choices
from hacs_crawler.utils.terminal import Progress


def complete_setting(incomplete: str) -> list[tuple[str, str]]:
    """Return completions of NAME=VALUE: names of settings with summaries, or a setting's values."""
    name, separator, _ = incomplete.partition("=")
    if separator:
        kind = SETTINGS[name].kind if name in SETTINGS else None
        completions = [(f"{name}={choice}", "") for choice in choices(kind)]
    else:
        completions = [
            (f"{setting.name}=", shorten(setting.summary, 70, placeholder="…"))
            for setting in SETTINGS.values()
        ]
    return [setting for setting in completions if setting[0].startswith(incomplete)]


Set = Annotated[
    list[str] | None,
    typer.Option("-s", "--set", help="a setting: NAME=VALUE", autocompletion=complete_setting),
]
Shards = Annotated[
    int | None,
    typer.Option(
        min=1, max=MOST_SHARDS, help="number of shards, to read as one", show_default="as found"
    ),
]
PagesFile = Annotated[
    Path | None, typer.Option("--pages", help="CSV: url, site, level, first_seen")
]
UpdatesFile = Annotated[
    Path | None, typer.Option("--updates", help="CSV: url, updated_at, new_links")
]
CapturesFile = Annotated[
    Path | None, typer.Option("--captures", help="CSV: url, captured_at; the known captures")
]


def project_settings(pairs: list[str] | None) -> Settings:
    """Return the project's settings with the options `-s NAME=VALUE` applied."""
    settings = get_project_settings()
    try:
        settings.setdict(arglist_to_dict(pairs or []), priority="cmdline")
    except ValueError:
        raise typer.BadParameter("-s takes NAME=VALUE") from None
    return settings


def project_config(pairs: list[str] | None, shards: int | None = None) -> Config:
    """Return the settings of the project and `-s`, for that many shards; raises ConfigError."""
    settings = project_settings(pairs)
    warn_of_unknown(settings)
    config = Config.from_settings(settings)
    return config if shards is None else replace(config, shards=shards, shard=None)


@contextmanager
def opened(
    pairs: list[str] | None, shards: int | None = None, *, writes: bool = False
) -> Iterator[tuple[Config, State]]:
    """Open the state that the project and `-s` name; raises HacsError.

    A number of `shards` is opened as one state. The state is read-only unless the command `writes`.
    """
    config = project_config(pairs, shards)
    with closing(open_existing(config, writes=writes)) as state:
        yield config, state


def place_of(config: Config) -> str:
    """Return the address of the state, without passwords."""
    return str(sqlite_path(config.state, config.base) or describe(config.state))


class StopSignal:
    """The number of the signal that asked the command to stop; 0 without a signal."""

    number = 0
    interrupts = False

    @contextmanager
    def ending_block(self) -> Iterator[None]:
        """Let a signal end the block, even during a wait."""
        self.interrupts = True
        with suppress(KeyboardInterrupt):
            yield
        self.interrupts = False


@contextmanager
def signals_noted() -> Iterator[StopSignal]:
    """Note the first SIGINT or SIGTERM instead of stopping; a second one ends the process."""
    asked = StopSignal()

    def ask(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, before[number])
        asked.number = number
        if asked.interrupts:
            raise KeyboardInterrupt

    numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    # shells start background jobs with SIGINT ignored; leave that as it is
    handled = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in handled}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def showing(progress: Progress, state: State) -> Callable[[Run], None]:
    """Return a callback that shows how many pages of a state have been estimated."""
    total = state.store.count()

    def show(run: Run) -> None:
        progress.update(f"{run.pages} pages, {run.changed} changed", run.pages, total)

    return show
