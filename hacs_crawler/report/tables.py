"""The tables of a report: titles, formats, values and explanations of their columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from hacs_crawler.model import CHURNING
from hacs_crawler.ranking.calibration import Group
from hacs_crawler.ranking.plan import Plan
from hacs_crawler.report.numbers import short, updates_of
from hacs_crawler.state import Findings, Page, State, lost_at, trusted_sources
from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import day_text
from hacs_crawler.watch import ONLY_REQUESTS

# How many updates are listed.
NEWEST: Final = 100


class Column(NamedTuple):
    """A column; `words` explain its values.

    `kind` is their format: "text", "number", "p", "share", "days", "bytes", "things" (texts), "page" (an
    index into the list of pages), "every" (a rate per day), "time" and "ago" (seconds since 1970).
    """

    title: str
    kind: str
    values: Sequence[Any]
    words: str


Table = list[Column]


def pages_table(
    pages: Mapping[int, Page], plan: Plan, chance: Mapping[int, float], now: float
) -> Table:
    """Return a row for each page, in their order."""
    shown = list(pages.values())
    places = np.flatnonzero(np.isin(plan.page_ids, list(pages)))
    rank = {plan.page_ids[index]: int(index) + 1 for index in places}
    rates = [short(page.rate) if len(page.visits) > 1 else None for page in shown]
    numbers = [len(updates_of(page)) for page in shown]
    return [
        Column("Page", "page", list(range(len(shown))), "Click for its history"),
        Column("Next", "number", [*map(rank.get, pages)], "Its place in the plan"),
        Column("p", "p", [*map(short, map(chance.get, pages))], "The chance of an update"),
        Column("Updates", "every", rates, "As estimated, from the second visit on"),
        Column("Last visit", "ago", [page.last_visit for page in shown], "When it was last seen"),
        Column("Last update", "ago", [page.last_update for page in shown], "Its latest update"),
        Column("Visits", "number", [len(page.visits) for page in shown], "Visits that saw it"),
        Column("Found", "number", numbers, "Visits with an update"),
        Column("Status", "text", [_status(page, now) for page in shown], "Problems, if any"),
    ]


def _status(page: Page, now: float) -> str:
    if page.not_before > now:
        return f"gone, left alone until {day_text(page.not_before)}"
    if page.failures:
        return f"failed {counted(page.failures, 'time')}"
    if page.churn >= CHURNING:
        return "changes at every request"
    return "" if page.visits else "never seen"


def newest_table(pages: Mapping[int, Page], findings: Mapping[int, Findings], noun: str) -> Table:
    """Return the latest updates, newest first, with their findings as text."""
    shown, ids = list(pages.values()), list(pages)
    updated = [index for index, page in enumerate(shown) if updates_of(page)]
    latest = sorted(updated, key=lambda index: shown[index].last_update or 0, reverse=True)[:NEWEST]
    things = {at: _newest(shown[at], findings.get(ids[at], Findings()), noun) for at in latest}
    return [
        Column("Page", "page", latest, "Click for its history"),
        Column("What", "things", list(things.values()), "What was new"),
        Column("Found", "ago", [shown[index].last_update for index in latest], "By a visit"),
    ]


def _newest(page: Page, findings: Findings, noun: str) -> list[str]:
    new = list(updates_of(page).values())[-1]
    noun = "request" if page.latest_rules == ONLY_REQUESTS.fingerprint else noun
    things = [thing for thing in findings.things if thing.at == page.last_update]
    if not things:
        lost = lost_at(page, page.last_update or 0)
        return [
            counted(new, noun) if new else f"{counted(lost, noun)} gone" if lost else "its content"
        ]
    more = new - len(things)
    said = [f"{one.text}{f', was {one.was}' * bool(one.was)} {one.url}".strip() for one in things]
    return [*said, *([f"and {more:,} more"] if more > 0 else [])]


def runs_table(columns: Mapping[str, list[Any]], marks: str) -> Table:
    """Return the yield of each run, latest first, by policy; `marks` is a plural noun."""
    runs = {name: values[::-1] for name, values in columns.items()}
    per_100 = [
        round(100 * updates / (visits - firsts), 1) if visits > firsts else None
        for updates, visits, firsts in zip(
            runs["updates"], runs["visits"], runs["firsts"], strict=True
        )
    ]
    return [
        Column("Start, UTC", "time", runs["at"], "When the run began"),
        Column("Ranked by", "text", runs["name"], "The policy"),
        Column("Visits", "number", runs["visits"], "Visits that HACS ranked"),
        Column("First", "number", runs["firsts"], "Visits that saw a page for the first time"),
        Column("Unseen", "number", runs["unseen"], "Requests that did not show their page"),
        Column("Updates", "number", runs["updates"], "Visits that found an update"),
        Column("Predicted", "number", runs["predicted"], "The number of updates expected"),
        Column("Per 100 visits", "number", per_100, "Updates; first visits are left out"),
        Column(f"New {marks}", "number", runs["links"], "Not shown by earlier visits"),
        Column("Size", "bytes", runs["bytes"], "Total size of the answers"),
    ]


def calibration_table(some: Iterable[Group]) -> Table:
    """Return the accuracy of the predictions of each policy."""
    groups = [(group, group.score()) for group in some]

    def scored(title: str, name: str, words: str) -> Column:
        return Column(title, "number", [short(getattr(score, name)) for _, score in groups], words)

    return [
        Column("Policy", "text", [group.policy for group, _ in groups], "What ranked the visits"),
        Column("Settings", "text", [group.model for group, _ in groups], "What p depends on"),
        scored("Visits", "visits", "Visits of pages seen before"),
        scored("Predicted", "expected_updates", "Expected updates: the sum of p"),
        scored("Found", "found_updates", "Visits that found an update"),
        scored("Brier", "brier", "Mean square of p minus the outcome, 0 or 1; lower is better"),
        scored("Brier, same p", "base_brier", "The same, if all visits had the same p"),
        scored("Log loss", "log_loss", "Mean -ln of the outcome's chance; lower is better"),
        scored("Log loss, same p", "base_log_loss", "The same, if all visits had the same p"),
    ]


def signals_table(state: State, limit: int) -> Table:
    """Return the reliability of each source of signals."""
    sources = trusted_sources(state.store, limit)
    trusts = [row.trust for row in sources]
    late, false = [row.delay_days for row in trusts], [row.false_per_day for row in trusts]
    hosts = [row.origin.partition("://")[2] for row in sources]
    gaps = [round(row.gaps) for row in sources]
    return [
        Column("Host", "text", hosts, "Where the source is"),
        Column("Kind", "text", [row.kind for row in sources], "A sitemap, a feed, or pings"),
        Column("Read", "ago", [row.read for row in sources], "When it was last read"),
        Column("Pages", "number", [row.pages for row in sources], "Visited pages that it lists"),
        Column("Visits", "number", gaps, "Visits that its reliability is estimated from"),
        Column("Signalled", "share", [short(row.recall) for row in trusts], "Share of the updates"),
        Column(
            "False a day", "number", [*map(short, false)], "Signals without an update, per page"
        ),
        Column("Late", "days", [*map(short, late)], "Mean delay of a true signal"),
    ]
