"""The facts known about one page, gathered from the state, and their text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from rich.table import Table

from hacs_crawler.cli.output import chance_text, days_text, interval_text
from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import check_url, menu_id, page_id_of, site_id, without_login
from hacs_crawler.model import (
    LOCALIZED,
    MIN_POINTS,
    LinkLifetime,
    bayes_quantiles,
    confirmed_share,
    gaps_between,
)
from hacs_crawler.parts.rendering.verdicts import (
    PageRendering,
    SiteRendering,
    Verdict,
    advice,
    decoded,
)
from hacs_crawler.ranking.next_visit import BlockReason, Forecast, forecast_of
from hacs_crawler.ranking.plan import read_rows
from hacs_crawler.ranking.signals import PageSignals, signals_of_page
from hacs_crawler.state import (
    VISITS_OF_A_RATE,
    Page,
    State,
    as_of,
    baselines_of,
    histories,
    lifetimes,
)
from hacs_crawler.utils.terminal import Progress, column_table
from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import DAY, minute_text

# Share of the posterior within the interval shown.
INTERVAL: Final = 0.8
SIMILAR_SHOWN: Final = 5
VISITS_SHOWN: Final = 20
LEAST_CHURNING: Final = 0.05
SURE_CHURNING: Final = 0.95
# Factor by which signals change the probability of no update, from which they are called telling.
TELLING: Final = 1.05


@dataclass(frozen=True, slots=True)
class PageFacts:
    """The facts known about a page.

    `updated` says for each visit if it found an update. `rate_per_day` is a fresh estimate by
    `estimator`; `interval` holds `INTERVAL` of its posterior, None without a posterior or if the page
    may churn. `churn` and `churning` are as in `model.Rates`. `confirmed` counts the updates whose
    links were seen again, and all updates for which this is known. `siblings` is the number of other
    known pages of the site, `sibling_correlation` as in `model.sibling_correlation`. `set_aside` visits
    are later than now, `doubtful` ones count once the next visit confirms them: neither are in `page`.
    """

    page: Page
    updated: list[bool]
    rate_per_day: float
    estimator: str
    interval: tuple[float, float] | None
    churn: float
    churning: float
    confirmed: tuple[int, int]
    forecast: Forecast
    siblings: int
    sibling_correlation: float
    set_aside: int = 0
    doubtful: int = 0
    signals: list[PageSignals] = field(default_factory=list)
    rendering: PageRendering = field(default_factory=PageRendering)
    site_rendering: SiteRendering = field(default_factory=SiteRendering)

    @property
    def is_rendered(self) -> bool:
        """Whether the page goes through a browser if HACS_RENDER allows it."""
        return advice(self.rendering, self.site_rendering).rendered

    @property
    def rate_is_prior(self) -> bool:
        """Whether the page has too few visits for a rate of its own."""
        return len(self.page.visits) < VISITS_OF_A_RATE


def facts_of(url: str, state: State, config: Config, now: float) -> PageFacts:
    """Return the facts known about the page of a URL; raises HacsError that says why it lacks them."""
    url = without_login(url)
    problem = check_url(url)
    if problem is not None:
        raise HacsError(f"{url!r} is not a page's URL: {problem}")
    page_id = page_id_of(url)
    stored = state.load([page_id]).get(page_id)
    with Progress("show") as progress:
        page_ids, rows = read_rows(state, progress, now)
    if page_id not in page_ids:
        same_site = page_ids[rows["site"] == site_id(url)][:SIMILAR_SHOWN].tolist()
        similar = ", ".join(page.url for page in state.load(same_site).values())
        hint = f"; of the same site it knows {similar}" if similar else ""
        raise HacsError(f"the state does not know {url} (of {len(page_ids)} pages){hint}")
    if stored is None:
        raise HacsError(f"the record of {url} in the state is damaged")
    if problem := check_url(stored.url):
        raise HacsError(f"no crawl could visit {stored.url}: {problem}")
    past, estimation = as_of(stored, now), state.estimation
    page = past.sound
    rates, of_links = estimation.rates([page]), lifetimes([page])
    is_again = (of_links == LinkLifetime.LASTING) | (of_links == LinkLifetime.PASSING)
    estimator = estimation.estimator
    if estimator in LOCALIZED and histories([page])[1].sum() < MIN_POINTS:
        estimator = "bayes"  # a localized rate takes more updates than the page has
    menu = menu_id(page.url)
    rendering = state.store.annotations(PageRendering.KIND, [page_id]).get(page_id, b"")
    site_rendering = state.store.annotations(SiteRendering.KIND, [menu]).get(menu, b"")
    return PageFacts(
        page=page,
        updated=histories([page])[1].tolist(),
        rate_per_day=float(rates.rate_per_day[0]),
        estimator=estimator,
        interval=_interval(page, state, estimator, may_churn=bool(rates.churning[0])),
        churn=float(rates.churn[0]),
        churning=float(rates.churning[0]),
        confirmed=(int(is_again.sum()), int((of_links != LinkLifetime.UNKNOWN).sum())),
        forecast=forecast_of(page_id, page_ids, rows, state, config.ranking, now),
        siblings=int(np.count_nonzero(rows["site"] == site_id(page.url))) - 1,
        sibling_correlation=estimation.sibling_correlation,
        set_aside=len(stored.visits) - len(past.visits),
        doubtful=len(past.visits) - len(page.visits),
        signals=signals_of_page(state.store, page_id, rows[page_ids == page_id], estimation),
        rendering=decoded(PageRendering, rendering),
        site_rendering=decoded(SiteRendering, site_rendering),
    )


def _interval(
    page: Page, state: State, estimator: str, *, may_churn: bool
) -> tuple[float, float] | None:
    """Return the interval of the rate's posterior, which takes every update for time's; else None."""
    estimation = state.estimation
    if may_churn or not (estimation.has_posterior or estimator != estimation.estimator):
        return None
    days, counted, offsets = histories([page])
    gaps = gaps_between(days, counted, offsets, estimation.fade_days, baselines_of([page]))
    tail = (1 - INTERVAL) / 2
    low, high = bayes_quantiles(gaps, estimation.prior, (tail, 1 - tail))[0].tolist()
    return low, high


def page_text(facts: PageFacts, config: Config, now: float) -> Iterator[str | Table]:
    """Yield the lines and tables that show a page at `now`."""
    yield facts.page.url
    labels, lines = zip(*_lines(facts, config, now), strict=True)
    yield column_table(
        {"": [f"  {label}" for label in labels], " ": lines}, (" ", ""), has_head=False
    )
    if facts.page.visits:
        yield ""
        yield from _visits(facts)


def _lines(facts: PageFacts, config: Config, now: float) -> Iterator[tuple[str, str]]:
    page, forecast = facts.page, facts.forecast
    updates = sum(facts.updated)
    yield "seen", _seen(page, updates, now)
    if facts.set_aside:
        yield "set aside", f"{counted(facts.set_aside, 'visit')} later than now"
    if facts.doubtful:
        yield (
            "doubtful",
            f"{counted(facts.doubtful, 'visit')} that showed hardly anything of the page, and count if "
            "the next confirms them",
        )
    yield from _news(facts)
    yield "rate", _rate(facts, config)
    if facts.confirmed[1]:
        seen_again, confirmable = facts.confirmed
        share = 100 * confirmed_share(seen_again, confirmable)
        shown = f"{seen_again} of {confirmable} changes brought {config.noun}s that were seen again"
        yield "confirmed", f"{shown}; {share:.0f} % are expected to"
    if facts.churning > LEAST_CHURNING:
        yield "churn", _churn(facts, config)
    if config.ranking.counts_siblings:
        yield "siblings", _siblings(facts)
    if words := visit_text(facts.rendering, facts.site_rendering):
        yield "a visit", words
    yield "p now", chance_text(forecast.p)
    if forecast.rank is None:
        yield "rank", f"none: it is not among the {forecast.ranked} pages that may be visited"
    else:
        yield "rank", f"{ordinal(forecast.rank)} of {forecast.ranked} pages"
    yield "next visit", _next(forecast, config, now)


def _news(facts: PageFacts) -> Iterator[tuple[str, str]]:
    """Yield the evidence since the last visit, or before the first one."""
    page = facts.page
    if page.gone:
        times = counted(page.gone, "time")
        yield "gone", f"404 or 410 answered {times}, last {minute_text(page.last_news)}"
    if page.failures:
        failed = counted(page.failures, "attempt")
        yield "failures", f"{failed} since then failed, the last one {minute_text(page.last_news)}"
    for harvest in page.harvests.values():
        until = minute_text(harvest.until)
        yield "archive", f"captures of source {harvest.source:08x} are recorded until {until}"
    for signals in facts.signals:
        yield signals.kind, _signals(signals)


def _seen(page: Page, updates: int, now: float) -> str:
    if not page.visits:
        return "never"
    last = days_text(max(0.0, now - page.visits[-1]) / DAY)
    echoes = len(set(page.echoes) & set(page.update_times))
    of_site = f" ({updates - echoes} new to the site)" if echoes else ""
    return (
        f"{counted(len(page.visits), 'visit')} kept since {minute_text(page.visits[0])}, "
        f"{updates} with an update{of_site}; "
        f"last {last} ago; {counted(len(page.spells.marks), page.noun)}"
    )


def _rate(facts: PageFacts, config: Config) -> str:
    text = f"{facts.rate_per_day:.4g} a day: an update every {interval_text(facts.rate_per_day)}"
    if facts.interval is not None:
        low, high = facts.interval
        text += (
            f" ({100 * INTERVAL:.0f} % of the posterior: {interval_text(high)} "
            f"to {interval_text(low)})"
        )
    if facts.rate_is_prior:
        return f"{text}, the prior: a rate of its own takes {VISITS_OF_A_RATE} visits"
    text += f", by {_method(facts, config.estimation.estimator)}"
    ranked = facts.forecast.rate_per_day
    if not np.isclose(ranked, facts.rate_per_day, rtol=0.01):
        text += f"; ranked by {ranked:.4g}, estimated at its last visit"
    return text


def _churn(facts: PageFacts, config: Config) -> str:
    text = f"a request shows new {config.noun}s by itself with probability {facts.churn:.2f}"
    if facts.churning < SURE_CHURNING:
        text += (
            f" ({100 * facts.churning:.0f} % likely to do so at all; with HACS_BUDGET set, control "
            "visits will show)"
        )
    return text


def _siblings(facts: PageFacts) -> str:
    if not facts.siblings:
        return "no other page of its site is known"
    number = counted(facts.siblings, "other page")
    together = f"pages of a site are updated together: {facts.sibling_correlation:.2f}"
    return f"{number} of its site; {together}"


def _signals(signals: PageSignals) -> str:
    """Return what one kind of signals says about the page, and how far it is trusted."""
    latest = f"last {minute_text(signals.latest)}" if signals.latest else "none so far"
    trust = signals.trust
    text = (
        f"{counted(signals.count, 'signal')} since the last visit, {latest}, "
        f"read {minute_text(signals.read)}; "
        f"{100 * trust.recall:.0f} % of this host's updates are signalled, "
        f"{trust.false_per_day:.2g} false signals per page and day"
    )
    if signals.likelier <= 1 / TELLING:
        return f"{text}; this makes no update {1 / signals.likelier:.3g} times less likely"
    if signals.likelier >= TELLING:
        return f"{text}; this makes no update {signals.likelier:.3g} times likelier"
    return f"{text}; this hardly matters"


def _method(facts: PageFacts, estimator: str) -> str:
    if facts.estimator != estimator:
        return f"{facts.estimator}: {estimator} takes {MIN_POINTS} updates"
    return estimator


def _next(forecast: Forecast, config: Config, now: float) -> str:
    if forecast.reason is BlockReason.NOTHING:
        bounds = ("budget", config.ranking.budget), ("threshold", config.ranking.threshold)
        bound = " and ".join(f"the {name}" for name, value in bounds if value)
        return (
            f"in the next crawl, within {bound}" if bound else "in the next crawl, like all pages"
        )
    if forecast.reason is BlockReason.GONE:
        assert forecast.at is not None  # noqa: S101 - a gone page has a time to wait for
        return f"waits until {minute_text(forecast.at)}: gone"
    if forecast.reason is BlockReason.EARLY:
        assert forecast.at is not None  # noqa: S101 - the shortest interval ends
        return f"not before {minute_text(forecast.at)}: HACS_EVERY"
    threshold = f"the threshold of {config.ranking.threshold:g}"
    bar = (
        threshold
        if forecast.reason is BlockReason.THRESHOLD
        else f"the last page within the budget (p = {forecast.p_to_pass:.4f})"
        if forecast.p_to_pass is not None
        else "the pages within the budget"
    )
    if forecast.at is None:
        return f"unknown: it is behind {bar}, and time alone does not change that"
    wait = days_text((forecast.at - now) / DAY)
    return f"in {wait}, {minute_text(forecast.at)}, when it passes {bar}, if no other page changes"


def _visits(facts: PageFacts) -> Iterator[str]:
    page = facts.page
    visits = list(zip(page.visits, facts.updated, page.new_marks_by_visit(), strict=True))
    new = f"new {page.noun}"
    for at, updated, links in visits[: -VISITS_SHOWN - 1 : -1]:
        what = f"update, {counted(links, new)}" if links else "update" if updated else "nothing new"
        if updated and at in page.echoes:
            what += ", known on other pages of the site"
        if at == page.visits[0]:
            what = "first visit"
        elif at in page.baselines:
            what = "a baseline: the rules for links had changed"
        yield f"  {minute_text(at)}   {what}"
    if len(visits) > VISITS_SHOWN:
        yield f"  and {len(visits) - VISITS_SHOWN} before (--json has all)"


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 21st."""
    last = number % 10 if number % 100 not in (11, 12, 13) else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def visit_text(page: PageRendering, site: SiteRendering) -> str:
    """Return whether a visit needs a browser; empty if that is not known."""
    if page.verdict is Verdict.BROWSER:
        return "a browser shows links that the plain answer lacks"
    if page.verdict is Verdict.PLAIN:
        return "a browser shows no more links than the plain answer"
    return "the site's other pages need a browser" if advice(page, site).rendered else ""
