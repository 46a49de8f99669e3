"""`hacs evaluate`: the paper's evaluations of a state, or of timelines in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from hacs_crawler.analysis import Table, table_of_rows
from hacs_crawler.cli.common import CapturesFile, PagesFile, Set, UpdatesFile, opened
from hacs_crawler.cli.output import Records, shows_rows, write_file
from hacs_crawler.crawl.seeds import read_seeds
from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.evaluation.figures import check_matplotlib, plots
from hacs_crawler.lab.evaluation.histories import History, from_pages, from_timelines
from hacs_crawler.lab.evaluation.localized import (
    evaluate_localized,
    localized_parts,
    localized_rows,
)
from hacs_crawler.lab.evaluation.paper import Evaluation, choose_period, day_name, evaluate
from hacs_crawler.lab.evaluation.tables import (
    all_rows,
    table_parts,
)
from hacs_crawler.lab.evaluation.update_points import (
    in_chunks,
    of_timelines,
    synthetic_chunks,
)
from hacs_crawler.lab.timelines import parse_day, read_timelines
from hacs_crawler.links import DEEPEST
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

# How many levels of the path a website has, by the unit of its depth.
_DEEPEST: Final = {"links": None, "path": DEEPEST}
SYNTHETIC_PAGES: Final = 300_000


class Paper(StrEnum):
    """Whose evaluations are made."""

    HACS = "hacs"
    SINGH = "singh"


@shows_rows(json="")
def evaluate_command(  # noqa: PLR0913, PLR0917 - an argument for each option
    pages: PagesFile = None,
    updates: UpdatesFile = None,
    captures: CapturesFile = None,
    paper: Annotated[
        Paper,
        typer.Option(help="whose evaluations: HACS, or the localized rates of Singh 2007"),
    ] = Paper.HACS,
    since: Annotated[str | None, typer.Option(help="the first week: a day, UTC")] = None,
    until: Annotated[str | None, typer.Option(help="the last week: a day, UTC")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="of a state: its homepages, a file as for scholar")
    ] = None,
    depth: Annotated[
        str | None,
        typer.Option(help="of a state: what bounds websites: links, or path (the paper)"),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="a folder for the figures (SVG, PNG)")] = None,
    synthetic_pages: Annotated[
        int | None,
        typer.Option(
            help=f"singh, without files: how many made-up pages  [default: {SYNTHETIC_PAGES}]",
            min=1,
        ),
    ] = None,
    settings: Set = None,
) -> Records:
    """Evaluate how well rates predict updates, as the papers of HACS or Singh do.

    The histories come from the files `--pages`, `--updates` and `--captures`, or else from the state.
    Prints the scores of pages selected by a threshold (Table I) and of their order (Figure 11).

    With `--paper singh`: how well estimators follow rates that change, of `--pages`, `--updates` and,
    if given, `--captures`, or else of synthetic pages. Prints Tables 1 to 4 and Figure 1.

    --csv has a row for each model, window and average; with Singh's paper a row for each number.
    """
    files = pages, updates, captures
    if paper is Paper.SINGH:
        if any(given is not None for given in (since, until, seeds, depth, output, settings)):
            raise HacsError(
                "--since, --until, --seeds, --depth, --output and --set are not for this paper"
            )
        return _singh(files, synthetic_pages)
    if synthetic_pages is not None:
        raise HacsError("--synthetic-pages goes with --paper singh")
    bounds = _day(since, "since"), _day(until, "until")
    _check_output(output)
    if any(files):
        if seeds is not None or depth is not None or settings:
            raise HacsError("--seeds, --depth and --set are about a state, and files are given")
        if pages is None or updates is None or captures is None:
            raise HacsError("--pages, --updates and --captures go together")
        levels = from_timelines(read_timelines(pages, updates, captures))
    else:
        levels = _from_state(settings, seeds, _deepest(depth or "links"))
    result = _evaluated(levels, *bounds)
    if output is not None:
        _draw(result, output)
    return Records(
        rows=lambda: _rows(list(all_rows(result))),
        text=lambda: table_parts(result),
    )


def _day(text: str | None, name: str) -> float | None:
    return None if text is None else parse_day(text, name) / DAY


def _deepest(depth: str) -> int | None:
    if depth not in _DEEPEST:
        raise HacsError(f"depth = {depth!r}: must be one of links, path")
    return _DEEPEST[depth]


def _check_output(output: Path | None) -> None:
    """Make the folder; raise HacsError if figures cannot be drawn, before the work is done."""
    if output is not None:
        check_matplotlib()
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HacsError(f"{output}: cannot write: {error.strerror or error}") from error


def _from_state(
    settings: list[str] | None, seeds: str | None, deepest: int | None
) -> dict[str, History]:
    homepages = None if seeds is None else list(read_seeds(seeds))
    with opened(settings) as (_, state), Progress("reading the state") as progress:
        total = state.store.count()
        return from_pages(
            (page for page in state.pages() if page is not None),
            homepages,
            lambda done: progress.update(f"{done} pages", done, total),
            deepest,
        )


def _evaluated(levels: dict[str, History], since: float | None, until: float | None) -> Evaluation:
    period, latest = choose_period(levels, since, until)
    if until is not None and until > latest:
        logger.warning(
            "until is moved to %s: what happened in the week after it is not known",
            day_name(latest),
        )
    with Progress("evaluate") as progress:
        return evaluate(
            levels, period, lambda done, total: progress.update(f"{done} weeks", done, total)
        )


def _draw(result: Evaluation, output: Path) -> None:
    for plot in plots(result):
        for kind in ("svg", "png"):
            write_file(output / f"{plot.name}.{kind}", [plot.render(kind)])


def _singh(
    files: tuple[Path | None, Path | None, Path | None], synthetic_pages: int | None
) -> Records:
    pages, updates, captures = files
    if not any(files):
        number = synthetic_pages or SYNTHETIC_PAGES
        chunks, data = synthetic_chunks(number), "synthetic"
    elif pages is None or updates is None:
        raise HacsError("--pages and --updates go together, and --captures with them")
    elif synthetic_pages is not None:
        raise HacsError("--synthetic-pages is about made-up pages, and files are given")
    else:
        timelines = read_timelines(pages, updates, captures)
        chunks = in_chunks(of_timelines(timelines, by_captures=captures is not None))
        number = len(timelines.urls)
        data = f"{pages.name}, {'captures' if captures else 'an access a day'}"
    with Progress("evaluate") as progress:
        result = evaluate_localized(
            chunks, data, lambda done: progress.update(f"{done} pages", done, number)
        )
    return Records(
        rows=lambda: _rows(localized_rows(result)),
        text=lambda: localized_parts(result),
    )


def _rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    texts = {name for row in rows for name, value in row.items() if isinstance(value, str)}
    return table_of_rows(rows, texts)
