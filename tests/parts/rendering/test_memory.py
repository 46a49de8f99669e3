"""What the state knows of rendering, as a crawl reads it ahead and writes it behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crawl_support import Timers
from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.links import menu_id
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.parts.rendering import memory
from hacs_crawler.parts.rendering.memory import RenderingMemory
from hacs_crawler.parts.rendering.verdicts import PageRendering, SiteRendering, Verdict, decoded
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.store import Annotation

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


def kept(store: MemoryStore, url: str) -> PageRendering:
    key = page_id_of(url)
    return decoded(PageRendering, store.annotations(PageRendering.KIND, [key]).get(key, b""))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def crawl(store: MemoryStore) -> tuple[OpenState, RenderingMemory]:
    session = OpenState(store)
    marks = RenderingMemory(session)  # type: ignore[arg-type]
    marks._write_soon = lambda: None  # type: ignore[method-assign]
    return session, marks


def read(marks: RenderingMemory, *urls: str) -> None:
    for url in urls:
        marks._wanted[page_id_of(url)] = 1
    asyncio.run(marks._read())


def test_verdicts_reach_the_next_crawl(store: MemoryStore) -> None:
    _, first = crawl(store)
    read(first, *URLS[:1])
    first.on_verdict(URLS[0], Verdict.BROWSER)
    asyncio.run(first.write())
    _, second = crawl(store)
    read(second, *URLS[:1])
    assert second.advice(URLS[0]).rendered
    assert not second.advice(URLS[1]).rendered


def test_of_two_crawls_the_first_to_write_wins_and_the_other_goes_by_it(store: MemoryStore) -> None:
    crawls = [crawl(store)[1] for _ in range(2)]
    for marks, verdict in zip(crawls, (Verdict.BROWSER, Verdict.PLAIN), strict=True):
        read(marks, URLS[0])
        marks.on_verdict(URLS[0], verdict, for_site=False)
    for marks in crawls:
        asyncio.run(marks.write())
    assert kept(store, URLS[0]).verdict is Verdict.BROWSER
    assert crawls[1].advice(URLS[0]).rendered


def test_what_could_not_be_written_is_written_later(store: MemoryStore) -> None:
    session, marks = crawl(store)
    read(marks, URLS[0])
    marks.on_verdict(URLS[0], Verdict.BROWSER)
    session.is_away = True
    asyncio.run(marks.write())
    assert kept(store, URLS[0]) == PageRendering()
    session.is_away = False
    asyncio.run(marks.write())
    assert kept(store, URLS[0]).verdict is Verdict.BROWSER


def test_nothing_is_written_after_the_last_write(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers()
    monkeypatch.setattr(memory, "call_later", timers.call_later)
    marks = RenderingMemory(OpenState(store))  # type: ignore[arg-type]
    marks.on_verdict(URLS[0], Verdict.BROWSER)
    assert timers.waiting == [memory.WRITE_SECONDS]
    asyncio.run(marks.write())
    assert timers.waiting == []


def test_while_the_state_is_away_pages_count_as_unknown(store: MemoryStore) -> None:
    session, marks = crawl(store)
    session.is_away = True
    read(marks, URLS[0])
    assert not marks.advice(URLS[0]).rendered


def test_a_damaged_mark_is_made_anew(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    store.annotate(PageRendering.KIND, [Annotation(page_id_of(URLS[0]), b"", b"damaged")])
    _, marks = crawl(store)
    read(marks, URLS[0])
    assert "is damaged" in caplog.text
    marks.on_verdict(URLS[0], Verdict.PLAIN)
    asyncio.run(marks.write())
    assert kept(store, URLS[0]).verdict is Verdict.PLAIN


def test_only_some_pages_are_kept_in_memory_and_none_that_is_to_be_written(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MOST_KEPT", 2)
    _, marks = crawl(store)
    read(marks, URLS[0])
    marks.on_verdict(URLS[0], Verdict.BROWSER)
    for url in URLS[1:]:
        read(marks, url)
    assert len(marks._pages.kept) == 2
    assert marks.advice(URLS[0]).rendered
    asyncio.run(marks.write())
    assert kept(store, URLS[0]).verdict is Verdict.BROWSER


def test_visits_that_follow_a_verdict_are_counted_for_the_page_or_else_its_site(
    store: MemoryStore,
) -> None:
    _, marks = crawl(store)
    for url in URLS[:2]:
        read(marks, url)
    marks.on_verdict(URLS[0], Verdict.PLAIN)
    for url in URLS[:2]:
        marks.on_visit(url)
    asyncio.run(marks.write())
    assert [kept(store, url).visits for url in URLS[:2]] == [1, 0]
    site = store.annotations(SiteRendering.KIND, [menu_id(URLS[1])])[menu_id(URLS[1])]
    assert decoded(SiteRendering, site).visits == 1
