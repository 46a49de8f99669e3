"""A state that knew pages by their SURT is brought to where pages are told apart by their key."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from redis.cluster import RedisCluster

from hacs_crawler.links import fingerprint, page_id_of, page_surt
from hacs_crawler.state import redis_moves, sqlite_moves
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import decode_page, encode_page, encode_row
from hacs_crawler.state.outcome_log import OUTCOME, sorted_outcomes
from hacs_crawler.state.page import Page, Visit, merge
from hacs_crawler.state.store import Change, Store

HOME, INDEX = "http://h.edu/x/", "https://www.h.edu/x/index.html"
SMITH = "http://h.edu/~Smith/"
# the second belongs where the first was, and the third where the second was
FIRST, SECOND, THIRD = (
    f"http://h.edu/{path}" for path in ("B", "b/index.html", "b/index.html/x/../A?utm_x=")
)
URLS = (
    HOME,
    INDEX,
    SMITH,
    FIRST,
    SECOND,
    THIRD,
    *(f"http://h.edu/{n}/?fbclid=x" for n in range(40)),
)


def times_of(url: str) -> tuple[int, int]:
    place = 10 * URLS.index(url)
    return 100 + place, 105 + place


def old_change(url: str) -> Change:
    """A page as versions up to schema 3 kept it: under its SURT, with shorter rows."""
    page_id, page, outcomes = fingerprint(page_surt(url)), Page(url), np.zeros(2, OUTCOME)
    for at in times_of(url):
        merge(page, Visit(url, at, links=frozenset({at})))
    page.version = 1
    outcomes["page_id"], outcomes["at"] = page_id, times_of(url)
    return Change(page_id, 0, encode_page(page), encode_row(page)[:-1], outcomes.tobytes())


@pytest.fixture
def old_state(state_url: str, namespace: str) -> Callable[[], Store]:
    store = open_store(state_url, namespace, Path())
    store.write([old_change(url) for url in URLS])
    store.write_meta("estimate", {"after": 1})
    store.close()
    if state_url.startswith("sqlite"):
        with sqlite3.connect(state_url.removeprefix("sqlite:///")) as db:
            db.execute("PRAGMA user_version = 3")
        db.close()
    else:
        kind: Any = RedisCluster if "+cluster" in state_url else redis.Redis
        with kind.from_url(state_url.replace("+cluster", "")) as server:
            server.hset(f"{namespace}:meta", "schema", 3)
    return lambda: open_store(state_url, namespace, Path())


def check(store: Store) -> None:
    ids = {
        page_id_of(url): {one for one in URLS if page_id_of(one) == page_id_of(url)} for url in URLS
    }
    assert len(ids) == len(URLS) - 1
    bodies = store.load([*ids])
    assert bodies.keys() == ids.keys()
    assert store.count() == len(ids)
    for page_id, urls in ids.items():
        page, times = (
            decode_page(bodies[page_id]),
            sorted(at for one in urls for at in times_of(one)),
        )
        assert (page.visits.tolist(), sorted(page.links)) == (times, times)
        assert page_id_of(page.url) == page_id
        assert store.rows(np.array([page_id])).tobytes() == encode_row(page)
    outcomes = sorted_outcomes(store.outcomes())
    assert outcomes["at"].tolist() == sorted(at for url in URLS for at in times_of(url))
    by_time = {at: page_id_of(url) for url in URLS for at in times_of(url)}
    assert outcomes["page_id"].tolist() == [by_time[at] for at in outcomes["at"].tolist()]
    assert store.read_meta("estimate") is None
    # each page can be written to
    page = decode_page(bodies[page_id_of(HOME)])
    page.version += 1
    change = Change(page_id_of(HOME), page.version - 1, encode_page(page), encode_row(page))
    assert store.write([change]) == {}


def test_the_example_has_pages_where_others_belong() -> None:
    assert page_id_of(HOME) == page_id_of(INDEX)
    assert page_id_of(SECOND) == fingerprint(page_surt(FIRST))
    assert page_id_of(SMITH) != fingerprint(page_surt(SMITH))


def test_pages_are_moved_and_merged_with_their_outcome_records(
    old_state: Callable[[], Store], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for _ in range(2):
        store = old_state()
        check(store)
        store.close()
    said = [one for one in caplog.messages if "are known by another key now" in one]
    assert len(said) == 1


@pytest.mark.parametrize("calls", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_killed_while_pages_are_moved_leaves_a_state_that_the_next_one_reads(
    old_state: Callable[[], Store], monkeypatch: pytest.MonkeyPatch, calls: int, when: str
) -> None:
    left = calls

    def killed_at(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            is_the_last = left == 0
            if is_the_last and when == "before":
                raise KeyboardInterrupt
            result = function(*args, **kwargs)
            if is_the_last and when == "after":
                raise KeyboardInterrupt
            return result

        return counted

    with monkeypatch.context() as patched:
        for name in ("_put_back", "_insert", "_move_outcomes"):
            patched.setattr(sqlite_moves, name, killed_at(getattr(sqlite_moves, name)))
        for name in ("bring_up_to_date", "_move", "_move_outcomes", "_write"):
            patched.setattr(redis_moves.Mover, name, killed_at(getattr(redis_moves.Mover, name)))
        with pytest.raises(KeyboardInterrupt):
            old_state()
    store = old_state()
    check(store)
    store.close()


def test_a_page_that_belongs_where_a_damaged_one_is_stays_where_it_is(
    state_url: str, namespace: str, old_state: Callable[[], Store], caplog: pytest.LogCaptureFixture
) -> None:
    place = page_id_of(HOME)
    if state_url.startswith("sqlite"):
        with sqlite3.connect(state_url.removeprefix("sqlite:///")) as db:
            db.execute(
                f'UPDATE "{namespace}.pages" SET body = ? WHERE id = ?', (b"\xff" * 9, place)
            )
        db.close()
    else:
        kind: Any = RedisCluster if "+cluster" in state_url else redis.Redis
        with kind.from_url(state_url.replace("+cluster", "")) as server:
            key = f"{namespace}:{{{place % 65_536:04x}}}:pages"
            server.hset(key, place.to_bytes(8, "little", signed=True), b"\xff" * 9)
    store = old_state()
    assert f"the page with id {fingerprint(page_surt(INDEX))} in" in caplog.text
    kept = store.load([fingerprint(page_surt(INDEX))])
    assert [decode_page(body).url for body in kept.values()] == [INDEX]
    assert page_id_of(SMITH) in store.load([page_id_of(SMITH)])
    store.close()
