"""`hacs show`: one page's history, and what would make it be visited next."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.table import Table

from hacs_crawler.analysis import visits_table
from hacs_crawler.cli.common import Set, opened
from hacs_crawler.cli.host import host_records
from hacs_crawler.cli.period import (
    PeriodRates,
    parse_period,
    period_bars,
    period_json,
    period_of,
    period_summary,
)
from hacs_crawler.cli.tables import Records, shows_rows
from hacs_crawler.cli.text import days_text, interval_text, iso_text
from hacs_crawler.cli.visit_cost import VisitCost
from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import check_url, page_id_of, site_id, without_login
from hacs_crawler.model import (
    LOCALIZED,
    MIN_POINTS,
    LinkLifetime,
    bayes_quantiles,
    confirmed_share,
    gaps_between,
    is_trend,
    unpacked_trend,
)
from hacs_crawler.ranking.next_visit import BlockReason, Forecast, outlook_of
from hacs_crawler.ranking.plan import read_rows
from hacs_crawler.ranking.signals import PageSignals, signals_of_page
from hacs_crawler.state import (
    VISITS_OF_A_RATE,
    Ids,
    Page,
    Rows,
    State,
    as_of,
    baselines_of,
    fates,
    histories,
)
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.terminal import facts_table, terminal_width
from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import DAY, minute_text

_HOST: Final = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::\d+)?")
VISITS_SHOWN: Final = 20
_LABEL: Final = 13
"""How wide the column is that says what a fact is about."""
SIMILAR_SHOWN: Final = 5
LEAST_CHURNING: Final = 0.05
SURE_CHURNING: Final = 0.95
SPEAKS: Final = 1.05
"""By what factor signals change what is believed of a page, to be called telling."""
INTERVAL: Final = 0.8
"""How much of the posterior lies in the interval shown."""


@dataclass(frozen=True, slots=True)
class PageReport:
    """What is known of a page.

    `updated` says of each visit whether it found an update. `rate_per_day` is estimated anew, `interval`
    holds `INTERVAL` of its posterior; None where it has none, or where the page may churn. `spread` is
    the rate's log_sd, or how it goes on (`model.packed_trend`). `churn` and `churning` are as in
    `model.Rates`, `confirmed` counts the updates of which a link was seen again, and those of which that
    can be told. `siblings` are the other pages known of its site, `togetherness` how often they are
    updated together, and those of all sites (see `model.SiblingCorrelation`).
    """

    page: Page
    updated: list[bool]
    rate_per_day: float
    spread: float
    interval: tuple[float, float] | None
    churn: float
    churning: float
    confirmed: tuple[int, int]
    outlook: Forecast
    siblings: int
    togetherness: tuple[float, float]
    signals: list[PageSignals] = field(default_factory=list)
    period: PeriodRates | None = None
    set_aside: int = 0
    """How many visits are later than now, and not in `page`."""
    cost: VisitCost = field(default_factory=VisitCost)


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
    settings: Set = None,
) -> Records:
    """Show the history of one page, its rate, and what would make it be visited next.

    With --from or --to the rates of that period too, as they changed, as a plot. Of a host, show which
    parts of its links are left out because they change with every request. --csv and --parquet have a
    row for each visit, of a host one for each such part.
    """
    with opened(settings) as (config, state):
        if _HOST.fullmatch(url):
            return host_records(state, url.lower())
        now = config.clock()
        report = _report_of(url, parse_period(since, until), state, config, now)
    return Records(
        rows=lambda: visits_table([report.page]),
        text=lambda: _parts(report, config, now),
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


def report_of(
    page: Page, page_ids: Ids, rows: Rows, state: State, config: Config, now: float
) -> PageReport:
    """Return what is known of a page; `page_ids` and `rows` are those of all pages."""
    estimation = state.estimation
    _, updated, _ = histories([page])
    visit_days, counted, offsets = histories([page], estimation.updates)
    rates, found = estimation.rates([page]), fates([page])
    is_again = (found == LinkLifetime.LASTING) | (found == LinkLifetime.PASSING)
    spread, interval = float(rates.log_sd[0]), None
    # the quantiles are those of a page whose every update is time's
    is_time_s = not rates.churning[0]
    if is_time_s and (estimation.has_posterior or _fell_back(estimation.estimator, spread)):
        gaps = gaps_between(
            visit_days, counted, offsets, estimation.fade_days, baselines_of([page])
        )
        tail = (1 - INTERVAL) / 2
        low, high = bayes_quantiles(gaps, estimation.prior, (tail, 1 - tail))[0].tolist()
        interval = (low, high)
    site = site_id(page.url)
    togetherness = estimation.togetherness
    return PageReport(
        page=page,
        updated=updated.tolist(),
        rate_per_day=float(rates.rate_per_day[0]),
        spread=spread,
        interval=interval,
        churn=float(rates.churn[0]),
        churning=float(rates.churning[0]),
        confirmed=(int(is_again.sum()), int((found != LinkLifetime.UNKNOWN).sum())),
        outlook=outlook_of(page_id_of(page.url), page_ids, rows, state, config.ranking, now),
        siblings=int(np.count_nonzero(rows["site"] == site)) - 1,
        signals=signals_of_page(
            state.store,
            page_id_of(page.url),
            rows[page_ids == page_id_of(page.url)],
            estimation,
        ),
        togetherness=(float(togetherness.of(np.array([site]))[0]), togetherness.overall),
        cost=VisitCost.read(state, page.url),
    )


def _fell_back(estimator: str, spread: float) -> bool:
    return estimator in LOCALIZED and not is_trend(spread)


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


def _estimator(report: PageReport, estimator: str) -> str:
    """Return the name of what the rate comes from: bayes, where a localized rate has too few updates."""
    return "bayes" if _fell_back(estimator, report.spread) else estimator


def _as_json(report: PageReport, estimator: str) -> dict[str, Any]:
    page, outlook = report.page, report.outlook
    times = zip(page.visits, report.updated, page.new_links_by_visit(), strict=True)
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
        "links": len(page.links),
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
        "confirmed": report.confirmed,
        "confirmed_share": confirmed_share(*report.confirmed),
        "rate_is_prior": _is_of_prior(report.page),
        "rate_estimator": _estimator(report, estimator),
        "rate_interval": report.interval,
        "ranked_rate_per_day": outlook.rate_per_day,
        "siblings": report.siblings,
        "togetherness": report.togetherness[0],
        "togetherness_of_all_sites": report.togetherness[1],
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
        "p": outlook.p,
        "raw_p": outlook.raw_p,
        "arm": outlook.arm or None,
        "rank": outlook.rank,
        "ranked": outlook.ranked,
        "hold": outlook.hold.value,
        "p_to_pass": outlook.p_to_pass,
        "next_visit": None if outlook.at is None else iso_text(outlook.at),
    } | ({} if report.period is None else {"period": period_json(report.period)})


def _parts(report: PageReport, config: Config, now: float) -> Iterator[str | Table]:
    yield report.page.url
    facts = (("  " + label, fact) for label, fact in _facts(report, config, now))
    yield facts_table(facts, _LABEL)
    if report.period is not None:
        yield from period_bars(report.period, terminal_width())
    if report.page.visits:
        yield ""
        yield from _visits(report)


def _facts(report: PageReport, config: Config, now: float) -> Iterator[tuple[str, str]]:
    page, outlook = report.page, report.outlook
    updates = sum(report.updated)
    yield "seen", _seen(page, updates, now)
    if report.set_aside:
        yield "set aside", f"{counted(report.set_aside, 'visit')} later than now"
    if page.gone:
        times = counted(page.gone, "time")
        yield "gone", f"404 or 410 answered {times}, last {minute_text(page.last_news)}"
    if page.failures:
        failed = counted(page.failures, "attempt")
        yield "failures", f"{failed} since then failed, the last one {minute_text(page.last_news)}"
    yield from _heard(report)
    yield "rate", _rate(report, config)
    if report.confirmed[1]:
        seen_again, known = report.confirmed
        share = confirmed_share(seen_again, known)
        yield (
            "confirmed",
            f"{seen_again} of {known} updates: a link of theirs was seen again; "
            f"{100 * share:.0f} % are expected to be",
        )
    if report.churning > LEAST_CHURNING:
        yield "churn", _churn(report)
    if config.ranking.counts_siblings:
        yield "siblings", _siblings(report)
    if words := report.cost.words():
        yield "a visit", words
    corrected = "" if outlook.p == outlook.raw_p else f" ({outlook.raw_p:.4f} before calibration)"
    yield "p now", f"{outlook.p:.4f}{corrected}"
    yield "rank", _rank(outlook)
    yield "next visit", _next(outlook, config, now)
    if report.period is not None:
        yield "period", period_summary(report.period)


def _seen(page: Page, updates: int, now: float) -> str:
    if not page.visits:
        return "never"
    last = days_text(max(0.0, now - page.visits[-1]) / DAY)
    echoes = len(set(page.echoes) & set(page.update_times))
    of_site = f" ({updates - echoes} new to the site)" if echoes else ""
    return (
        f"{counted(len(page.visits), 'visit')} kept since {minute_text(page.visits[0])}, "
        f"{updates} with an update{of_site}; "
        f"last {last} ago; {counted(len(page.links), 'link')}"
    )


def _rate(report: PageReport, config: Config) -> str:
    text = f"{report.rate_per_day:.4g} a day: an update every {interval_text(report.rate_per_day)}"
    if report.interval is not None:
        low, high = report.interval
        text += (
            f" ({100 * INTERVAL:.0f} % of the posterior: {interval_text(high)} "
            f"to {interval_text(low)})"
        )
    if _is_of_prior(report.page):
        return f"{text}, expected of any page: a rate of its own takes {VISITS_OF_A_RATE} visits"
    text += f", by {_method(report, config.estimation.estimator)}"
    ranked = report.outlook.rate_per_day
    if not np.isclose(ranked, report.rate_per_day, rtol=0.01):
        text += f"; ranked by {ranked:.4g}, of the time of its last visit"
    return text


def _churn(report: PageReport) -> str:
    text = f"a request shows new links by itself with a chance of {report.churn:.2f}"
    if report.churning < SURE_CHURNING:
        text += (
            f" (unsure: that it does so at all is {100 * report.churning:.0f} % likely; control "
            "visits tell, where there is HACS_BUDGET)"
        )
    return text


def _siblings(report: PageReport) -> str:
    if not report.siblings:
        return "no other page of its site is known"
    own, of_all = report.togetherness
    number = counted(report.siblings, "other page")
    return f"{number} of its site; updated together {own:.2f} (all sites: {of_all:.2f})"


def _heard(report: PageReport) -> Iterator[tuple[str, str]]:
    """Say what archives and signals told of the page."""
    for harvest in report.page.harvests.values():
        until = minute_text(harvest.until)
        yield "archive", f"captures of source {harvest.source:08x} are recorded until {until}"
    for one in report.signals:
        yield one.kind, _signals(one)


def _signals(one: PageSignals) -> str:
    """Say what one kind of signals tells of the page, and how far it is trusted."""
    latest = f"last {minute_text(one.latest)}" if one.latest else "none so far"
    trust = one.trust
    text = (
        f"{counted(one.count, 'signal')} since the last visit, {latest}, "
        f"read {minute_text(one.read)}; "
        f"{100 * trust.recall:.0f} % of this host's updates are signalled, "
        f"{trust.false_per_day:.2g} false signals a page-day"
    )
    if one.likelier <= 1 / SPEAKS:
        return f"{text}; so no update is {1 / one.likelier:.3g} times less likely"
    if one.likelier >= SPEAKS:
        return f"{text}; so no update is {one.likelier:.3g} times likelier"
    return f"{text}; that hardly counts"


def _method(report: PageReport, estimator: str) -> str:
    if _fell_back(estimator, report.spread):
        return f"bayes: {estimator} takes {MIN_POINTS} updates"
    if not is_trend(report.spread):
        return estimator
    points, shape = (float(one) for one in unpacked_trend(report.spread))
    course = "falling" if shape < 0.95 else "rising" if shape > 1.05 else "steady"
    return f"{estimator} in a window of {points:.0f} updates: {course}, shape {shape:.3g}"


def _is_of_prior(page: Page) -> bool:
    """Whether nothing was learned of the page's own rate yet."""
    return len(page.visits) < VISITS_OF_A_RATE


