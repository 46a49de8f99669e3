"""Redirects that the project's duplicate filter drops share the visit of what they led to."""

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from scrapy import Request, signals
from scrapy.http import Response
from scrapy.signalmanager import SignalManager

from crawl_support import PREDICTION
from hacs_crawler.crawl.meta import claim, mark_ranked
from hacs_crawler.crawl.part import Observed
from hacs_crawler.parts import aliases
from hacs_crawler.state import Page, Prediction, Recorded, Visit, merged

TARGET = "http://b.example/"
SHOWN = Visit(TARGET, 1_700_000_000, marks=frozenset({1, 2}), etag='"5f"', bytes=70)


class Alias(NamedTuple):
    """A page that redirects to the target, and the prediction for its visit."""

    page_url: str
    prediction: Prediction | None

    def visit(self, shown: Visit) -> Visit:
        """Return the page's visit, given the target's."""
        return replace(shown, url=self.page_url, prediction=self.prediction)


ONE = Alias("http://a.example/1", PREDICTION)
OTHER = Alias("http://a.example/2", None)


def recorded(visit: Visit) -> Recorded:
    return merged(Page(visit.url), visit, is_known=True)


class World:
    """The part in a crawl of which it sees what it records."""

    def __init__(self) -> None:
        self.recorded: list[Visit] = []
        self.signals = SignalManager(self)
        crawl: Any = SimpleNamespace(
            is_open=True, crawler=SimpleNamespace(signals=self.signals), record_also=self.record
        )
        self.part = aliases.Aliases(crawl)

    def record(self, visit: Visit, reason: str) -> None:
        self.recorded.append(visit)

    def filtered(self, alias: Alias, *, is_sent: bool = True) -> list[Visit]:
        """Have the filter drop the redirect of a page to the target; return what is recorded."""
        request = Request(alias.page_url)
        if alias.prediction is not None:
            mark_ranked(request, alias.prediction)
        if is_sent:
            claim(request, alias.page_url)
        redirected = request.replace(url=TARGET)
        self.signals.send_catch_log(signals.request_dropped, request=redirected, spider=None)
        recorded, self.recorded = self.recorded, []
        return recorded

    def observed(self, url: str, visit: Visit) -> list[Visit]:
        """Have a page visited; return the visits of others that follow from it."""
        return [*self.part.observed(Observed(Request(url), Response(url), recorded(visit), ""))]


def test_aliases_wait_for_the_visit_of_their_target() -> None:
    world = World()
    assert world.filtered(ONE) == []
    assert world.filtered(OTHER) == []
    assert world.observed("http://c.example/", SHOWN) == []
    assert world.observed(TARGET, SHOWN) == [ONE.visit(SHOWN), OTHER.visit(SHOWN)]
    assert world.observed(TARGET, SHOWN) == [], "one visit is enough"


def test_an_alias_that_comes_after_the_visit_gets_the_latest() -> None:
    world = World()
    later = Visit(TARGET, SHOWN.at + 5, marks=frozenset({3}))
    world.observed(TARGET, SHOWN)
    world.observed(TARGET, later)
    assert world.filtered(ONE, is_sent=False) == []
    assert world.filtered(ONE) == [ONE.visit(later)]


def test_only_visits_of_so_many_bytes_in_all_are_remembered_the_latest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aliases, "MOST_BYTES", 4100)
    world = World()
    # a visit takes 400 bytes, and each fingerprint eight
    large, largest = (
        Visit(TARGET, SHOWN.at, marks=frozenset(range(2**62, 2**62 + number)))
        for number in (100, 500)
    )
    for numbers in ((0, 1, 0), (2, 3, 4)):
        world.observed(TARGET, SHOWN)
        for number in numbers:
            world.observed(f"http://c.example/{number}", large)
        assert world.filtered(ONE) == [ONE.visit(SHOWN)]
    for number in range(5, 9):
        world.observed(f"http://c.example/{number}", large)
    assert world.filtered(OTHER) == []
    world.observed(TARGET, largest)
    assert world.filtered(OTHER) == [OTHER.visit(largest)]


def test_in_another_round_nothing_is_left_of_the_one_before() -> None:
    world = World()
    without_links = Visit(TARGET, SHOWN.at)
    world.observed(TARGET, without_links)
    assert world.filtered(ONE) == [ONE.visit(without_links)]
    asyncio.run(world.part.round_began())
    assert world.filtered(ONE) == []
    asyncio.run(world.part.round_began())
    assert world.observed(TARGET, without_links) == []
