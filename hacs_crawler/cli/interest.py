"""`hacs interest`: which pages and sites people read as news, from their page views."""

import time
from typing import Annotated

import typer

from hacs_crawler.analysis import table
from hacs_crawler.archive import read_lines
from hacs_crawler.cli.output import STDOUT, Csv, Output, show_rows, write_file
from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.interest.hubs import KINDS, JudgedWindow, hub_lines, judge
from hacs_crawler.lab.interest.logs import FORMATS, LogReader, check_site
from hacs_crawler.lab.interest.views import HOURS, read_views, views_csv, window_of
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.utils.times import DAY, day_text

logger = safe_logger(__name__)

# In shorter windows, new pages look like news pages.
LEAST_DAYS = 45

interest_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Page views: which pages and sites people read as news.",
)

_ViewsFile = Annotated[str, typer.Argument(help="CSV: page, date, views; .gz too; - for stdin")]
_Days = Annotated[int, typer.Option(min=4, max=3660, help="the window: the last days on record")]
_LeastViews = Annotated[float, typer.Option(min=1, help="leave out pages with fewer in the window")]


@interest_app.command("import")
def import_logs(
    files: Annotated[list[str], typer.Argument(help="access logs; .gz too; - for stdin")],
    output: Output,
    site: Annotated[str | None, typer.Option(help="prefix for paths: https://host")] = None,
    format_: Annotated[
        str, typer.Option("--format", help=f"{', '.join(FORMATS)}, or an Apache LogFormat")
    ] = "combined",
    hourly: Annotated[bool, typer.Option(help="by the hour, not by the day")] = False,
) -> None:
    """Count the page views in access logs of one format: page, date, views; days end at midnight UTC.

    Robots and assets are left out, and each visitor counts once per page and day.
    """
    base = None if site is None else check_site(site)
    log = LogReader(base, format_, time.time() + DAY)
    for file in files:
        with Progress(file):
            bad = log.read(read_lines(file))
        if bad:
            why = "of another format, or with a wrong date"
            logger.warning("%s: %s left out: %s", file, counted(bad, "line"), why)
    views = log.views(hourly=hourly)
    if not views.views.any():
        raise HacsError(f"no views in {', '.join(files)}")
    write_file(output, views_csv(views))
    logger.info(
        "%s: %d views of %d pages, %s to %s; of %d page requests %d by robots are left out",
        output,
        views.views.sum(),
        len(views.pages),
        *(day_text(DAY * day) for day in views.days),
        log.requests,
        log.robots,
    )


@interest_app.command()
def fit(views: _ViewsFile, days: _Days = 60, min_views: _LeastViews = 60, csv: Csv = None) -> None:
    """Fit a log-normal curve to each page's views, and report the temporal pages: news.

    --csv has a row for each page.
    """
    judged = _judged_window(views, days, min_views)
    show_rows(table(judged.columns(), ("page",)), lambda: _summary(judged), csv)


@interest_app.command()
def seeds(
    views: _ViewsFile,
    output: Output = STDOUT,
    by: Annotated[str, typer.Option(help="site or folder")] = KINDS[0],
    top: Annotated[int, typer.Option(min=1, help="the highest number of lines")] = 100,
    days: _Days = 60,
    min_views: _LeastViews = 60,
) -> None:
    """List the sites, or the folders, whose pages are news, as a seed file for the spider scholar."""
    if by not in KINDS:
        raise HacsError(f"--by {by!r}: must be one of {', '.join(KINDS)}")
    judged = _judged_window(views, days, min_views)
    lines = hub_lines(judged, by, top)
    if not lines:
        has_none = not judged.is_temporal.any()
        why = "no page is temporal" if has_none else "their pages are paths: import --site"
        raise HacsError(f"there is no {by} to list: {why}")
    write_file(output, (f"{line}\n".encode() for line in lines))
    logger.info("%d %ss; %s", len(lines), by, "; ".join(_summary(judged)))


def _judged_window(path: str, days: int, least: float) -> JudgedWindow:
    with Progress(path) as progress:
        views = read_views(path, progress.counts("rows"))
    window = window_of(views, days, least)
    if window.days < LEAST_DAYS:
        said = "the window has %d days: in fewer than %d, new pages look like news"
        logger.warning(said, window.days, LEAST_DAYS)
    with Progress("fit") as progress:
        return judge(window, progress.counts("pages"))


def _summary(judged: JudgedWindow) -> list[str]:
    window, totals = judged.window, judged.totals
    first, last = (DAY * (window.first_day + day) for day in (0, window.days - 1))
    hours = " by the hour" if window.bins_a_day == HOURS else ""
    return [
        f"{len(window.pages)} pages, {day_text(first)} to {day_text(last)}{hours}",
        f"{window.left_out} more with too few views",
        f"{judged.is_temporal.sum()} temporal, with {totals[judged.is_temporal].sum():.0f} of "
        f"{totals.sum():.0f} views",
    ]
