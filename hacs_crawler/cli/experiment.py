"""`hacs experiment`: what the arms of a live experiment found, and what can be concluded from it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from hacs_crawler.analysis import Table, table_of_rows
from hacs_crawler.cli.common import Set, opened, writing_to_stdout
from hacs_crawler.cli.tables import Csv, Parquet, write_rows
from hacs_crawler.exceptions import HacsError
from hacs_crawler.experiment.answer import ArmSummary, Verdict, answer
from hacs_crawler.experiment.text import ROWS, paragraphs
from hacs_crawler.state import export_outcomes
from hacs_crawler.utils.columns import Column, markdown_lines, side_by_side, terminal_width, wrapped
from hacs_crawler.utils.files import replacing
from hacs_crawler.utils.progress import Progress
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
def status(
    json_: Annotated[bool, typer.Option("--json", help="all numbers, as JSON")] = False,
    csv: Csv = None,
    parquet: Parquet = None,
    settings: Set = None,
) -> None:
    """Say what each arm found, how they differ, and what can be concluded from that.

    The intervals hold however often one looks. See docs/experiments.md.
    """
    with opened(settings) as (config, state), writing_to_stdout():
        if not config.ranking.experiment.is_on:
            raise HacsError(NOT_SET)
        found = answer(config, state, config.clock())
        if json_:
            typer.echo(json.dumps(_as_json(found), indent=1))
        elif not write_rows(_rows(found), csv, parquet):
            typer.echo(answer_text(found, terminal_width()))


@experiment_app.command()
def export(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="a file, gzipped if named .gz")
    ] = None,
    settings: Set = None,
) -> None:
    """Write the record of every ranked visit as JSON Lines, with or without an experiment.

    `hacs import` reads them back. A file appears under its name when it is whole.
    """
    target = None if output == Path("-") else output
    with opened(settings) as (_, state), nullcontext() if target else writing_to_stdout():
        progress = Progress("export")
        is_shown = target is None and sys.stdout.isatty()
        with nullcontext() if is_shown else progress:  # no bar amid the lines
            try:
                if target is None:
                    number = export_outcomes(state, sys.stdout.buffer, progress)
                    sys.stdout.buffer.flush()
                else:
                    with replacing(target) as file:
                        number = export_outcomes(state, file, progress)
            except OSError as error:
                if target is None:
                    raise
                raise HacsError(f"cannot write {target}: {error.strerror or error}") from error
        logger.info("%s exported", counted(number, "outcome record"))


def answer_text(answer: Verdict, width: int | None = None) -> str:
    """Return the answer as it is printed: a table in Markdown, then a paragraph a comparison."""
    told = ("\n".join(wrapped(one, width)) for one in paragraphs(answer))
    return "\n\n".join([*_tables(answer.arms, width), *told])


def _tables(arms: Sequence[ArmSummary], width: int | None) -> Iterator[str]:
    """Yield the arms as tables with a column an arm, in as many tables as the width demands."""
    titles = Column("arm", list(ROWS), 1, is_text=True)
    columns = [Column(arm.arm, [cell(arm) for cell in ROWS.values()], 0) for arm in arms]
    for part in side_by_side(titles, columns, width, gap=3, ends=4):
        yield "\n".join(markdown_lines(part, None))


def _rows(found: Verdict) -> Table:
    """Return a row for each arm."""
    return table_of_rows([asdict(arm) for arm in found.arms], texts=("arm",))


def _as_json(found: Verdict) -> dict[str, Any]:
    return {**found.as_json(), "words": paragraphs(found)}
