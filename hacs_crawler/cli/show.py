"""`hacs show`: the history of a page, or the changing links of a host."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import typer
from rich.table import Table

from hacs_crawler.analysis import check_host
from hacs_crawler.cli.common import Set, Shards, opened
from hacs_crawler.cli.output import (
    Json,
    chance_text,
    days_text,
    interval_text,
    show as print_all,
    show_json,
)
from hacs_crawler.config import Config
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import (
    VolatileLinkParts,
    check_url,
    menu_id,
    page_id_of,
    site_id,
    without_login,
)
from hacs_crawler.model import LOCALIZED, MIN_POINTS, Visits, bayes_quantiles
from hacs_crawler.parts.rendering.verdicts import (
    PageRendering,
    SiteRendering,
    advice,
    decoded,
    visit_text,
)
from hacs_crawler.ranking.plan import BlockReason, Forecast, forecast_of, read_rows
from hacs_crawler.ranking.signals import PageSignals, signals_of_page
from hacs_crawler.shards import plan_of_all, state_of
from hacs_crawler.state import (
    VISITS_OF_A_RATE,
    Page,
    State,
    as_of,
    baselines_of,
    histories,
    lost_at,
    noun_of,
    read_volatile_parts,
)
from hacs_crawler.utils.terminal import Progress, column_table
from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import DAY, iso_text, minute_text
from hacs_crawler.watch import ONLY_REQUESTS

_HOST: Final = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::\d+)?")
# Share of the posterior within the interval shown.
INTERVAL: Final = 0.8
SIMILAR_SHOWN: Final = 5
VISITS_SHOWN: Final = 20
LEAST_CHURNING: Final = 0.05
SURE_CHURNING: Final = 0.95
# Signals that change the probability of no update by less than this factor hardly matter.
TELLING: Final = 1.05


def show(
    url: Annotated[
        str, typer.Argument(help="a page's URL, or a host for the parts left out of its links")
    ],
    json: Json = False,
    shards: Shards = None,
    settings: Set = None,
) -> None:
    """Show a page's history and rate, and when it will be visited next.

    For a host, list the parts of its links that are left out because they change with every request.
    """
    url = url.strip("\"'<> ")  # copied from a file of seeds, or a mail
    is_host = _HOST.fullmatch(url)
    if not is_host and "://" not in url and _HOST.match(url):
        url = f"http://{url}"
    with opened(settings, shards) as (config, opened_state):
        if is_host:
            state, host = state_of(opened_state, f"http://{url}/"), url.lower()
            parts = read_volatile_parts(state).get(host, VolatileLinkParts(host))
            if not parts.parts and not parts.suspected:
                check_host(state, host)
            document, text = {"host": host, **parts.to_json()}, _host_text(parts)
        else:
            now = config.clock()
            facts = facts_of(url, opened_state, config, now)
            document, text = facts.document, _page_text(facts, config, now)
    if json:
        show_json(document)
    else:
        print_all(*text)


def _host_text(volatile: VolatileLinkParts) -> Iterator[str | Table]:
    yield volatile.host
    if not volatile.parts and not volatile.suspected:
        yield "  nothing is left out of its links"
    for parts, said in (
        (volatile.parts, "left out of its links, because each control visit showed other ones"),
        (volatile.suspected, "may be left out after another control visit"),
    ):
        if parts:
            yield f"  {said}: {', '.join(map(str, sorted(parts)))}"
    if volatile.parts:
        yield f"  `hacs forget {volatile.host}` counts them again"


class PageFacts(NamedTuple):
    """The facts about a page; `document` has all of them under the names of `--json`."""

    page: Page
    forecast: Forecast
    signals: list[PageSignals]
    visit: str
    document: dict[str, Any]


def facts_of(url: str, opened_state: State, config: Config, now: float) -> PageFacts:
    """Return the facts about a URL's page; raises HacsError with the reason why they are missing.

    `opened_state` may be several shards read as one, among which the page is ranked.
    """
    state = state_of(opened_state, url)
    url = without_login(url)
    if problem := check_url(url):
        raise HacsError(f"{url!r} is not a page's URL: {problem}")
    page_id = page_id_of(url)
    stored = state.load([page_id]).get(page_id)
    with Progress("show") as progress:
        page_ids, rows = read_rows(state, progress, now)
    own = rows[page_ids == page_id]
    is_sibling = rows["site"] == (own["site"] if len(own) else site_id(url))
    siblings = page_ids[is_sibling], rows[is_sibling]
    if not len(own):
        known = state.load(siblings[0][:SIMILAR_SHOWN].tolist())
        similar = ", ".join(page.url for page in known.values())
        hint = f"; of the same site it knows {similar}" if similar else ""
        pages = counted(opened_state.store.count(), "page")
        raise HacsError(f"the state does not know {url} (of {pages}){hint}")
    if stored is None:
        raise HacsError(f"the record of {url} in the state is damaged")
    if problem := check_url(stored.url):
        raise HacsError(f"no crawl could visit {stored.url}: {problem}")
    past, estimation = as_of(stored, now), state.estimation
    page = past.sound
    rates = estimation.rates([page])
    others = {*past.visits}.difference(page.visits)
    # a later visit that showed the page has decided
    unread = others.intersection(past.unread) | {at for at in others if at < (page.last_visit or 0)}
    updated = histories([page])[1].tolist()
    estimator = estimation.estimator
    if estimator in LOCALIZED and sum(updated) < MIN_POINTS:
        estimator = "bayes"  # the page has too few updates for a localized rate
    menu = menu_id(page.url)
    of_page = state.store.annotations(PageRendering.KIND, [page_id]).get(page_id, b"")
    of_site = state.store.annotations(SiteRendering.KIND, [menu]).get(menu, b"")
    rendering = decoded(PageRendering, of_page), decoded(SiteRendering, of_site)
    unbounded = replace(config.ranking, budget=None)
    whole = plan_of_all(opened_state, unbounded, now, ids_and_rows=(page_ids, rows))
    forecast = forecast_of(page_id, siblings, state, config.ranking, now, whole)
    signals = signals_of_page(state.store, page_id, own, estimation)
    visits = zip(page.visits, updated, page.new_marks_by_visit(), strict=True)
    document = {
        "url": page.url,
        "visits": [
            {
                "at": iso_text(at),
                "is_update": is_update,
                "is_new_to_site": is_update and at not in page.echoes,
                "new_links": links,
            }
            for at, is_update, links in visits
        ],
        "visits_set_aside": len(stored.visits) - len(past.visits),
        "visits_doubtful": len(others - unread),
        "visits_unread": len(unread),
        "links": len({*page.spells.marks}),
        "gone": page.gone,
        "failures": page.failures,
        "last_news": iso_text(page.last_news),
        "not_before": iso_text(page.not_before),
        "harvests": [
            {"source": f"{harvest.source:08x}", "until": iso_text(harvest.until)}
            for harvest in page.harvests.values()
        ],
        "rate_per_day": float(rates.rate_per_day[0]),
        "churn": float(rates.churn[0]),
        "churning": float(rates.churning[0]),
        "rate_is_prior": len(page.visits) < VISITS_OF_A_RATE,
        "rate_estimator": estimator,
        "rate_interval": _interval(page, state, estimator, may_churn=bool(rates.churning[0])),
        "ranked_rate_per_day": forecast.rate_per_day,
        "siblings": len(siblings[0]) - 1,
        "sibling_correlation": estimation.sibling_correlation,
        "rendered": advice(*rendering).rendered,
        "signals": [
            {**asdict(signal), "latest": iso_text(signal.latest), "read": iso_text(signal.read)}
            for signal in signals
        ],
        "p": forecast.p,
        "p_without_siblings": forecast.p_alone,
        "rank": forecast.rank,
        "ranked": forecast.ranked,
        "reason": forecast.reason.value,
        "p_to_pass": forecast.p_to_pass,
        "next_visit": iso_text(forecast.at),
    }
    return PageFacts(page, forecast, signals, visit_text(*rendering), document)


def _interval(
    page: Page, state: State, estimator: str, *, may_churn: bool
) -> tuple[float, float] | None:
    """Return the interval of the rate's posterior; None if it is unknown or updates may be churn."""
    estimation = state.estimation
    if may_churn or not (estimation.has_posterior or estimator != estimation.estimator):
        return None
    visits = Visits(*histories([page]), estimation.fade_days, baselines_of([page]))
    tail = (1 - INTERVAL) / 2
    low, high = bayes_quantiles(visits.gaps(), estimation.prior, (tail, 1 - tail))[0].tolist()
    return low, high


