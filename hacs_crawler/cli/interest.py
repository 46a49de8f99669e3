"""`hacs interest`: which pages and sites people read as news, from their page views."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hacs_crawler.analysis import table_of_rows
from hacs_crawler.archive import open_source
from hacs_crawler.cli.common import ending_in_a_line, say, writing_to_stdout
from hacs_crawler.cli.interest_import import check_target, day_named, import_views, is_blank, write
from hacs_crawler.cli.tables import Csv, Parquet, check_targets, write_rows
from hacs_crawler.exceptions import HacsError
from hacs_crawler.interest import (
    HOURS,
    KINDS,
    MODELS,
    Judged,
    Rules,
    TableReader,
    Views,
    ViewsError,
    day_text,
    hours_by,
    hub_rows,
    hubs_of,
    judge,
    rows_json,
    seed_line,
    sign_of_cut,
    signs_of_window,
    window_of,
    zone_named,
)
from hacs_crawler.model import CLASSES, UNSTABLE
from hacs_crawler.report.interest import interest_html
from hacs_crawler.utils.arrays import FloatArray
from hacs_crawler.utils.columns import Column, lines_of, terminal_width, wrapped
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

interest_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Page views: which pages and sites people read as news.",
)
interest_app.command("import")(import_views)

_ViewsFile = Annotated[Path, typer.Argument(help="CSV: page, date, views; .gz too; - for stdin")]
_Days = Annotated[int, typer.Option(min=4, max=3660, help="the window: so many days")]
_Until = Annotated[str | None, typer.Option(help="its last day  [default: the last with a record]")]
_LeastViews = Annotated[float, typer.Option(min=1, help="leave out pages with fewer in the window")]
_BestDays = Annotated[
    int, typer.Option("-n", "--best-days", min=1, help="n: interest that lasts so long is short")
]
_Share = Annotated[
    float | None,
    typer.Option(
        "-q",
        "--share",
        min=0,
        max=1,
        help="q: a page with more in n days is temporal; anchored 0.4, paper 0.7",
    ),
]
_By = Annotated[str, typer.Option(help="site or folder")]
_Top = Annotated[int, typer.Option(min=1, help="how many at most")]
_Burden = Annotated[
    int | None, typer.Option(min=1, help="instead: as many as have so many pages together")
]


@interest_app.command()
def fit(  # noqa: PLR0913, PLR0917 - one for each option
    views: _ViewsFile,
    model: Annotated[str, typer.Option(help="anchored, or the paper's own fit: paper")] = MODELS[0],
    days: _Days = 60,
    until: _Until = None,
    min_views: _LeastViews = 60,
    best_days: _BestDays = 3,
    share: _Share = None,
    json_: Annotated[
        Path | None, typer.Option("--json", help="a file: a row for each page")
    ] = None,
    csv: Csv = None,
    parquet: Parquet = None,
) -> None:
    """Fit a log-normal curve to each page's views, and tell which pages are news.

    Classes are temporal, steady, unknown (cut by the window's border) and unstable (see
    docs/interest.md). --json, --csv and --parquet have a row for each page.
    """
    with ending_in_a_line(), writing_to_stdout():
        if json_ is not None:
            check_target(json_, "--json")
        check_targets(csv, parquet)
        judged = _judged(views, days, until, min_views, _rules(model, best_days, share))
        if json_ is not None:
            write(json_, rows_json(judged))
        if csv is not None or parquet is not None:
            write_rows(table_of_rows(list(judged.rows()), ("page", "class")), csv, parquet)
        if Path("-") not in {json_, csv}:
            for line in _summary(judged, terminal_width()):
                typer.echo(line)


@interest_app.command()
def seeds(  # noqa: PLR0913, PLR0917 - one for each option
    views: _ViewsFile,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="a seed file")] = None,
    by: _By = KINDS[0],
    top: _Top = 100,
    burden: _Burden = None,
    days: _Days = 60,
    until: _Until = None,
    min_views: _LeastViews = 60,
    best_days: _BestDays = 3,
    share: _Share = None,
    model: Annotated[str, typer.Option(help="anchored or paper")] = MODELS[0],
    csv: Csv = None,
    parquet: Parquet = None,
) -> None:
    """List the sites, or the folders, whose pages are news, as a seed file for the spider scholar."""
    with ending_in_a_line(), writing_to_stdout():
        if output is not None:
            check_target(output, "-o")
        check_targets(csv, parquet)
        _check_kind(by)
        judged = _judged(views, days, until, min_views, _rules(model, best_days, share))
        hubs = hubs_of(judged, by)
        chosen = hubs.listed(None if burden is not None else top, burden)
        rows = list(hub_rows(hubs, chosen))
        if not rows:
            why = (
                "no page is temporal" if not chosen.size else "their pages are paths: import --site"
            )
            raise ViewsError(f"there is no {by} to list: {why}")
        is_written = write_rows(table_of_rows(rows, ("url",)), csv, parquet)
        if output is not None:
            write(output, (f"{seed_line(row)}\n".encode() for row in rows))
        elif not is_written:
            for row in rows:
                say(seed_line(row))
        pages, temporal = hubs.places.judged[chosen].sum(), hubs.places.temporal[chosen].sum()
        logger.info(
            "%d of %d %ss: %d of their %d judged pages are temporal, of %d temporal pages in all",
            len(rows),
            len(hubs.urls),
            by,
            temporal,
            pages,
            hubs.places.temporal.sum(),
        )


@interest_app.command()
def report(  # noqa: PLR0913, PLR0917 - one for each option
    views: _ViewsFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="the file to be written")] = Path(
        "hacs-interest.html"
    ),
    by: _By = KINDS[0],
    top: _Top = 100,
    days: _Days = 60,
    until: _Until = None,
    min_views: _LeastViews = 60,
    best_days: _BestDays = 3,
    share: _Share = None,
    model: Annotated[str, typer.Option(help="anchored or paper")] = MODELS[0],
) -> None:
    """Write one HTML page to look at: curves, classes, sites or folders, and what is unsure."""
    with ending_in_a_line():
        check_target(output, "-o")
        _check_kind(by)
        judged = _judged(views, days, until, min_views, _rules(model, best_days, share))
        page = interest_html(judged, hubs_of(judged, by), by, top, _signs(judged))
        write(output, [page.encode()])
        logger.info("%s written, %.1f MB", output, len(page) / 1e6)


def _rules(model: str, best_days: int, share: float | None) -> Rules:
    if model not in MODELS:
        raise HacsError(f"--model {model!r}: allowed are {', '.join(MODELS)}")
    return Rules(model, best_days, share)


def _check_kind(by: str) -> None:
    if by not in KINDS:
        raise HacsError(f"--by {by!r}: allowed are {', '.join(KINDS)}")


def _judged(path: Path, days: int, until: str | None, least: float, rules: Rules) -> Judged:
    last = day_named(until, "--until")
    views = _views(path)
    window = window_of(views, days, last, least)
    if (sign := sign_of_cut(views)) is not None:
        logger.warning("%s", sign)
    with Progress("fit") as progress:
        judged = judge(
            window, rules, lambda done, total: progress.update(f"{done} pages", done, total)
        )
    for sign in _signs(judged):
        logger.warning("%s", sign)
    return judged


def _signs(judged: Judged) -> list[str]:
    return list(signs_of_window(judged.window, judged.classes))


def _views(path: Path) -> Views:
    """Read a file that `import` wrote, or any table; by the hour where it names hours."""
    now = time.time()
    hour_of = hours_by(zone_named("UTC"))
    table = TableReader(None, hour_of, hour_of(now + DAY))
    with closing(open_source(str(path))) as source, Progress(source.name) as progress:
        if is_blank(source):
            raise ViewsError(f"{source.name}: there is nothing in it")
        table.read(source, lambda rows: progress.update(f"{rows} rows"))
    for line in table.problems.lines():
        logger.warning("%s: %s", path, line)
    views = table.views(hourly=True)
    if not views.views.any():
        raise ViewsError(f"{path}: there are no views in it")
    if table.added_to_others:
        logger.warning(
            "%s: %d rows repeat a page and a day: their views were added up",
            path,
            table.added_to_others,
        )
    return views


def _summary(judged: Judged, width: int | None) -> Iterator[str]:
    window, shape = judged.window, judged.shape
    hours = " by the hour" if window.bins_a_day == HOURS else ""
    head = (
        f"{len(window.pages)} pages, {day_text(window.first_day)} to "
        f"{day_text(window.first_day + window.days - 1)}{hours}; {window.left_out} with too few views "
        "left out"
    )
    yield from wrapped(head, width)
    n = judged.rules.best_days
    names, totals = CLASSES[: UNSTABLE + 1], judged.totals
    rows = [judged.classes == code for code in range(len(names))]

    def medians(values: FloatArray) -> list[str]:
        return [f"{np.median(values[of]):.3f}" if of.any() else "-" for of in rows]

    columns = [
        Column("class", names, 9, is_text=True),
        Column("pages", [str(int(of.sum())) for of in rows], 8),
        Column("views", [f"{totals[of].sum():.0f}" for of in rows], 6),
        Column(f"phi({n})", medians(judged.curves.phi(n)), 7),
        Column(f"best {n} days", medians(shape.best_share), 5),
        Column("gini", medians(shape.gini), 3),
        Column("half-life", medians(shape.half_life), 4),
    ]
    yield from lines_of(columns, width, "A wider terminal shows all")
    yield from wrapped("phi and what is right of it: medians; half-life in days", width)
