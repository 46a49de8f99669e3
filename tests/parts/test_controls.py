"""Control visits: how many there may be, which pages get one, and what is learned from it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from crawl_support import PREDICTION, open_crawl, settled
from hacs_crawler.crawl import for_parts
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import mark_ranked
from hacs_crawler.crawl.observation import observe
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.links import LinkPart, link_fingerprint
from hacs_crawler.parts.controls import Controls
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.state import State, Visit, learn_volatile_parts, read_volatile_parts
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch import MarkRules

HOST = "a.example"
URL = f"http://{HOST}/"
OTHER = "http://b.example/"
NOW = 1_700_000_000
DRAWN = LinkPart("", "v")


def page(links: Sequence[str], url: str = URL) -> HtmlResponse:
    anchors = "".join(f"<a href='{link}'>x</a>" for link in links)
    return HtmlResponse(url, body=f"<html><body>{anchors}</body></html>".encode())


def session(value: str) -> list[str]:
    """Links that all carry what was drawn for one request."""
    return [f"/{path}?v={value}" for path in "abcdef"]


FIRST, SECOND, THIRD = map(session, ("9f86d081884c7d65", "2c26b46b68ffc68f", "fcde2b2edba56bf4"))


async def learn(crawl: Crawl, host: str) -> None:
    """Have the state know that links of a host carry sessions."""
    first, second = ([f"http://{host}{link}" for link in some] for some in (FIRST, SECOND))
    await crawl.state.once(learn_volatile_parts, host, first, second, lambda _: False)


class World:
    """An open crawl with the part, and a site that answers control visits."""

    def __init__(self, crawl: Crawl, answer: Sequence[str]) -> None:
        crawl.clock = lambda: NOW
        self.crawl, self.part = crawl, crawl.parts.of(Controls)
        self.asked: list[str] = []
        self._answer = answer
        engine: Any = crawl.crawler.engine
        engine.download_async = self._download

    async def _download(self, request: Request) -> Response:
        self.asked.append(request.url)
        return page(self._answer)

    async def begin(self, response: Response, *, twice: bool = True, reason: str = "") -> None:
        """Have the part learn of a visit of the page."""
        request = mark_ranked(Request(URL), PREDICTION, visit_twice=twice)
        visit = observe(response, URL, NOW, self.crawl.config.rules).visit
        self.crawl.state.read_ahead.claim(URL)
        await self.crawl.state.read_ahead.ready(URL)
        recorded = self.crawl.state.write_behind.record(visit)
        assert list(self.part.observed(Observed(request, response, recorded, reason))) == []

    async def end(self) -> None:
        for _ in range(99):
            await settled()
            await self.crawl.state.once(lambda _: None)
            if not self.part.busy():
                return
        raise AssertionError("the control visit does not end")

    async def learned(self) -> set[LinkPart]:
        found = await self.crawl.state.once(read_volatile_parts)
        return {part for parts in found.values() for part in parts.parts}

    def left_out(self, response: Response) -> frozenset[LinkPart]:
        """Which parts are left out of the links of a response."""
        rules = self.part.rules(response, self.crawl.config.link_rules)
        volatile = getattr(rules, "volatile", None)
        return frozenset() if volatile is None else volatile.parts


Make = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def controlling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Opens a crawl that may make five control visits."""
    monkeypatch.setattr(for_parts, "PAUSE_SECONDS", 0.0)

    @asynccontextmanager
    async def opened(answer: Sequence[str] = SECOND, **settings: Any) -> AsyncIterator[World]:
        given = {"HACS_BUDGET": 100, "HACS_CONTROLS": 0.05, **settings}
        async with open_crawl(tmp_path, **given) as crawl:
            yield World(crawl, answer)
            assert crawl.failure is None

    return opened


class Shared(Part):
    """Says that two crawls share a round."""

    def quota(self, quota: Quota) -> Quota:
        return replace(quota, shards=2)


@pytest.mark.parametrize(
    ("settings", "controls"),
    [
        ({}, 5),
        ({"HACS_BUDGET": None}, 0),
        ({"HACS_WATCH": "items"}, 0),
        ({"HACS_POLICY": "last-obs"}, 0),
        ({"HACS_CONTROLS": 0.04, "HACS_PARTS": {Shared: 1}}, 2),
    ],
)
async def test_there_are_control_visits_where_they_can_be_seen_and_are_of_use(
    settings: dict[str, Any], controls: int, controlling: Make
) -> None:
    async with controlling(**settings) as world:
        assert world.part.quota(Quota(100)) == Quota(100, controls)


