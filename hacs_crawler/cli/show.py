"""`hacs show`: the history of a page, or the changing links of a host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from hacs_crawler.analysis import Table, table_of_rows, visits_table
from hacs_crawler.cli.common import Set, Shards, opened
from hacs_crawler.cli.output import Records, iso_text, shows_rows
from hacs_crawler.cli.page import PageFacts, facts_of, page_text
from hacs_crawler.links import VolatileLinkParts
from hacs_crawler.model import confirmed_share
from hacs_crawler.shards import JoinedState
from hacs_crawler.state import State, read_volatile_parts

_HOST: Final = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::\d+)?")


@shows_rows()
def show(
    url: Annotated[
        str, typer.Argument(help="a page's URL, or a host for what is left out of its links")
    ],
    shards: Shards = None,
    settings: Set = None,
) -> Records:
    """Show a page's history and rate, and when it will be visited next.

    For a host, list the parts of its links that are left out because they change with every request.
    With several shards, a page's rank is its rank within its own shard. --csv has a row for each visit,
    or for each part of a host's links.
    """
    is_host = _HOST.fullmatch(url)
    if not is_host and "://" not in url and _HOST.match(url):
        url = f"http://{url}"
    with opened(settings, shards) as (config, opened_state):
        state = opened_state
        if isinstance(state, JoinedState):
            state = state.of(f"http://{url}/" if is_host else url)
        if is_host:
            return _host_records(state, url.lower())
        now = config.clock()
        facts = facts_of(url, state, config, now)
    return Records(
        rows=lambda: visits_table([facts.page]),
        text=lambda: page_text(facts, config, now),
        json=lambda: [json.dumps(_as_json(facts), indent=2)],
    )


def _as_json(facts: PageFacts) -> dict[str, Any]:
    page, forecast = facts.page, facts.forecast
    visits = zip(page.visits, facts.updated, page.new_marks_by_visit(), strict=True)
    return {
        "url": page.url,
        "visits": [
            {
                "at": iso_text(at),
                "is_update": updated,
                "is_new_to_site": updated and at not in page.echoes,
                "new_links": links,
            }
            for at, updated, links in visits
        ],
        "visits_set_aside": facts.set_aside,
        "visits_doubtful": facts.doubtful,
        "links": len(page.spells.marks),
        "gone": page.gone,
        "failures": page.failures,
        "last_news": iso_text(page.last_news),
        "not_before": iso_text(page.not_before),
        "harvests": [
            {"source": f"{harvest.source:08x}", "until": iso_text(harvest.until)}
            for harvest in page.harvests.values()
        ],
        "rate_per_day": facts.rate_per_day,
        "churn": facts.churn,
        "churning": facts.churning,
        "confirmed": facts.confirmed,
        "confirmed_share": confirmed_share(*facts.confirmed),
        "rate_is_prior": facts.rate_is_prior,
        "rate_estimator": facts.estimator,
        "rate_interval": facts.interval,
        "ranked_rate_per_day": forecast.rate_per_day,
        "siblings": facts.siblings,
        "sibling_correlation": facts.sibling_correlation,
        "rendered": facts.is_rendered,
        "signals": [
            {**asdict(signal), "latest": iso_text(signal.latest), "read": iso_text(signal.read)}
            for signal in facts.signals
        ],
        "p": forecast.p,
        "rank": forecast.rank,
        "ranked": forecast.ranked,
        "reason": forecast.reason.value,
        "p_to_pass": forecast.p_to_pass,
        "next_visit": iso_text(forecast.at),
    }


def _host_records(state: State, host: str) -> Records:
    """Return the parts of a host's links that change with every request, as far as is known."""
    volatile = read_volatile_parts(state).get(host, VolatileLinkParts(host))

    def rows() -> Table:
        parts = [(part, True) for part in sorted(volatile.parts)]
        parts += [(part, False) for part in sorted(volatile.suspected)]
        records = [
            {"host": host, "part": str(part), "is_left_out": is_out} for part, is_out in parts
        ]
        return table_of_rows(records, texts=("host", "part"), names=("host", "part", "is_left_out"))

    def text() -> Iterator[str]:
        yield host
        if not volatile.parts and not volatile.suspected:
            yield "  nothing is left out of its links"
        if volatile.parts:
            parts = ", ".join(map(str, sorted(volatile.parts)))
            yield f"  left out of its links, because each control visit showed other ones: {parts}"
            yield f"  `hacs forget {host}` counts them again"
        if volatile.suspected:
            parts = ", ".join(map(str, sorted(volatile.suspected)))
            yield f"  may be left out after another control visit: {parts}"

    json_text = json.dumps({"host": host, **volatile.to_json()}, indent=2)
    return Records(rows=rows, text=text, json=lambda: [json_text])