def _page_text(facts: PageFacts, config: Config, now: float) -> Iterator[str | Table]:
    yield facts.page.url
    labels, lines = zip(*_lines(facts, config, now), strict=True)
    yield column_table(
        {"": [f"  {label}" for label in labels], " ": lines}, (" ", ""), has_head=False
    )
    if facts.page.visits:
        yield ""
        yield from _visits(facts, config)


def _lines(facts: PageFacts, config: Config, now: float) -> Iterator[tuple[str, str]]:
    forecast, document = facts.forecast, facts.document
    yield "seen", _seen(facts, config, now)
    yield from _news(facts)
    yield "rate", _rate(document, config)
    if document["churning"] > LEAST_CHURNING:
        chance = f"{document['churn']:.2f}"
        text = f"a request shows new {config.noun}s by itself with probability {chance}"
        if document["churning"] < SURE_CHURNING:
            likely = f"{100 * document['churning']:.0f} % likely to do so at all"
            text += f" ({likely}; with HACS_BUDGET set, control visits will show)"
        yield "churn", text
    if config.ranking.counts_siblings:
        # probabilities of nearly 0 count as equal
        effect = _effect("an update", (forecast.p + 1e-6) / (forecast.p_alone + 1e-6))
        text = (
            f"{counted(document['siblings'], 'other page')} of its site; pages of a site are updated "
            f"together: {document['sibling_correlation']:.2f}; their history {effect}"
        )
        yield "siblings", text if document["siblings"] else "no other page of its site is known"
    if facts.visit:
        yield "a visit", facts.visit
    is_halved = config.ranking.ranks_by_p and forecast.p_halved < forecast.p
    halved = f", ranked as {chance_text(forecast.p_halved)}: failed attempts halve it"
    yield "p now", chance_text(forecast.p) + halved * is_halved
    if forecast.rank is None:
        yield "rank", f"none: it is not among the {forecast.ranked} pages that may be visited"
    else:
        yield "rank", f"{forecast.rank} of {forecast.ranked} pages"
    yield "next visit", _next(forecast, config, now)


