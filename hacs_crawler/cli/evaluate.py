"""`hacs evaluate`: the papers' evaluations of a state, or of timelines in files."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from hacs_crawler.analysis import table_of_rows
from hacs_crawler.cli.common import CapturesFile, PagesFile, Set, UpdatesFile, opened
from hacs_crawler.cli.output import Csv, show_rows
from hacs_crawler.crawl.seeds import read_seeds
from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.evaluation.histories import from_pages, from_timelines
from hacs_crawler.lab.evaluation.localized import (
    evaluate_localized,
    localized_parts,
    localized_rows,
)
from hacs_crawler.lab.evaluation.paper import all_rows, choose_period, evaluate, table_parts
from hacs_crawler.lab.evaluation.update_points import of_timelines, synthetic_chunks
from hacs_crawler.lab.timelines import parse_day, read_given
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY, day_text

logger = safe_logger(__name__)

SYNTHETIC_PAGES: Final = 300_000


class Paper(StrEnum):
    """The paper whose evaluation is made."""

    HACS = "hacs"
    SINGH = "singh"


def evaluate_command(  # noqa: PLR0913, PLR0917 - an argument for each option
    pages: PagesFile = None,
    updates: UpdatesFile = None,
    captures: CapturesFile = None,
    paper: Annotated[
        Paper, typer.Option(help="whose evaluations: HACS, or the localized rates of Singh 2007")
    ] = Paper.HACS,
    since: Annotated[str | None, typer.Option(help="the first week: a day, UTC")] = None,
    until: Annotated[str | None, typer.Option(help="the last week: a day, UTC")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="the homepages in a state: a file of seeds")
    ] = None,
    synthetic_pages: Annotated[
        int | None,
        typer.Option(
            help="singh, without files: number of made-up pages",
            min=1,
            show_default=str(SYNTHETIC_PAGES),
        ),
    ] = None,
    csv: Csv = None,
    settings: Set = None,
) -> None:
    """Evaluate how well rates predict updates, as the papers of HACS or Singh do.

    The histories come from the files `--pages`, `--updates` and `--captures`, or else from the state.
    Prints scores of the pages selected by a threshold (Table I) and of their order (Figure 11).

    `--paper singh` evaluates how well estimators follow changing rates, with the same files or
    synthetic pages. Prints Tables 1 to 4 and Figure 1.

    --csv has a row for each model, window and average; for Singh's paper a row for each number.
    """
    files = pages, updates, captures
    if paper is Paper.SINGH:
        if any(given is not None for given in (since, until, seeds, settings)):
            raise HacsError("--since, --until, --seeds and --set do not apply to this paper")
        _singh(files, synthetic_pages, csv)
        return
    if synthetic_pages is not None:
        raise HacsError("--synthetic-pages goes with --paper singh")
    first, last = (
        None if text is None else parse_day(text, name) / DAY
        for name, text in (("since", since), ("until", until))
    )
    timelines = read_given(*files, {"--captures": captures})
    if timelines is None:
        homepages = None if seeds is None else list(read_seeds(seeds))
        with opened(settings) as (_, state), Progress("reading the state") as progress:
            known = (page for page in state.pages() if page is not None)
            on_batch = progress.counts("pages", state.store.count())
            levels = from_pages(known, homepages, on_batch)
    elif seeds is not None or settings:
        raise HacsError("--seeds and --set apply to a state, not to files")
    else:
        levels = from_timelines(timelines)
    period, latest = choose_period(levels, first, last)
    if last is not None and last > latest:
        logger.warning("until is moved to %s: later updates are not known", day_text(DAY * latest))
    with Progress("evaluate") as progress:
        result = evaluate(levels, period, progress.counts("weeks"))
    _show(list(all_rows(result)), table_parts(result), csv)


def _singh(
    files: tuple[Path | None, Path | None, Path | None],
    synthetic_pages: int | None,
    csv: Path | None,
) -> None:
    if synthetic_pages is not None and any(files):
        raise HacsError("--synthetic-pages is about made-up pages, and files are given")
    timelines = read_given(*files, {})
    if timelines is None:
        number = synthetic_pages or SYNTHETIC_PAGES
        chunks, data = synthetic_chunks(number), "synthetic"
    else:
        chunks = iter([of_timelines(timelines, by_captures=files[2] is not None)])
        number = len(timelines.urls)
        data = f"files, {'an access a day' if files[2] is None else 'captures'}"
    with Progress("evaluate") as progress:
        result = evaluate_localized(chunks, data, progress.counts("pages", number))
    _show(localized_rows(result), localized_parts(result), csv)


def _show(rows: list[dict[str, Any]], parts: Iterable[str | Table], csv: Path | None) -> None:
    texts = {name for row in rows for name, value in row.items() if isinstance(value, str)}
    show_rows(table_of_rows(rows, texts), lambda: parts, csv)
