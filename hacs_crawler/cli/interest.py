"""`hacs interest`: which pages and sites people read as news, from their page views."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hacs_crawler.analysis import table
from hacs_crawler.archive import read_lines
from hacs_crawler.cli.output import (
    STDOUT,
    Records,
    check_target,
    ending_in_a_line,
    say,
    shows_rows,
    write_file,
    writing_to_stdout,
)
from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.interest.hubs import KINDS, hub_lines
from hacs_crawler.lab.interest.judging import MODELS, JudgedWindow, judge
from hacs_crawler.lab.interest.logs import FORMATS, LogReader, check_site
from hacs_crawler.lab.interest.views import (
    HOURS,
    day_text,
    read_views,
    views_csv,
    window_of,
)
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

# In shorter windows new pages and news pages look alike.
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
    output: Annotated[
        Path, typer.Option("-o", "--output", help="CSV; gzipped if named .gz; - for stdout")
    ],
    site: Annotated[str | None, typer.Option(help="what is before paths: https://host")] = None,
    format_: Annotated[
        str, typer.Option("--format", help=f"{', '.join(FORMATS)}, or an Apache LogFormat")
    ] = "combined",
    hourly: Annotated[bool, typer.Option(help="by the hour, not by the day")] = False,
) -> None:
    """Count the page views of access logs of one format: page, date, views; days end at midnight UTC.

    Robots and assets are left out, and each visitor counts once a page and day.
    """
    with ending_in_a_line():
        check_target(output, "-o")
        base = None if site is None else check_site(site)
        log = LogReader(base, format_, time.time() + DAY)
        for file in files:
            with Progress(file):
                bad = log.read(read_lines(file))
            if bad:
                why = "are none of this format, or have a wrong date"
                logger.warning("%s: %d lines %s", file, bad, why)
        views = log.views(hourly=hourly)
        if not views.views.any():
            raise HacsError(f"no views in {', '.join(files)}")
        write_file(output, views_csv(views))
        logger.info(
            "%s: %d views of %d pages, %s to %s; of %d page requests %d by robots are left out",
            output,
            views.views.sum(),
            len(views.pages),
            *map(day_text, views.days),
            log.requests,
            log.robots,
        )


@interest_app.command()
@shows_rows(json="")
def fit(
    views: _ViewsFile,
    model: Annotated[str, typer.Option(help="anchored, or the paper's own fit: paper")] = MODELS[0],
    days: _Days = 60,
    min_views: _LeastViews = 60,
) -> Records:
    """Fit a log-normal curve to each page's views, and report the temporal pages: news.

    The default is the likelihood of a curve whose birth lies near the rise; `--model paper` is the
    paper's own least squares with its Phi(3) > 0.7, which is not identifiable. --csv has a row for each
    page.
    """
    if model not in MODELS:
        raise HacsError(f"--model {model!r}: must be one of {', '.join(MODELS)}")
    judged = _judged(views, days, min_views, model)
    return Records(rows=lambda: table(judged.columns(), ("page",)), text=lambda: _summary(judged))


@interest_app.command()
def seeds(
    views: _ViewsFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="a seed file")] = STDOUT,
    by: Annotated[str, typer.Option(help="site or folder")] = KINDS[0],
    top: Annotated[int, typer.Option(min=1, help="how many at most")] = 100,
    days: _Days = 60,
    min_views: _LeastViews = 60,
) -> None:
    """List the sites, or the folders, whose pages are news, as a seed file for the spider scholar."""
    with ending_in_a_line(), writing_to_stdout():
        check_target(output, "-o")
        if by not in KINDS:
            raise HacsError(f"--by {by!r}: must be one of {', '.join(KINDS)}")
        judged = _judged(views, days, min_views, MODELS[0])
        lines = hub_lines(judged, by, top)
        if not lines:
            has_none = not judged.is_temporal.any()
            why = "no page is temporal" if has_none else "their pages are paths: import --site"
            raise HacsError(f"there is no {by} to list: {why}")
        if output == STDOUT:
            for line in lines:
                say(line)
        else:
            write_file(output, (f"{line}\n".encode() for line in lines))
        logger.info("%d %ss; %s", len(lines), by, "; ".join(_summary(judged)))


def _judged(path: str, days: int, least: float, model: str) -> JudgedWindow:
    with Progress(path) as progress:
        views = read_views(path, lambda rows: progress.update(f"{rows} rows"))
    window = window_of(views, days, least)
    if window.days < LEAST_DAYS:
        logger.warning(
            "the window has %d days: with fewer than %d a page that is new and one that is news look "
            "alike",
            window.days,
            LEAST_DAYS,
        )
    with Progress("fit") as progress:
        return judge(
            window, model, lambda done, total: progress.update(f"{done} pages", done, total)
        )


def _summary(judged: JudgedWindow) -> list[str]:
    window, totals = judged.window, judged.totals
    last = day_text(window.first_day + window.days - 1)
    hours = " by the hour" if window.bins_a_day == HOURS else ""
    return [
        f"{len(window.pages)} pages, {day_text(window.first_day)} to {last}{hours}",
        f"{window.left_out} more with too few views",
        f"{judged.is_temporal.sum()} temporal, with {totals[judged.is_temporal].sum():.0f} of "
        f"{totals.sum():.0f} views",
    ]
