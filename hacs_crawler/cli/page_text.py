"""The text of `hacs show`: a page's facts and its visits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from rich.table import Table

from hacs_crawler.cli.page_report import INTERVAL, PageReport
from hacs_crawler.cli.period import period_bars, period_summary
from hacs_crawler.cli.text import chance_text, days_text, interval_text
from hacs_crawler.config import Config
from hacs_crawler.model import MIN_POINTS, confirmed_share, is_trend, unpacked_trend
from hacs_crawler.ranking.next_visit import BlockReason, Forecast
from hacs_crawler.ranking.signals import PageSignals
from hacs_crawler.state import VISITS_OF_A_RATE, Page
from hacs_crawler.utils.terminal import facts_table, terminal_width
from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import DAY, minute_text

VISITS_SHOWN: Final = 20
_LABEL: Final = 13
"""How wide the column is that says what a fact is about."""
LEAST_CHURNING: Final = 0.05
SURE_CHURNING: Final = 0.95
SPEAKS: Final = 1.05
"""By what factor signals change what is believed of a page, to be called telling."""


def page_text(report: PageReport, config: Config, now: float) -> Iterator[str | Table]:
    """Yield the lines and tables that show a page at `now`."""
    yield report.page.url
    facts = (("  " + label, fact) for label, fact in _facts(report, config, now))
    yield facts_table(facts, _LABEL)
    if report.period is not None:
        yield from period_bars(report.period, terminal_width())
    if report.page.visits:
        yield ""
        yield from _visits(report)


def _facts(report: PageReport, config: Config, now: float) -> Iterator[tuple[str, str]]:
    page, forecast = report.page, report.forecast
    updates = sum(report.updated)
    yield "seen", _seen(page, updates, now)
    if report.set_aside:
        yield "set aside", f"{counted(report.set_aside, 'visit')} later than now"
    yield from _absences(page)
    yield from _heard(report)
    yield "rate", _rate(report, config)
    if config.estimation.has_bursts and not report.rate_is_prior:
        yield "updates", _course(report)
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
    yield "p now", chance_text(forecast.p)
    yield "rank", _rank(forecast)
    yield "next visit", _next(forecast, config, now)
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
        f"last {last} ago; {counted(len(page.marks), 'mark' if page.keeps_spells else 'link')}"
    )


def _absences(page: Page) -> Iterator[tuple[str, str]]:
    if page.gone:
        times = counted(page.gone, "time")
        yield "gone", f"404 or 410 answered {times}, last {minute_text(page.last_news)}"
    if page.failures:
        failed = counted(page.failures, "attempt")
        yield "failures", f"{failed} since then failed, the last one {minute_text(page.last_news)}"


def _rate(report: PageReport, config: Config) -> str:
    text = f"{report.rate_per_day:.4g} a day: an update every {interval_text(report.rate_per_day)}"
    if report.interval is not None:
        low, high = report.interval
        text += (
            f" ({100 * INTERVAL:.0f} % of the posterior: {interval_text(high)} "
            f"to {interval_text(low)})"
        )
    if report.rate_is_prior:
        return f"{text}, expected of any page: a rate of its own takes {VISITS_OF_A_RATE} visits"
    text += f", by {_method(report, config.estimation.estimator)}"
    ranked = report.forecast.rate_per_day
    if not np.isclose(ranked, report.rate_per_day, rtol=0.01):
        text += f"; ranked by {ranked:.4g}, of the time of its last visit"
    return text


def _course(report: PageReport) -> str:
    if report.burst_since is None:
        return "steady: in no burst at the last visit"
    return f"in a burst since {minute_text(report.burst_since)}, when a visit found the first of it"


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
    number = counted(report.siblings, "other page")
    together = f"pages of a site are updated together: {report.sibling_correlation:.2f}"
    return f"{number} of its site; {together}"


def _heard(report: PageReport) -> Iterator[tuple[str, str]]:
    """Say what archives and signals told of the page."""
    for harvest in report.page.harvests.values():
        until = minute_text(harvest.until)
        yield "archive", f"captures of source {harvest.source:08x} are recorded until {until}"
    for signals in report.signals:
        yield signals.kind, _signals(signals)


def _signals(signals: PageSignals) -> str:
    """Say what one kind of signals tells of the page, and how far it is trusted."""
    latest = f"last {minute_text(signals.latest)}" if signals.latest else "none so far"
    trust = signals.trust
    text = (
        f"{counted(signals.count, 'signal')} since the last visit, {latest}, "
        f"read {minute_text(signals.read)}; "
        f"{100 * trust.recall:.0f} % of this host's updates are signalled, "
        f"{trust.false_per_day:.2g} false signals a page-day"
    )
    if signals.likelier <= 1 / SPEAKS:
        return f"{text}; so no update is {1 / signals.likelier:.3g} times less likely"
    if signals.likelier >= SPEAKS:
        return f"{text}; so no update is {signals.likelier:.3g} times likelier"
    return f"{text}; that hardly counts"


def _method(report: PageReport, estimator: str) -> str:
    if report.estimator(estimator) != estimator:
        return f"bayes: {estimator} takes {MIN_POINTS} updates"
    if not is_trend(report.spread):
        return estimator
    points, shape = (float(number) for number in unpacked_trend(report.spread))
    course = "falling" if shape < 0.95 else "rising" if shape > 1.05 else "steady"
    return f"{estimator} in a window of {points:.0f} updates: {course}, shape {shape:.3g}"


def _rank(forecast: Forecast) -> str:
    of_arm = f" of the arm {forecast.arm}" if forecast.arm else ""
    if forecast.rank is None:
        return f"none among the {forecast.ranked} pages{of_arm} that may be visited"
    return f"{ordinal(forecast.rank)} of {forecast.ranked} pages{of_arm}"


def _next(forecast: Forecast, config: Config, now: float) -> str:
    if forecast.reason is BlockReason.NOTHING:
        bounds = ("budget", config.ranking.budget), ("threshold", config.ranking.threshold)
        bound = " and ".join(f"the {name}" for name, value in bounds if value)
        return (
            f"in the next crawl, within {bound}" if bound else "in the next crawl, as of all pages"
        )
    if forecast.reason is BlockReason.GONE:
        assert forecast.at is not None  # noqa: S101 - a gone page has a time to wait for
        return f"waits until {minute_text(forecast.at)}: gone"
    threshold = f"the threshold of {config.ranking.threshold:g}"
    bar = (
        threshold
        if forecast.reason is BlockReason.THRESHOLD
        else f"the last page within the budget (p = {forecast.p_to_pass:.4f})"
        if forecast.p_to_pass is not None
        else "the pages within the budget"
    )
    if forecast.at is None:
        return f"cannot be said: it is behind {bar}, and time alone does not change that"
    wait = days_text((forecast.at - now) / DAY)
    return f"in {wait}, {minute_text(forecast.at)}, when it passes {bar}, if all others stay as they are"


def _visits(report: PageReport) -> Iterator[str]:
    page = report.page
    found = list(zip(page.visits, report.updated, page.new_marks_by_visit(), strict=True))
    new = "new mark" if page.keeps_spells else "new link"
    for at, updated, links in found[: -VISITS_SHOWN - 1 : -1]:
        what = f"update, {counted(links, new)}" if links else "update" if updated else "nothing new"
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
