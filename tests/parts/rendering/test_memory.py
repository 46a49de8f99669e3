"""What the state knows of rendering, as a crawl reads and writes it."""

import asyncio
from typing import Any

import pytest

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import menu_id, page_id_of
from hacs_crawler.parts.rendering import memory as memory_module
from hacs_crawler.parts.rendering.memory import RenderingMemory
from hacs_crawler.parts.rendering.verdicts import PageRendering, SiteRendering, Verdict, decoded
from hacs_crawler.state import Estimation, MemoryStore, State

URLS = [f"http://example.edu/{number}" for number in range(5)]


class OpenState:
    """A session whose state is open, and may be away."""

    is_open = True

    def __init__(self, store: MemoryStore) -> None:
        self._state = State(store, Estimation())
        self.state = self
        self.is_away = False

    async def once(self, function: Any, *arguments: Any) -> Any:
        if self.is_away:
            raise StateUnavailableError("the state is away")
        return function(self._state, *arguments)

    def on_error(self, error: StateError) -> None:
        assert self.is_away, error


def kept(store: MemoryStore, url: str) -> PageRendering:
    key = page_id_of(url)
    return decoded(PageRendering, store.annotations(PageRendering.KIND, [key]).get(key))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def crawl(store: MemoryStore) -> tuple[OpenState, RenderingMemory]:
    session = OpenState(store)
    return session, RenderingMemory(session)


def read(memory: RenderingMemory, *urls: str) -> None:
    async def all_ready() -> None:
        await asyncio.gather(*map(memory.ready, urls))

    asyncio.run(all_ready())


def judge(memory: RenderingMemory, url: str, verdict: Verdict) -> None:
    memory.keep(url, PageRendering(verdict), SiteRendering(browser=1))


def test_verdicts_reach_the_next_crawl(store: MemoryStore) -> None:
    _, first = crawl(store)
    read(first, *URLS)
    judge(first, URLS[0], Verdict.BROWSER)
    asyncio.run(first.closing())
    _, second = crawl(store)
    read(second, *URLS)
    assert [second.records(url)[0].verdict for url in URLS[:2]] == [
        Verdict.BROWSER,
        Verdict.UNKNOWN,
    ]
    assert second.records(URLS[1])[1] == SiteRendering(browser=1)
    session, closed = crawl(store)
    session.is_open = False
    read(closed, URLS[0])
    assert closed.records(URLS[0])[0].verdict is Verdict.UNKNOWN


def test_pages_are_read_together(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = crawl(store)
    asked = []
    monkeypatch.setattr(
        store, "annotations", lambda kind, keys: asked.append((kind, len(keys))) or {}
    )
    read(first, *URLS)
    read(first, *URLS)
    assert asked == [("rendering", len(URLS)), ("rendering-site", 1)]


def test_while_the_state_is_away_pages_count_as_unknown(store: MemoryStore) -> None:
    session, memory = crawl(store)
    session.is_away = True
    read(memory, URLS[0])
    assert memory.records(URLS[0]) == (PageRendering(), SiteRendering())


def test_a_verdict_that_could_not_be_written_holds_in_this_crawl(store: MemoryStore) -> None:
    session, memory = crawl(store)
    judge(memory, URLS[0], Verdict.BROWSER)
    session.is_away = True
    asyncio.run(memory.closing())
    read(memory, URLS[0])
    assert memory.records(URLS[0])[0].verdict is Verdict.BROWSER
    assert kept(store, URLS[0]) == PageRendering()


def test_of_a_site_the_last_record_is_written(store: MemoryStore) -> None:
    _, memory = crawl(store)
    for number, url in enumerate([URLS[0], URLS[1], URLS[0]]):
        memory.keep(url, PageRendering(), SiteRendering(plain=number))
    asyncio.run(memory.closing())
    (site,) = store.annotations(SiteRendering.KIND, [menu_id(URLS[0])]).values()
    assert decoded(SiteRendering, site) == SiteRendering(plain=2)
    assert store.annotations(PageRendering.KIND, [page_id_of(URLS[0])]) == {}


def test_only_some_pages_are_kept_in_memory(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "MOST_KEPT", 2)
    _, memory = crawl(store)
    for url in URLS:
        read(memory, url)
    assert list(memory._pages) == [page_id_of(url) for url in URLS[-2:]]
