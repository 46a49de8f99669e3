"""An SQLite file that is locked, on a full disk, removed or replaced."""

import re
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.state import SCHEMA, Estimation, State, open_store, sqlite_file
from integration_support import Project
from reliability_support import PROMPT, Moments, fill, opened, record, visits_of, whole_pages
from servers import Site

Full = Callable[[State], AbstractContextManager[None]]
URLS = [f"http://example.edu/~{number}/" for number in range(500)]
LATER = 1_700_086_400


@contextmanager
def locked(project: Project) -> Iterator[None]:
    """Hold the file as another program that writes to it for long."""
    path = project.state.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def test_a_file_that_is_locked_for_longer_than_a_write_waits_can_be_written_to_later(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)
    with opened(project.state) as state:
        state.record(visits_of(URLS))
        with (
            locked(project),
            pytest.raises(StateUnavailableError, match=r"state\.db: database is locked"),
        ):
            state.record(visits_of(URLS, LATER))
        state.record(visits_of(URLS, LATER))
    assert {len(page.visits) for page in whole_pages(project.state).values()} == {2}


@contextmanager
def full_file(state: State) -> Iterator[None]:
    """Let the file of a state grow by next to nothing."""
    database = state.store._db
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages + 4}")
    yield
    database.execute("PRAGMA max_page_count = 1000000")


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize(
    ("known", "full", "error"),
    [
        (100, full_file, "full"),
        # at the commit
        (10, lambda state: full_disk(state.store.size_bytes()), r"state\.db: disk I/O error"),
    ],
)
def test_a_full_file_or_disk_keeps_what_it_has_and_can_be_written_to_when_there_is_room(
    known: int, full: Full, error: str, project: Project
) -> None:
    with opened(project.state) as state:
        state.record(visits_of(URLS[:known]))
        with full(state), pytest.raises(StateUnavailableError, match=error):
            state.record(visits_of(URLS))
        assert state.store.count() == known
        assert len(state.record(visits_of(URLS, LATER))) == len(URLS)
    assert len(whole_pages(project.state)) == len(URLS)


@pytest.mark.parametrize(
    ("room", "said"),
    [(sqlite_file.ROOM_BYTES - 1, "write to .*: "), (10, "open .*: its disk is full")],
)
def test_a_state_on_a_full_disk_is_refused_before_anything_is_requested(
    project: Project, room: int, said: str
) -> None:
    record(project.state, visits_of(URLS[:10]))
    refused = pytest.raises(StateUnavailableError, match=f"cannot {said}")
    with full_disk(room), refused, opened(project.state):
        pytest.fail("there is no room")


def test_a_crawl_whose_state_fails_sends_nothing_more_and_counts_what_was_answered(
    site: Site, project: Project
) -> None:
    urls = fill(site)

    def spoil() -> None:
        path = project.state.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as other, other:
            other.execute('ALTER TABLE "hacs.rows" RENAME TO "elsewhere"')

    site.asked = Moments({20: spoil})
    dropped = {"CONCURRENT_REQUESTS": 100, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    settings = {**PROMPT, **dropped, "DOWNLOAD_DELAY": 0.05, "HACS_FLUSH_VISITS": 1}
    crawl = project.crawl(urls, "level=homepage", status=1, **settings)
    asked, lost = len(site.visited()), crawl.stat("hacs/state/lost")
    assert asked < len(urls)
    with closing(sqlite3.connect(project.state.removeprefix("sqlite:///"))) as db:
        assert db.execute('SELECT count(*) FROM "hacs.pages"').fetchone() == (asked - lost,)
    said = (
        f"{lost} visits? could not be written to the state: cannot write .*state.db: no such table"
    )
    assert re.search(said, crawl.log)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_removed_while_it_is_in_use_is_missed(
    is_replaced: bool, project: Project
) -> None:
    path = Path(project.state.removeprefix("sqlite:///"))
    with opened(project.state) as state:
        state.record(visits_of(URLS))
        for name in ("state.db", "state.db-wal", "state.db-shm"):
            (path.parent / name).unlink()
        if is_replaced:
            record(project.state, visits_of(URLS[:1]))
        with pytest.raises(StateError, match=r"state\.db was removed or replaced"):
            state.record(visits_of(URLS, LATER))
    assert path.exists() == is_replaced


def test_a_state_that_a_newer_version_took_over_is_not_written_to(
    state_url: str, namespace: str
) -> None:
    with closing(open_store(state_url, namespace, Path())) as store:
        state = State(store, Estimation())
        state.record(visits_of(URLS[:3]))
        if state_url.startswith("sqlite"):
            with closing(sqlite3.connect(state_url.removeprefix("sqlite:///"))) as other:
                other.execute(f"PRAGMA user_version = {SCHEMA + 1}")
        else:
            store.write_meta({"schema": SCHEMA + 1})
        with pytest.raises(StateError, match=f"has schema {SCHEMA + 1}, newer .*upgrade"):
            state.record(visits_of(URLS[:3], LATER))
        assert {len(one.visits) for one in state.pages() if one is not None} == {1}
