"""The `hacs` command: what there is, by what one wants. The commands are imported when they are run."""

from __future__ import annotations

import logging
import os
from typing import Annotated, Final

import typer

from hacs_crawler.cli.lazy import Entry, lazy_group

CRAWL: Final = "Crawl: all shards of a state"
LOOK: Final = "Look: what is known, and what comes next"
MOVE: Final = "Move: into a state, and out of it"
TUNE: Final = "Tune: what is estimated and predicted"
COMPARE: Final = "Compare: policies, estimators, papers"

COMMANDS: Final = {
    "crawl": Entry(
        "crawl:crawl",
        CRAWL,
        "Crawl all shards of a state as one: one plan splits HACS_BUDGET over them.",
    ),
    "rank": Entry(
        "rank:rank", LOOK, "Show what a crawl of all known pages would visit now, and why."
    ),
    "show": Entry(
        "show:show",
        LOOK,
        "Show the history of one page, its rate, and what would make it be visited next.",
    ),
    "report": Entry(
        "report:report",
        LOOK,
        "Write what HACS knows, plans and has found as a self-contained HTML page.",
    ),
    "doctor": Entry(
        "doctor:doctor",
        LOOK,
        "Check what may keep crawls from working, and say what to do.",
    ),
    "import": Entry(
        "import_:import_", MOVE, "Record what archive files and exports hold of pages."
    ),
    "export": Entry(
        "export:export",
        MOVE,
        "Write everything that is known of pages as JSON Lines, one page a line.",
    ),
    "signal": Entry(
        "signal_:signal",
        MOVE,
        "Record signals that pages changed: a URL a line, with a time in ISO 8601 or in seconds.",
    ),
    "forget": Entry(
        "host:forget",
        MOVE,
        "Count all links of a host again, with the parts that changed with every request.",
    ),
    "estimate": Entry(
        "estimate:estimate", TUNE, "Fit the prior, and estimate every page's rate anew with it."
    ),
    "calibrate": Entry(
        "calibrate:calibrate",
        TUNE,
        "Compare predictions with what visits found.",
    ),
    "interest": Entry(
        "interest:interest_app",
        TUNE,
        "Page views: which pages and sites people read as news.",
    ),
    "experiment": Entry(
        "experiment:experiment_app",
        COMPARE,
        "Live experiments: policies compared on the sites that you crawl.",
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

app = typer.Typer(
    cls=lazy_group(COMMANDS),
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
    """Work on what HACS knows of pages, outside of crawls."""
    del version
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO)