def _news(facts: PageFacts) -> Iterator[tuple[str, str]]:
    """Yield visits that do not count, failures, and captures."""
    page, document = facts.page, facts.document
    for name, said in {
        "set aside": "later than now",
        "doubtful": "that lacked a quarter or more of what the page had shown: the next one decides",
        "unread": "that did not show the page, or a change that the next one confirmed",
    }.items():
        if visits := document[f"visits_{name.replace(' ', '_')}"]:
            yield name, f"{counted(visits, 'visit')} {said}"
    if page.gone:
        gone = f"404 or 410 answered {counted(page.gone, 'time')}"
        yield "gone", f"{gone}, last {minute_text(page.last_news)}"
    if page.failures:
        failed = counted(page.failures, "attempt") + " since then" * bool(page.visits)
        yield "failures", f"{failed} failed, the last one {minute_text(page.last_news)}"
    for harvest in page.harvests.values():
        until = minute_text(harvest.until)
        yield "archive", f"captures of source {harvest.source:08x} are recorded until {until}"
    for signals in facts.signals:
        yield signals.kind, _signals(signals)


def _seen(facts: PageFacts, config: Config, now: float) -> str:
    page, visits = facts.page, facts.document["visits"]
    if not visits:
        return "never"
    updates = sum(visit["is_update"] for visit in visits)
    new_to_site = sum(visit["is_new_to_site"] for visit in visits)
    of_site = f" ({new_to_site} new to the site)" if new_to_site < updates else ""
    nouns = {_noun(rules, config) for rules in page.rule_changes.values() if rules}
    noun = "mark" if len(nouns) > 1 else next(iter(nouns), config.noun)
    return (
        f"{counted(len(visits), 'visit')} kept since {minute_text(page.visits[0])}, "
        f"{updates} with an update{of_site}; "
        f"last {days_text(max(0.0, now - page.visits[-1]) / DAY)} ago; "
        f"{counted(facts.document['links'], noun)} so far"
    )


def _noun(rules: int, config: Config) -> str:
    nouns = {config.rules.fingerprint: config.noun, ONLY_REQUESTS.fingerprint: "request"}
    return nouns.get(rules, noun_of(rules))


