"""`hacs show`: one page's history, and what would make it be visited next."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Annotated, Any, Final

import typer

from hacs_crawler.analysis import visits_table
from hacs_crawler.cli.common import Set, Shards, opened
from hacs_crawler.cli.host import host_records
from hacs_crawler.cli.page_report import PageReport, report_of
from hacs_crawler.cli.page_text import page_text
from hacs_crawler.cli.period import parse_period, period_json, period_of
from hacs_crawler.cli.tables import Records, shows_rows
from hacs_crawler.cli.text import iso_text
from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import check_url, page_id_of, site_id, without_login
from hacs_crawler.model import confirmed_share
from hacs_crawler.ranking.plan import read_rows
from hacs_crawler.state import Ids, JoinedState, Page, Rows, State, as_of
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.times import minute_text

_HOST: Final = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::\d+)?")
SIMILAR_SHOWN: Final = 5


@shows_rows()
def show(
    url: Annotated[
        str, typer.Argument(help="a page's URL, or a host: what is left out of its links")
    ],
    since: Annotated[
        str | None, typer.Option("--from", help="rates of a period: its first day, UTC")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="the day after the last of the period, UTC")
    ] = None,
    shards: Shards = None,
    settings: Set = None,
) -> Records:
    """Show the history of one page, its rate, and what would make it be visited next.

    With --from or --to the rates of that period too, as they changed, as a plot. Of a host, show which
    parts of its links are left out because they change with every request. Of several shards, its rank
    is that among the pages of its own. --csv and --parquet have a row for each visit, of a host one for
    each such part.
    """
    is_host = _HOST.fullmatch(url)
    if not is_host and "://" not in url and _HOST.match(url):
        url = f"http://{url}"
    with opened(settings, shards) as (config, opened_state):
        state = opened_state
        if isinstance(state, JoinedState):
            state = state.of(f"http://{url}/" if is_host else url)
        if is_host:
            return host_records(state, url.lower())
        now = config.clock()
        report = _report_of(url, parse_period(since, until), state, config, now)
    return Records(
        rows=lambda: visits_table([report.page]),
        text=lambda: page_text(report, config, now),
        json=lambda: [json.dumps(_as_json(report, config.estimation.estimator), indent=2)],
    )


def _report_of(
    url: str, bounds: tuple[int | None, int | None], state: State, config: Config, now: float
) -> PageReport:
    """Return what is known of the page of a URL; raises HacsError that says why nothing is."""
    url = without_login(url)
    problem = check_url(url)
    if problem is not None:
        raise HacsError(f"{url!r} is no page's URL: {problem}")
    page = state.load([page_id_of(url)]).get(page_id_of(url))
    with Progress("show") as progress:
        ids, rows = read_rows(state, progress, now)
    if page_id_of(url) not in ids:
        raise HacsError(_unknown(url, ids, rows, state))
    if page is None:
        raise HacsError(f"what the state holds of {url} is damaged")
    past = as_of(page, now)
    if problem := check_url(page.url):
        raise HacsError(f"no crawl could visit {page.url}: {problem}")
    report = report_of(past, ids, rows, state, config, now)
    report = replace(report, set_aside=len(page.visits) - len(past.visits))
    if bounds == (None, None):
        return report
    period = period_of(past, bounds, config.estimation.estimator)
    if period is None:
        raise HacsError(_outside(past))
    return replace(report, period=period)


def _outside(page: Page) -> str:
    if len(page.visits) < 2:
        return f"{page.url} was not visited twice: no rate of a period can be said"
    return (
        f"the period has no part of the time in which {page.url} was watched, "
        f"{minute_text(page.visits[0])} to {minute_text(page.visits[-1])}"
    )


def _unknown(url: str, page_ids: Ids, rows: Rows, state: State) -> str:
    same_site = page_ids[rows["site"] == site_id(url)][:SIMILAR_SHOWN].tolist()
    similar = [page.url for page in state.load(same_site).values()]
    hint = f"; of the same site it knows {', '.join(similar)}" if similar else ""
    return f"the state does not know {url} (of {len(page_ids)} pages){hint}"


def _as_json(report: PageReport, estimator: str) -> dict[str, Any]:
    page, forecast = report.page, report.forecast
    times = zip(page.visits, report.updated, page.new_marks_by_visit(), strict=True)
    return {
        "url": page.url,
        "visits": [
            {
                "at": iso_text(at),
                "is_update": updated,
                "is_new_to_site": updated and at not in page.echoes,
                "new_links": links,
            }
            for at, updated, links in times
        ],
        "visits_set_aside": report.set_aside,
        "links": len(page.marks),
        "gone": page.gone,
        "failures": page.failures,
        "last_news": iso_text(page.last_news) if page.last_news else None,
        "not_before": iso_text(page.not_before) if page.not_before else None,
        "harvests": [
            {"source": f"{one.source:08x}", "until": iso_text(one.until)}
            for one in page.harvests.values()
        ],
        "rate_per_day": report.rate_per_day,
        "churn": report.churn,
        "churning": report.churning,
        "burst_since": None if report.burst_since is None else iso_text(report.burst_since),
        "confirmed": report.confirmed,
        "confirmed_share": confirmed_share(*report.confirmed),
        "rate_is_prior": report.rate_is_prior,
        "rate_estimator": report.estimator(estimator),
        "rate_interval": report.interval,
        "ranked_rate_per_day": forecast.rate_per_day,
        "siblings": report.siblings,
        "sibling_correlation": report.sibling_correlation,
        "rendered": report.cost.is_rendered,
        "seconds": report.cost.page.seconds or None,
        "signals": [
            {
                **asdict(one),
                "latest": iso_text(one.latest) if one.latest else None,
                "read": iso_text(one.read),
            }
            for one in report.signals
        ],
        "p": forecast.p,
        "arm": forecast.arm or None,
        "rank": forecast.rank,
        "ranked": forecast.ranked,
        "reason": forecast.reason.value,
        "p_to_pass": forecast.p_to_pass,
        "next_visit": None if forecast.at is None else iso_text(forecast.at),
    } | ({} if report.period is None else {"period": period_json(report.period)})
