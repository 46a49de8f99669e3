"""`hacs experiment`: what the arms of a live experiment found, and what can be concluded from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import typer
from rich.table import Table as RichTable

from hacs_crawler.analysis import Table, table_of_rows
from hacs_crawler.cli.common import Set, Shards, opened
from hacs_crawler.cli.output import (
    STDOUT,
    Output,
    Records,
    export_progress,
    output_file,
    shows_rows,
)
from hacs_crawler.exceptions import HacsError
from hacs_crawler.experiment.answer import ExperimentAnswer, answer
from hacs_crawler.experiment.text import ROWS, paragraphs
from hacs_crawler.state import export_outcomes, states_in
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

NOT_SET = (
    "no experiment is set: add one to the project's settings, such as "
    'HACS_EXPERIMENT = {"hacs": 0.5, "last-obs": 0.5}'
)

experiment_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Live experiments: policies compared on the sites that you crawl.",
)


@experiment_app.command()
@shows_rows()
def status(
    shards: Shards = None,
    settings: Set = None,
) -> Records:
    """Say what each arm found, how they differ, and what can be concluded from that.

    The intervals hold however often one looks. See docs/experiments.md.
    """
    with opened(settings, shards) as (config, state):
        if not config.ranking.experiment.is_on:
            raise HacsError(NOT_SET)
        found = answer(config, state, config.clock())
    return Records(
        rows=lambda: _rows(found),
        text=lambda: answer_parts(found),
        json=lambda: [json.dumps(_as_json(found), indent=1)],
    )


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


def answer_parts(answer: ExperimentAnswer) -> Iterator[str | RichTable]:
    """Yield the answer as it is printed: a table in Markdown, then a paragraph a comparison."""
    arms = {arm.arm: [cell(arm) for cell in ROWS.values()] for arm in answer.arms}
    yield column_table({"arm": list(ROWS), **arms}, texts=("arm",), is_markdown=True)
    for paragraph in paragraphs(answer):
        yield ""
        yield paragraph


def _rows(found: ExperimentAnswer) -> Table:
    """Return a row for each arm."""
    return table_of_rows([asdict(arm) for arm in found.arms], texts=("arm",))


def _as_json(found: ExperimentAnswer) -> dict[str, Any]:
    return {**found.as_json(), "words": paragraphs(found)}