def _rank(outlook: Forecast) -> str:
    of_arm = f" of the arm {outlook.arm}" if outlook.arm else ""
    if outlook.rank is None:
        return f"none among the {outlook.ranked} pages{of_arm} that may be visited"
    return f"{ordinal(outlook.rank)} of {outlook.ranked} pages{of_arm}"


def _next(outlook: Forecast, config: Config, now: float) -> str:
    if outlook.hold is BlockReason.NOTHING:
        return "now, within the budget" if config.ranking.budget else "now"
    if outlook.hold is BlockReason.GONE:
        assert outlook.at is not None  # noqa: S101 - a gone page has a time to wait for
        return f"waits until {minute_text(outlook.at)}: gone"
    threshold = f"the threshold of {config.ranking.threshold:g}"
    bar = (
        threshold
        if outlook.hold is BlockReason.THRESHOLD
        else f"the last page within the budget (p = {outlook.p_to_pass:.4f})"
        if outlook.p_to_pass is not None
        else "the pages within the budget"
    )
    if outlook.at is None:
        return f"cannot be said: it is behind {bar}, and time alone does not change that"
    wait = days_text((outlook.at - now) / DAY)
    return f"in {wait}, {minute_text(outlook.at)}, when it passes {bar}, if all others stay as they are"


def _visits(report: PageReport) -> Iterator[str]:
    page = report.page
    found = list(zip(page.visits, report.updated, page.new_links_by_visit(), strict=True))
    for at, updated, links in found[: -VISITS_SHOWN - 1 : -1]:
        what = (
            f"update, {counted(links, 'new link')}"
            if links
            else "update"
            if updated
            else "nothing new"
        )
        if updated and at in page.echoes:
            what += ", known on other pages of the site"
        if at == page.visits[0]:
            what = "first visit"
        elif at in page.baselines:
            what = "a baseline: other rules of links than before"
        yield f"  {minute_text(at)}   {what}"
    if len(found) > VISITS_SHOWN:
        yield f"  and {len(found) - VISITS_SHOWN} before (--json has all)"


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 21st."""
    last = number % 10 if number % 100 not in (11, 12, 13) else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