def _rate(document: dict[str, Any], config: Config) -> str:
    rate, estimator = document["rate_per_day"], document["rate_estimator"]
    text = f"{rate:.4g} a day: an update every {interval_text(rate)}"
    if document["rate_interval"] is not None:
        low, high = map(interval_text, document["rate_interval"])
        text += f" ({100 * INTERVAL:.0f} % of the posterior: {high} to {low})"
    if document["rate_is_prior"]:
        return f"{text}, the prior: a rate of its own takes {VISITS_OF_A_RATE} visits"
    text += f", by {estimator}"
    if estimator != config.estimation.estimator:
        text += f": {config.estimation.estimator} takes {MIN_POINTS} updates"
    ranked = document["ranked_rate_per_day"]
    if not np.isclose(ranked, rate, rtol=0.01):
        text += f"; ranked by {ranked:.4g}, estimated at its last visit"
    return text


def _effect(event: str, factor: float) -> str:
    """Say how a factor changes the probability of an event."""
    times, word = (factor, "likelier") if factor > 1 else (1 / factor, "less likely")
    much = f"{times:.3g}" if times <= 100 else "more than 100"
    return f"makes {event} {much} times {word}" if times >= TELLING else "hardly changes p"


def _signals(signals: PageSignals) -> str:
    """Describe a page's signals of one kind, and how reliable they are."""
    latest = f"last {minute_text(signals.latest)}" if signals.latest else "none so far"
    return (
        f"{counted(signals.count, 'signal')} since the last visit, {latest}, "
        f"read {minute_text(signals.read)}; "
        f"{100 * signals.trust.recall:.0f} % of this host's updates are signalled, "
        f"{signals.trust.false_per_day:.2g} false signals per page and day; "
        f"this {_effect('no update', signals.likelier)}"
    )


def _next(forecast: Forecast, config: Config, now: float) -> str:
    reason, ranking = forecast.reason, config.ranking
    if reason is BlockReason.NOTHING:
        bounds = ("budget", ranking.budget), ("threshold", ranking.least_p)
        bound = " and ".join(f"the {name}" for name, value in bounds if value)
        hint = " (with HACS_REVISIT, any does)" * (config.repeats_requests and not config.revisit)
        return f"in the next crawl that requests it{hint}{f', within {bound}' * bool(bound)}"
    at = minute_text(forecast.at or 0)
    if reason is BlockReason.EARLY:
        return f"not before {at}: HACS_EVERY"
    if reason is BlockReason.GONE:
        asked = "when a crawl requests it; with a budget " * (not ranking.leaves_out)
        return f"{asked}not before {at}: it is gone"
    bar = "the pages within the budget"
    if reason is BlockReason.THRESHOLD:
        bar = f"the threshold of {ranking.threshold:g}"
    elif forecast.p_to_pass is not None:
        bar = f"the last page within the budget (p = {forecast.p_to_pass:.4f})"
    if forecast.at is None:
        return f"unknown: it is behind {bar}, and time alone does not change that"
    wait = days_text((forecast.at - now) / DAY)
    return f"in {wait}, {at}, when it passes {bar}, if no other page changes"


def _visits(facts: PageFacts, config: Config) -> Iterator[str]:
    page, rules = facts.page, facts.page.by_visit()[1]
    visits = list(zip(page.visits, facts.document["visits"], strict=True))
    for at, visit in visits[: -VISITS_SHOWN - 1 : -1]:
        noun = _noun(rules[at] or page.latest_rules, config)
        what = "update" if visit["is_update"] else "nothing new"
        if visit["new_links"]:
            kind = "new or changed" if noun == "item" else "new"
            what = f"update, {counted(visit['new_links'], f'{kind} {noun}')}"
        elif visit["is_update"] and (lost := lost_at(page, at)):
            what = f"update, {counted(lost, noun)} gone"
        if visit["is_update"] and not visit["is_new_to_site"]:
            what += ", known from other pages of the site"
        if at == page.visits[0]:
            what = "first visit"
        elif at in page.baselines:
            what = "a baseline: what is watched had changed"
        yield f"  {minute_text(at)}   {what}"
    if len(visits) > VISITS_SHOWN:
        yield f"  and {len(visits) - VISITS_SHOWN} before (--json has all)"
