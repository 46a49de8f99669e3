"""`hacs interest`: which pages and sites people read as news, from their page views."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from hacs_crawler.archive import Source, open_source, read_lines
from hacs_crawler.cli.common import ending_in_a_line, say
from hacs_crawler.exceptions import HacsError
from hacs_crawler.interest import (
    HOURS,
    KINDS,
    LINES_TO_TELL,
    MODELS,
    ROLES,
    Judged,
    LogReader,
    Problems,
    Rules,
    TableReader,
    Views,
    ViewsError,
    check_site,
    day_of,
    day_text,
    gathered,
    hours_by,
    hubs_of,
    is_log,
    judge,
    rows_json,
    seed_lines,
    sign_of_cut,
    signs_of_window,
    views_csv,
    window_of,
    zone_named,
)
from hacs_crawler.model import CLASSES, UNSTABLE
from hacs_crawler.report.interest import interest_html
from hacs_crawler.utils.files import replacing
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

interest_app = typer.Typer(
    no_args_is_help=True, help="Page views: which pages and sites people read as news."
)

_LINES_A_STEP: Final = 20_000

_ViewsFile = Annotated[Path, typer.Argument(help="CSV: page, date, views; .gz too; - for stdin")]
_Days = Annotated[int, typer.Option(min=4, max=3660, help="the window: so many days")]
_Until = Annotated[str | None, typer.Option(help="its last day  [default: the last with a record]")]
_LeastViews = Annotated[float, typer.Option(min=1, help="leave out pages with fewer in the window")]
_BestDays = Annotated[int, typer.Option("-n", "--best-days", min=1, help="interest is short if …")]
_Share = Annotated[
    float | None,
    typer.Option(
        "-q",
        "--share",
        min=0,
        max=1,
        help="… more than this comes in them  [anchored .4, paper .7]",
    ),
]
_By = Annotated[str, typer.Option(help="site or folder")]
_Top = Annotated[int, typer.Option(min=1, help="how many at most")]
_Burden = Annotated[
    int | None, typer.Option(min=1, help="instead: as many as have so many pages together")
]


@interest_app.command("import")
def import_(  # noqa: PLR0917 - one for each option
    files: Annotated[
        list[Path], typer.Argument(help="access logs or CSV of page views; .gz too; - for stdin")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="CSV; gzipped if named .gz")],
    site: Annotated[str | None, typer.Option(help="what is before paths: https://host")] = None,
    timezone: Annotated[str, typer.Option(help="whose midnight ends a day")] = "UTC",
    hourly: Annotated[bool, typer.Option(help="keep hours, where a file has them")] = False,
    column: Annotated[
        list[str] | None, typer.Option(help=f"ROLE=NAME; roles are {', '.join(ROLES)}")
    ] = None,
    date: Annotated[str | None, typer.Option(help="the day of tables that have no dates")] = None,
) -> None:
    """Read page views from access logs and analytics exports into one file: page, date, views.

    Of logs, in Common or Combined format, robots and assets are left out, and each visitor counts once a
    page and day. Tables are those of Matomo, Plausible, Google Analytics and Wikimedia, or any with
    columns for page, date and views.
    """
    with ending_in_a_line():
        _check_target(output, "-o")
        hour_of = hours_by(zone_named(timezone))
        base = None if site is None else check_site(site)
        now = time.time()
        log = LogReader(base, hour_of, now + DAY)
        table = TableReader(base, hour_of, hour_of(now + DAY), _columns(column), _day_text(date))
        for file in files:
            _read(str(file), log, table)
        views = _together(log.views(hourly=hourly), table.views(hourly=hourly))
        if not views.views.any():
            raise ViewsError(f"no views in {', '.join(map(str, files))}")
        if hourly and views.bins_a_day == 1:
            logger.warning("no file names hours: views are by the day")
        _say_of_log(log)
        _say_of_table(table)
        _write(output, views_csv(views))
        first, last = views.days
        logger.info(
            "%s: %.0f views of %d pages, %s to %s",
            output,
            views.views.sum(),
            len(views.pages),
            day_text(first),
            day_text(last),
        )


@interest_app.command()
def fit(  # noqa: PLR0917 - one for each option
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
) -> None:
    """Fit a log-normal curve to each page's views, and tell which pages are news.

    Classes are temporal, steady, unknown (cut by the window's border) and unstable (see
    docs/interest.md).
    """
    with ending_in_a_line():
        if json_ is not None:
            _check_target(json_, "--json")
        judged = _judged(views, days, until, min_views, _rules(model, best_days, share))
        if json_ is not None:
            _write(json_, rows_json(judged))
        for line in _summary(judged):
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
) -> None:
    """List the sites, or the folders, whose pages are news, as a seed file for the spider scholar."""
    with ending_in_a_line():
        if output is not None:
            _check_target(output, "-o")
        _check_kind(by)
        judged = _judged(views, days, until, min_views, _rules(model, best_days, share))
        hubs = hubs_of(judged, by)
        chosen = hubs.listed(None if burden is not None else top, burden)
        lines = list(seed_lines(hubs, chosen))
        if not lines:
            why = (
                "no page is temporal" if not chosen.size else "their pages are paths: import --site"
            )
            raise ViewsError(f"there is no {by} to list: {why}")
        if output is None:
            for line in lines:
                say(line)
        else:
            _write(output, (f"{line}\n".encode() for line in lines))
        pages, temporal = hubs.places.judged[chosen].sum(), hubs.places.temporal[chosen].sum()
        logger.info(
            "%d of %d %ss: %d of their %d judged pages are temporal, of %d temporal pages in all",
            len(lines),
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
        _check_target(output, "-o")
        _check_kind(by)
        judged = _judged(views, days, until, min_views, _rules(model, best_days, share))
        page = interest_html(judged, hubs_of(judged, by), by, top, _signs(judged))
        _write(output, [page.encode()])
        logger.info("%s written, %.1f MB", output, len(page) / 1e6)


def _rules(model: str, best_days: int, share: float | None) -> Rules:
    if model not in MODELS:
        raise HacsError(f"--model {model!r}: allowed are {', '.join(MODELS)}")
    return Rules(model, best_days, share)


def _check_kind(by: str) -> None:
    if by not in KINDS:
        raise HacsError(f"--by {by!r}: allowed are {', '.join(KINDS)}")


def _columns(pairs: list[str] | None) -> dict[str, str]:
    names: dict[str, str] = {}
    for pair in pairs or []:
        role, _, name = pair.partition("=")
        if role not in ROLES or not name:
            raise HacsError(
                f"--column {pair!r}: allowed is ROLE=NAME, with a role of {', '.join(ROLES)}"
            )
        names[role] = name
    return names


def _day(text: str | None, option: str) -> int | None:
    try:
        return None if text is None else day_of(text)
    except ValueError:
        raise HacsError(f"{option} {text!r}: allowed is a day such as 2026-01-31") from None


def _day_text(text: str | None) -> str | None:
    day = _day(text, "--date")
    return None if day is None else day_text(day)


def _read(path: str, log: LogReader, table: TableReader) -> None:
    """Add the views of a file to those of its kind; says what of it was left out."""
    with closing(open_source(path)) as source, Progress(source.name) as progress:
        beginning = source.beginning()
        if _is_blank(source):
            logger.warning("%s: there is nothing in it", source.name)
            return
        if is_log(islice(beginning.splitlines(), LINES_TO_TELL)):
            log.problems = problems = Problems()
            log.read(_counted(read_lines(source), progress))
        else:
            table.problems = problems = Problems()
            table.read(source, lambda rows: progress.update(f"{rows} rows"))
        for line in problems.lines():
            logger.warning("%s: %s", source.name, line)


def _is_blank(source: Source) -> bool:
    """Whether nothing is in a file; raises ArchiveError where that is because it is damaged."""
    if source.beginning().strip():
        return False
    return not any(line.strip() for line in read_lines(source))


def _counted(lines: Iterable[bytes], progress: Progress) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        if number % _LINES_A_STEP == 0:
            progress.update(f"{number} lines")
        yield line


def _together(one: Views, other: Views) -> Views:
    """Join the views of logs and of tables; with hours only if both have them."""
    if not one.page.size or not other.page.size:
        return one if one.page.size else other
    numbers = {page: place for place, page in enumerate(one.pages)}
    places = [numbers.setdefault(page, len(numbers)) for page in other.pages]
    per_day = min(one.bins_a_day, other.bins_a_day)
    return gathered(
        list(numbers),
        np.concatenate([one.page, np.array(places, dtype=np.int64)[other.page]]),
        np.concatenate([x.bin // (x.bins_a_day // per_day) for x in (one, other)]),
        np.concatenate([one.views, other.views]),
        per_day,
    )[0]


def _say_of_log(log: LogReader) -> None:
    if not log.requests:
        return
    logger.info(
        "%d page requests in logs, %d of them by robots (left out)", log.requests, log.robots
    )
    if log.without_agent:
        logger.warning(
            "%d requests name no user agent (Common format): only robots that asked for robots.txt are "
            "left out of them",
            log.without_agent,
        )
    if log.robots_in_disguise:
        logger.warning(
            "%d views are of visitors that saw hundreds of pages on a day, which robots do that call "
            "themselves browsers",
            log.robots_in_disguise,
        )


def _say_of_table(table: TableReader) -> None:
    if not table.rows:
        return
    logger.info("%d rows in tables; views are of the column %r", table.rows, table.views_column)
    if table.added_to_others:
        logger.warning(
            "%d rows repeat a page and a day: their views were added up", table.added_to_others
        )
    if table.ranks_cut:
        logger.warning(
            "%d rows sum up pages that the export left out: export more rows a day", table.ranks_cut
        )


def _judged(path: Path, days: int, until: str | None, least: float, rules: Rules) -> Judged:
    last = _day(until, "--until")
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
        if _is_blank(source):
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


def _summary(judged: Judged) -> Iterator[str]:
    window, shape = judged.window, judged.shape
    hours = " by the hour" if window.bins_a_day == HOURS else ""
    yield (
        f"{len(window.pages)} pages, {day_text(window.first_day)} to "
        f"{day_text(window.first_day + window.days - 1)}{hours}; {window.left_out} with too few views "
        "left out"
    )
    n = judged.rules.best_days
    titles = ("class", "pages", "views", f"phi({n})", f"best {n} days", "gini", "half-life")
    yield "  ".join(f"{title:>11}" for title in titles)
    phi, totals = judged.curves.phi(n), judged.totals
    for code, name in enumerate(CLASSES[: UNSTABLE + 1]):
        rows = judged.classes == code
        cells = [name, str(int(rows.sum())), f"{totals[rows].sum():.0f}"]
        cells.extend(
            f"{np.median(values[rows]):.3f}" if rows.any() else "-"
            for values in (phi, shape.best_share, shape.gini, shape.half_life)
        )
        yield "  ".join(f"{cell:>11}" for cell in cells)
    yield "phi and what is right of it: medians; half-life in days"


def _check_target(target: Path, option: str) -> None:
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise HacsError(f"{option} {str(target)!r}: allowed is a file in a folder that exists")


def _write(target: Path, pieces: Iterable[bytes]) -> None:
    try:
        with replacing(target) as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise HacsError(f"cannot write {target}: {error.strerror or error}") from error
