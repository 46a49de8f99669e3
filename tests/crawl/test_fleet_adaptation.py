"""What a worker knows of its fleet's plan when a visit is to change that, on a real board."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.crawl import fleet_adaptation
from hacs_crawler.crawl.fleet_adaptation import FleetAdaptation
from hacs_crawler.crawl.ranked_anew import Ranked
from hacs_crawler.fleet.board import Change
from hacs_crawler.fleet.member import FleetWorker
from hacs_crawler.fleet.standings import (
    SCALE,
    Published,
    packed_families,
    packed_scale,
)
from sqlite_board import SQLiteBoard

SITE, HOMEPAGE, PAPERS, LEFT_OUT = 7, 1, 2, 3


class World:
    """One worker that leads a round of two entries and a spare one."""

    def __init__(self, **settings: object) -> None:
        board: Any = SQLiteBoard(None)
        self.worker = FleetWorker(board, "one")
        config = Config.from_settings(
            Settings({"HACS_FLEET": "any", "HACS_STATE": "redis://x/0", **settings})
        )
        session: Any = SimpleNamespace(is_open=True)
        self.adaptation = FleetAdaptation(session, config, lambda requests, reason: None)
        self.adaptation.join(self.ask, self.worker, lambda: None)
        self.worker.tick(0.0)
        self.worker.publish(
            [("http://a.example/", HOMEPAGE, b""), ("http://a.example/2", PAPERS, b"")]
        )
        self.worker.publish([("http://a.example/3", LEFT_OUT, b"")], is_spare=True)

    async def ask(self, step: Callable[..., Any], *args: Any) -> Any:
        return step(*args)

    def note(self, scale: bytes) -> None:
        published = Published(*(np.array(one) for one in ([1, 2, 3], [0, 1, 2], [0, 0, 0])))
        families = packed_families(np.full(3, SITE), np.array([1, 2, 3]), published)
        assert self.worker.note({SCALE: scale, **dict(families)})

    def open_round(self) -> None:
        assert self.worker.open_round()

    def changes(self, number: int = 1) -> list[Change]:
        async def found() -> list[Change]:
            return await self.adaptation._changes(number, [SITE])

        return asyncio.run(found())


@pytest.fixture(autouse=True)
def _ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The homepage is quiet, the papers are worth 0.5, and what was left out 0.2."""

    async def ranked_anew(*_: object) -> list[Ranked]:
        values = {HOMEPAGE: (0.0, True), PAPERS: (0.5, True), LEFT_OUT: (0.2, False)}
        return [
            Ranked(page_id, p, {"p": p}, may_come)  # type: ignore[typeddict-item]
            for page_id, (p, may_come) in values.items()
        ]

    monkeypatch.setattr(fleet_adaptation, "ranked_anew", ranked_anew)


def places(changes: list[Change]) -> dict[int, float | None]:
    return {change.rank: change.position for change in changes}


SCORES = packed_scale(np.arange(2), np.array([0.9, 0.4]))


def test_pages_get_the_places_of_their_scores() -> None:
    world = World()
    world.adaptation.enter(1)
    world.note(SCORES)
    world.open_round()
    found = places(world.changes())
    assert found == {0: pytest.approx(1.0 + 0.4 / 1.4), 1: pytest.approx(0.8)}


def test_what_is_below_the_threshold_is_left_out() -> None:
    world = World(HACS_THRESHOLD=0.3)
    world.adaptation.enter(1)
    world.note(SCORES)
    world.open_round()
    assert places(world.changes()) == {0: None, 1: pytest.approx(0.8), 2: None}


def test_before_a_round_is_open_nothing_is_known_of_it_and_nothing_kept() -> None:
    world = World()
    world.adaptation.enter(1)
    world.note(SCORES)
    assert world.changes() == []
    world.open_round()
    assert world.changes()


def test_what_was_read_for_the_round_before_is_not_kept() -> None:
    world = World()
    world.note(SCORES)
    world.open_round()
    world.adaptation.enter(2)
    assert world.changes(number=1)
    assert world.changes(number=2) == []


def test_notes_that_are_damaged_cost_one_line(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.adaptation.enter(1)
    world.note(b"rubbish")
    world.open_round()
    assert world.changes() == world.changes() == []
    (line,) = (one.getMessage() for one in caplog.records)
    assert "a note of the fleet's plan is damaged" in line
    assert "keeps its order in this round" in line
