"""`hacs evaluate`: the paper's evaluations of a state, or of timelines in files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from hacs_crawler.analysis import Table, table_of_rows
from hacs_crawler.archive import parse_day, read_timelines
from hacs_crawler.cli.clusters import Dask, workers_of
from hacs_crawler.cli.common import Set, opened
from hacs_crawler.cli.files import write_file
from hacs_crawler.cli.tables import Records, shows_rows
from hacs_crawler.cluster import check_cluster
from hacs_crawler.crawl.seeds import read_seeds
from hacs_crawler.evaluation.figures import check_matplotlib, plots
from hacs_crawler.evaluation.histories import History, from_pages, from_timelines
from hacs_crawler.evaluation.instant import evaluate_instant, instant_parts
from hacs_crawler.evaluation.localized_tables import (
    LocalizedEvaluation,
    evaluate_localized,
    localized_json,
    localized_parts,
    localized_rows,
)
from hacs_crawler.evaluation.paper import Evaluation, choose_period, day_name, evaluate
from hacs_crawler.evaluation.tables import (
    as_json,
    selection_rows,
    table_parts,
)
from hacs_crawler.evaluation.update_points import (
    Chunk,
    in_chunks,
    of_timelines,
    synthetic_chunks,
)
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import DEEPEST
from hacs_crawler.model import THRESHOLD_DAYS
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

_DEEPEST: Final = {"links": None, "path": DEEPEST}
"""How many levels of the path a website has, by what its depth counts."""
SYNTHETIC_PAGES: Final = 300_000
_File = typer.Option(help="CSV; see docs/evaluation.md")


class Paper(StrEnum):
    """Whose evaluations are made."""

    HACS = "hacs"
    SINGH = "singh"
    INSTANT = "instant"


@shows_rows(json="file")
def evaluate_command(  # noqa: PLR0913, PLR0917 - one for each option
    pages: Annotated[Path | None, _File] = None,
    updates: Annotated[Path | None, _File] = None,
    captures: Annotated[Path | None, _File] = None,
    paper: Annotated[
        Paper,
        typer.Option(
            help="whose evaluations: HACS, the localized rates of Singh 2007, or the seed lists of "
            "Wang et al. 2008"
        ),
    ] = Paper.HACS,
    since: Annotated[str | None, typer.Option(help="the first week: a day, UTC")] = None,
    until: Annotated[str | None, typer.Option(help="the last week: a day, UTC")] = None,
    closed: Annotated[
        bool, typer.Option("--closed-windows", help="use no capture from before a window")
    ] = False,
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
        typer.Option(help=f"singh, without files: so many  [default: {SYNTHETIC_PAGES}]", min=1),
    ] = None,
    threshold_days: Annotated[
        float | None,
        typer.Option(help=f"singh: of a window, in days  [default: {THRESHOLD_DAYS:g}]"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="singh: of synthetic pages", min=0)] = None,
    dask: Dask = None,
    settings: Set = None,
) -> Records:
    """Evaluate how well rates predict updates, as the paper on HACS does, or that of Singh.

    Of the files `--pages`, `--updates` and `--captures`, or else of what the state knows. Prints
    the scores of pages selected by a threshold (Table I) and of their order (Figure 11).

    With `--paper singh`: how well estimators follow rates that change, of `--pages`, `--updates` and,
    if given, `--captures`, or else of synthetic pages. Prints Tables 1 to 4 and Figure 1.

    With `--paper instant`: how well sites that are news are told by their page views, on synthetic
    webs, beside a manual list (Table 1).

    --csv and --parquet have the rows of Table I, of Singh's a row for each number, of the seed lists a
    row for each list.
    """
    if dask is not None:
        check_cluster(dask)
    if paper is Paper.INSTANT:
        given = pages, updates, captures, since, until, seeds, output, settings
        if closed or any(one is not None for one in given):
            raise HacsError(
                "--paper instant takes --dask, --json, --csv and --parquet, and no other option"
            )
        return _instant(dask)
    if paper is Paper.SINGH:
        others = since, until, seeds, output, settings
        if closed or any(one is not None for one in others):
            raise HacsError(
                "--paper singh takes --pages, --updates, --captures, --synthetic-pages, "
                "--threshold-days, --seed, --dask, --json, --csv and --parquet, and no other "
                "option"
            )
        localized = _localized(
            (pages, updates, captures), synthetic_pages, threshold_days, seed, dask
        )
        return Records(
            rows=lambda: _rows(localized_rows(localized)),
            text=lambda: localized_parts(localized),
            json=lambda: _json(localized_json(localized)),
        )
    if (synthetic_pages, threshold_days, seed) != (None, None, None):
        raise HacsError("--synthetic-pages, --threshold-days and --seed go with --paper singh")
    bounds = _day(since, "since"), _day(until, "until")
    _check_output(output)
    if pages or updates or captures:
        if seeds is not None or depth is not None or settings:
            raise HacsError("--seeds, --depth and --set are about a state, and files are given")
        levels = _from_files(pages, updates, captures)
    else:
        levels = _from_state(settings, seeds, _deepest(depth or "links"))
    result = _evaluated(levels, bounds, dask, is_closed=closed)
    _write(result, output)
    return Records(
        rows=lambda: _rows(list(selection_rows(result))),
        text=lambda: table_parts(result),
        json=lambda: _json(as_json(result)),
    )


def _day(text: str | None, name: str) -> float | None:
    return None if text is None else parse_day(text, name) / DAY


def _deepest(depth: str) -> int | None:
    if depth not in _DEEPEST:
        raise HacsError(f"depth = {depth!r}: allowed is links or path")
    return _DEEPEST[depth]


def _check_output(output: Path | None) -> None:
    """Make the folder; raise HacsError where figures cannot be drawn, before the work is done."""
    if output is not None:
        check_matplotlib()
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HacsError(f"{output}: cannot write: {error.strerror or error}") from error


def _from_files(
    pages: Path | None,
    updates: Path | None,
    captures: Path | None,
) -> dict[str, History]:
    if pages is None or updates is None or captures is None:
        raise HacsError("--pages, --updates and --captures go together")
    return from_timelines(read_timelines(pages, updates, captures))


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


def _evaluated(
    levels: dict[str, History],
    bounds: tuple[float | None, float | None],
    dask: str | None,
    *,
    is_closed: bool,
) -> Evaluation:
    since, until = bounds
    period, latest = choose_period(levels, since, until, is_closed=is_closed)
    if until is not None and until > latest:
        logger.warning(
            "until is moved to %s: what happened in the week after it is not known",
            day_name(latest),
        )
    with workers_of(dask) as workers, Progress("evaluate") as progress:
        return evaluate(
            levels,
            period,
            lambda done, total: progress.update(f"{done} weeks", done, total),
            workers,
        )


def _write(result: Evaluation, output: Path | None) -> None:
    """Write what is asked for; each file is whole or not there."""
    if output is not None:
        for plot in plots(result):
            for kind in ("svg", "png"):
                write_file(output / f"{plot.name}.{kind}", [plot.render(kind)])


def _localized(
    files: tuple[Path | None, Path | None, Path | None],
    synthetic_pages: int | None,
    threshold_days: float | None,
    seed: int | None,
    dask: str | None,
) -> LocalizedEvaluation:
    pages, updates, captures = files
    threshold = THRESHOLD_DAYS if threshold_days is None else threshold_days
    if not 0 <= threshold < math.inf:
        raise HacsError(f"--threshold-days = {threshold}: allowed is a number of at least 0")
    if pages is None and updates is None and captures is None:
        number = synthetic_pages or SYNTHETIC_PAGES
        chunks: Sequence[Chunk] = synthetic_chunks(number, seed or 0)
        data = f"synthetic, seed {seed or 0}"
    elif pages is None or updates is None:
        raise HacsError("--pages and --updates go together, and --captures with them")
    elif synthetic_pages is not None or seed is not None:
        raise HacsError("--synthetic-pages and --seed are about made-up pages, and files are given")
    else:
        timelines = read_timelines(pages, updates, captures)
        chunks, number = (
            in_chunks(of_timelines(timelines, by_captures=captures is not None)),
            len(timelines.urls),
        )
        data = f"{pages.name}, {'captures' if captures else 'an access a day'}"
    with workers_of(dask) as workers, Progress("evaluate") as progress:
        return evaluate_localized(
            chunks,
            data,
            threshold,
            lambda done: progress.update(f"{done} pages", done, number),
            workers,
        )


def _rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    texts = {name for row in rows for name, value in row.items() if isinstance(value, str)}
    return table_of_rows(rows, texts)


def _instant(dask: str | None) -> Records:
    with workers_of(dask) as workers, Progress("evaluate") as progress:
        found = evaluate_instant(
            np.random.default_rng(0),
            lambda done, total: progress.update("webs of pages", done, total),
            workers,
        )
    return Records(
        rows=lambda: _rows(found),
        text=lambda: instant_parts(found),
        json=lambda: _json(found),
    )


def _json(body: object) -> list[str]:
    return [json.dumps(body, indent=1, allow_nan=False), "\n"]
