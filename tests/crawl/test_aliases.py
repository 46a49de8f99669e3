"""Redirects that the project's duplicate filter drops share the visit of what they led to."""

from __future__ import annotations

from hacs_crawler.crawl.aliases import MOST_REMEMBERED, Alias, Aliases
from hacs_crawler.state import Prediction, Visit

TARGET = "http://b.example/"
SHOWN = Visit(TARGET, 1_700_000_000, links=frozenset({1, 2}), etag='"5f"', bytes=70)
PREDICTION = Prediction(
    label=1, run=2, p=0.5, raw_p=0.5, rate_per_day=1.0, days_since_visit=1.0, churn=0.0
)
ONE = Alias("http://a.example/1", PREDICTION)
OTHER = Alias("http://a.example/2", None)


def test_an_alias_shows_what_its_target_does_as_its_own_page() -> None:
    assert ONE.visit(SHOWN) == Visit(
        "http://a.example/1",
        SHOWN.at,
        links=SHOWN.links,
        etag=SHOWN.etag,
        prediction=PREDICTION,
        bytes=SHOWN.bytes,
    )


def test_the_targets_own_prediction_is_not_its_aliases() -> None:
    ranked = Visit(TARGET, SHOWN.at, prediction=PREDICTION)
    assert OTHER.visit(ranked).prediction is None


def test_aliases_wait_for_the_visit_of_their_target() -> None:
    aliases = Aliases()
    assert aliases.add(TARGET, ONE) is None
    assert aliases.add(TARGET, OTHER) is None
    assert aliases.take("http://c.example/", SHOWN) == []
    assert aliases.take(TARGET, SHOWN) == [ONE.visit(SHOWN), OTHER.visit(SHOWN)]


def test_an_alias_gets_one_visit_however_often_its_target_has_one() -> None:
    aliases = Aliases()
    aliases.add(TARGET, ONE)
    assert len(aliases.take(TARGET, SHOWN)) == 1
    assert aliases.take(TARGET, SHOWN) == []


def test_an_alias_that_comes_after_the_visit_gets_the_latest() -> None:
    aliases = Aliases()
    later = Visit(TARGET, SHOWN.at + 5, links=frozenset({3}))
    aliases.take(TARGET, SHOWN)
    aliases.take(TARGET, later)
    assert aliases.add(TARGET, ONE) == ONE.visit(later)


def test_only_the_latest_visits_are_remembered() -> None:
    aliases = Aliases()
    aliases.take(TARGET, SHOWN)
    for number in range(MOST_REMEMBERED - 1):
        aliases.take(f"http://c.example/{number}", SHOWN)
    assert aliases.add(TARGET, ONE) is not None
    aliases.take("http://c.example/one-more", SHOWN)
    assert aliases.add(TARGET, ONE) is None
