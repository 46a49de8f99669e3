"""What tests of a crawl's parts share."""

from collections.abc import Callable, Iterator

import pytest

from crawl_support import Timers
from hacs_crawler.crawl import queues, seeds, start_watch
from hacs_crawler.crawl.state_access import read_ahead, write_behind
from hacs_crawler.state import Store, Updates
from state_access import Make, StateAccess


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    timers = Timers()
    for module in (queues, read_ahead, start_watch, write_behind):
        monkeypatch.setattr(module, "call_later", timers.call_later)
    for module in (read_ahead, seeds, write_behind):
        monkeypatch.setattr(module, "sleep", timers.sleep)
    return timers


@pytest.fixture
def new_world(new_store: Callable[[], Store], timers: Timers) -> Iterator[Make]:
    made: list[StateAccess] = []

    def make(*, count: int = 100, limit: int = 1_000, updates: Updates = "page") -> StateAccess:
        made.append(StateAccess(new_store(), timers, count=count, limit=limit, updates=updates))
        return made[-1]

    yield make
    for world in made:
        world.worker.close()


@pytest.fixture
def world(new_world: Make) -> StateAccess:
    return new_world()