@pytest.mark.parametrize(("visited", "next_time"), [(0, 5), (1, 8)])
async def test_what_is_left_of_the_control_visits_is_kept_if_any_page_was_visited(
    visited: int, next_time: int, controlling: Make
) -> None:
    async with controlling() as world:
        world.part.chosen(np.ones(9), 2)
        assert world.part.quota(Quota(100)).controls == 3
        world.crawl.stats.recorded = visited
    async with controlling() as world:
        assert world.part.quota(Quota(100)).controls == next_time


@pytest.mark.parametrize("budget", [100, None])
@pytest.mark.parametrize("is_known", [True, False])
async def test_it_is_needed_where_something_is_left_out_or_may_be_found_out(
    budget: int | None, is_known: bool, controlling: Make
) -> None:
    async with controlling(HACS_BUDGET=budget, HACS_CONTROLS=0.01) as world:
        if is_known:
            await learn(world.crawl, HOST)
        await world.part.round_began()
        is_needed = is_known or budget is not None
        assert world.part.unneeded == (() if is_needed else ("rules", "observed"))


async def test_what_other_crawls_learned_of_a_host_is_left_out_from_the_next_round_on(
    controlling: Make,
) -> None:
    async with controlling() as world:
        await learn(world.crawl, HOST)
        assert world.left_out(page(THIRD)) == frozenset()
        await world.part.round_began()
        assert world.left_out(page(THIRD)) == {DRAWN}
        assert world.left_out(page(THIRD, OTHER)) == frozenset()
        await learn(world.crawl, "c.example")
        await world.part.round_began()
        assert world.left_out(page(THIRD, OTHER)) == {DRAWN}
        assert world.left_out(page(["/1?v=1"], OTHER)) == frozenset()
        assert world.left_out(Response(OTHER, body=page(THIRD).body)) == frozenset()
        watched = MarkRules("text", lambda *_: [])
        assert world.part.rules(page(THIRD), watched) is watched


@pytest.mark.parametrize("stable", [[], ["/x", "/y"]])
async def test_what_differs_between_two_visits_at_once_is_left_out_from_then_on(
    stable: list[str], controlling: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async with controlling(stable + SECOND) as world:
        await world.begin(page(stable + FIRST))
        assert world.part.busy()
        await world.end()
        assert world.asked == [URL]
        assert world.crawl.stats.get("controls/differed") == 1
        assert await world.learned() == {DRAWN}
        assert world.left_out(page(THIRD)) == {DRAWN}
        await world.begin(page(stable + THIRD))
        await world.end()
    assert caplog.text.count(f"from now on ?v=* is left out of them (`hacs forget {HOST}`") == 1


@pytest.mark.parametrize(
    ("first", "second", "shown_before", "settings"),
    [
        (["/x", "/y"], ["/x", "/y"], [], {}),
        (FIRST, SECOND, SECOND, {}),
        (["/x"], ["/y"], [], {"HACS_WATCH": "xpath://a/@href"}),
    ],
)
async def test_nothing_is_learned_where_nothing_differs_or_of_a_pool_or_where_no_links_are_watched(
    first: list[str],
    second: list[str],
    shown_before: list[str],
    settings: dict[str, str],
    controlling: Make,
) -> None:
    marks = frozenset(link_fingerprint(f"http://{HOST}{link}") for link in shown_before)

    async with controlling(second, **settings) as world:
        if marks:
            visits = [Visit(URL, NOW - DAY * days, marks=marks) for days in (2, 1)]
            await world.crawl.state.once(State.record, visits)
        await world.begin(page(first))
        await world.end()
        assert world.crawl.stats.get("controls/differed") == int(first != second)
        assert await world.learned() == set()


@pytest.mark.parametrize(
    ("twice", "reason", "links", "asked"),
    [
        (True, "", FIRST, [URL]),
        (False, "", FIRST, []),
        (True, "doubtful", FIRST, []),
        (True, "", None, []),
    ],
)
async def test_only_pages_that_ranking_marked_and_that_were_seen_are_asked_twice(
    twice: bool, reason: str, links: list[str] | None, asked: list[str], controlling: Make
) -> None:
    async with controlling() as world:
        response = Response(URL, 304) if links is None else page(links)
        await world.begin(response, twice=twice, reason=reason)
        assert world.part.busy() is bool(asked)
        await world.end()
        assert world.asked == asked
