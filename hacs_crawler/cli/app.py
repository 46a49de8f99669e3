"""The `hacs` command: all commands, grouped by purpose. Each is imported only when it is run."""

from __future__ import annotations

import logging
import os
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

CRAWL: Final = "Crawl: all shards of a state"
LOOK: Final = "Look: what is known, and what comes next"
MOVE: Final = "Move: into a state, and out of it"
TUNE: Final = "Tune: what is estimated and predicted"
COMPARE: Final = "Compare: policies, estimators, papers"


class Entry(NamedTuple):
    """A command in the list of all: `place` is "module:name" below `hacs_crawler.cli`."""

    place: str
    aim: str
    summary: str

    def load(self, name: str) -> Any:
        """Import the command, and return it as a click command."""
        module, _, attribute = self.place.partition(":")
        found = getattr(import_module(f"hacs_crawler.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            app = typer.Typer(add_completion=False)
            app.command(name)(found)
            found = app
        command = typer.main.get_command(found)
        command.name = name
        return command


COMMANDS: Final = {
    "crawl": Entry(
        "crawl:crawl",
        CRAWL,
        "Crawl all shards of a state as one, with one HACS_BUDGET.",
    ),
    "plan": Entry(
        "crawl:plan",
        CRAWL,
        "Begin a round of all shards: one cut-off, and one budget that their crawls share.",
    ),
    "rank": Entry(
        "rank:rank", LOOK, "Show what a crawl of all known pages would visit now, and why."
    ),
    "show": Entry(
        "show:show", LOOK, "Show a page's history and rate, and when it will be visited next."
    ),
    "report": Entry(
        "report:report",
        LOOK,
        "Write what HACS knows, plans and has found as a self-contained HTML page.",
    ),
    "doctor": Entry(
        "doctor:doctor",
        LOOK,
        "Check for whatever may keep crawls from working, and say what to do.",
    ),
    "import": Entry("transfer:import_", MOVE, "Record the visits in archive files and exports."),
    "export": Entry(
        "transfer:export", MOVE, "Write all known pages as JSON Lines, one page per line."
    ),
    "signal": Entry(
        "upkeep:signal",
        MOVE,
        "Record signals that pages changed: lines of a URL and a time (ISO 8601 or seconds).",
    ),
    "forget": Entry(
        "upkeep:forget",
        MOVE,
        "Count all links of a host again, including parts that were left out.",
    ),
    "estimate": Entry(
        "upkeep:estimate", TUNE, "Fit the prior, and estimate every page's rate again with it."
    ),
    "interest": Entry(
        "interest:interest_app", TUNE, "Page views: which pages and sites people read as news."
    ),
    "experiment": Entry(
        "experiment:experiment_app",
        COMPARE,
        "Live experiments: policies compared on the pages that you crawl.",
    ),
    "simulate": Entry(
        "simulate:simulate",
        COMPARE,
        "Simulate recrawling pages whose updates are known, under a budget, by one policy or several.",
    ),
    "evaluate": Entry(
        "evaluate:evaluate_command",
        COMPARE,
        "Evaluate how well rates predict updates, as the paper on HACS does, or that of Singh.",
    ),
}


class LazyGroup(TyperGroup):
    """The group of all commands: `hacs --help` lists them without importing any."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: TyperCommand(name, help=entry.summary, rich_help_panel=entry.aim)
            for name, entry in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command, imported now, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, COMMANDS[name].load(name) if name else command, rest


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415 - of no use to any command

        typer.echo(f"hacs-crawler {version('hacs-crawler')}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    """Work with the pages that HACS knows, outside of crawls."""
    del version
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO)
