"""The `hacs` command: lists all commands by purpose, and imports a command only to run it."""

import gc
import logging
import os
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.text import safe_logger

BY_AIM: Final = {
    "Crawl: all shards of a state": {
        "crawl": "Crawl all shards of a state as one, with one HACS_BUDGET.",
        "plan": "Begin a round of all shards: one cut-off, and one budget that their crawls share.",
    },
    "Look: what is known, and what comes next": {
        "new": "Show the new things that visits found, the newest first.",
        "rank": "Show the pages that a crawl of all known pages would visit now, and why.",
        "show": "Show a page's history and rate, and when it will be visited next.",
        "report": "Write what HACS knows, plans and has found as a self-contained HTML page.",
        "doctor": "Check for problems that may keep crawls from working, and say what to do.",
    },
    "Move: into a state, and out of it": {
        "import": "Record the visits in archive files and exports.",
        "export": "Write all known pages as JSON Lines, one page per line.",
        "copy": "Copy a state into an empty one, from any store to any store.",
        "signal": "Record signals that pages changed: a URL and a time on each line.",
        "forget": "Count all links of a host again, including parts that were left out.",
    },
    "Tune: what is estimated and predicted": {
        "estimate": "Fit the prior, and estimate every page's rate again with it.",
        "interest": "Page views: which pages and sites people read as news.",
    },
    "Compare: policies, estimators, papers": {
        "experiment": "Compare two crawls of the same pages, each with its own state.",
        "simulate": "Simulate recrawling pages whose updates are known, by one policy or several.",
        "evaluate": "Evaluate how well rates predict updates, as the papers of HACS or Singh do.",
    },
}
# Modules and functions of commands in `hacs_crawler.cli`, if not named like the command.
_FUNCTIONS: Final = {
    "plan": "crawl:plan",
    "import": "transfer:import_",
    "export": "transfer:export",
    "copy": "experiment:copy",
    "signal": "upkeep:signal",
    "forget": "upkeep:forget",
    "estimate": "upkeep:estimate",
    "interest": "interest:interest_app",
    "experiment": "experiment:experiment_app",
    "evaluate": "evaluate:evaluate_command",
}


def load(name: str) -> Any:
    """Import a command, and return it as a click command."""
    module, _, attribute = _FUNCTIONS.get(name, f"{name}:{name}").partition(":")
    gc.disable()  # imports make no garbage, and their collections take a tenth of the time
    loaded = getattr(import_module(f"hacs_crawler.cli.{module}"), attribute)
    gc.enable()
    gc.freeze()
    if not isinstance(loaded, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command(name)(loaded)
        loaded = app
    command = typer.main.get_command(loaded)
    command.name = name
    for named in (command, *getattr(command, "commands", {}).values()):
        # typer keeps the line breaks of docstrings, although the terminal wraps lines
        named.help = "\n\n".join(
            " ".join(part.split()) for part in (named.help or "").split("\n\n")
        )
    return command


class LazyGroup(TyperGroup):
    """The group of all commands: `hacs --help` lists them without importing any."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: TyperCommand(name, help=summary, rich_help_panel=aim)
            for aim, commands in BY_AIM.items()
            for name, summary in commands.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the imported command, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command; if it raises HacsError, log one line and exit with status 1."""
        try:
            return super().invoke(ctx)
        except HacsError as error:
            safe_logger(__name__).error("%s", error)
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415 - no command needs it

        typer.echo(f"hacs-crawler {version('hacs-crawler')}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    """Work with the pages that HACS knows, outside crawls."""
    del version
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO)
