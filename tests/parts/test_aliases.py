"""Redirects that the project's duplicate filter drops share the visit of what they led to."""

from __future__ import annotations

import asyncio

from scrapy import Request
from scrapy.http import Response

from hacs_crawler.crawl.meta import mark_ranked
from hacs_crawler.crawl.part import Observed
from hacs_crawler.parts.aliases import MOST_BYTES, Alias, Aliases
from hacs_crawler.state import Page, Prediction, Recorded, Visit, merged

TARGET = "http://b.example/"
SHOWN = Visit(TARGET, 1_700_000_000, marks=frozenset({1, 2}), etag='"5f"', bytes=70)
PREDICTION = Prediction(label=1, run=2, p=0.5, rate_per_day=1.0, days_since_visit=1.0, churn=0.0)
ONE = Alias("http://a.example/1", PREDICTION)
OTHER = Alias("http://a.example/2", None)


def recorded(visit: Visit) -> Recorded:
    return merged(Page(visit.url), visit, is_known=True)


def observed(url: str, visit: Visit) -> Observed:
    return Observed(Request(url), Response(url), recorded(visit), "")


def filtered(aliases: Aliases, alias: Alias) -> list[Visit]:
    """Have the filter drop the redirect of a page to the target."""
    redirected = Request(TARGET)
    if alias.prediction is not None:
        mark_ranked(redirected, alias.prediction)
    return [*aliases.filtered(redirected, alias.page_url)]


def test_an_alias_shows_what_its_target_does_as_its_own_page() -> None:
    assert ONE.visit(SHOWN) == Visit(
        "http://a.example/1",
        SHOWN.at,
        marks=SHOWN.marks,
        etag=SHOWN.etag,
        prediction=PREDICTION,
        bytes=SHOWN.bytes,
    )


def test_the_targets_own_prediction_is_not_its_aliases() -> None:
    ranked = Visit(TARGET, SHOWN.at, prediction=PREDICTION)
    assert OTHER.visit(ranked).prediction is None


def test_aliases_wait_for_the_visit_of_their_target() -> None:
    aliases = Aliases()
    assert filtered(aliases, ONE) == []
    assert filtered(aliases, OTHER) == []
    assert aliases.observed(observed("http://c.example/", SHOWN)) == []
    assert aliases.observed(observed(TARGET, SHOWN)) == [ONE.visit(SHOWN), OTHER.visit(SHOWN)]


def test_an_alias_gets_one_visit_however_often_its_target_has_one() -> None:
    aliases = Aliases()
    filtered(aliases, ONE)
    assert len([*aliases.observed(observed(TARGET, SHOWN))]) == 1
    assert aliases.observed(observed(TARGET, SHOWN)) == []


def test_an_alias_that_comes_after_the_visit_gets_the_latest() -> None:
    aliases = Aliases()
    later = Visit(TARGET, SHOWN.at + 5, marks=frozenset({3}))
    aliases.observed(observed(TARGET, SHOWN))
    aliases.observed(observed(TARGET, later))
    assert filtered(aliases, ONE) == [ONE.visit(later)]


def test_only_visits_of_so_many_bytes_in_all_are_remembered_the_latest() -> None:
    aliases = Aliases()
    # a fingerprint takes nine bytes
    large = Visit(TARGET, SHOWN.at, marks=frozenset(range(2**62, 2**62 + MOST_BYTES // 36)))
    aliases.observed(observed(TARGET, SHOWN))
    for number in range(3):
        aliases.observed(observed(f"http://c.example/{number % 2}", large))
    assert filtered(aliases, ONE) == [ONE.visit(SHOWN)]
    aliases.observed(observed(TARGET, SHOWN))
    for number in range(2, 5):
        aliases.observed(observed(f"http://c.example/{number}", large))
    assert filtered(aliases, ONE) == [ONE.visit(SHOWN)]
    for number in range(5, 9):
        aliases.observed(observed(f"http://c.example/{number}", large))
    assert filtered(aliases, OTHER) == []


def test_of_a_visit_without_links_an_alias_has_none_either() -> None:
    aliases = Aliases()
    unchanged = Visit(TARGET, SHOWN.at)
    aliases.observed(observed(TARGET, unchanged))
    assert filtered(aliases, ONE) == [ONE.visit(unchanged)]


def test_in_another_round_nothing_is_left_of_the_one_before() -> None:
    aliases = Aliases()
    aliases.observed(observed(TARGET, SHOWN))
    asyncio.run(aliases.round_began())
    assert filtered(aliases, ONE) == []
