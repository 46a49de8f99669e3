"""What every store promises: each test runs on SQLite, on Redis and on a Redis Cluster.

The last takes part in all but what opens a state again.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from msgspec.structs import replace
from redis.cluster import RedisCluster

from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Annotation, sqlite
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.merging import merge, thinned
from hacs_crawler.state.outcome_log import OUTCOME, Outcomes, sorted_outcomes
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.state.redis_connection import check_address
from hacs_crawler.state.rows import ROW, encode_row
from hacs_crawler.state.site_links import KIND, LinkClaim, claim_links
from hacs_crawler.state.sqlite import SQLiteStore
from hacs_crawler.state.store import (
    SCHEMA,
    Change,
    Store,
    change_annotations,
    change_note,
    read_note,
)
from state_support import Late

URL_OF = {page_id_of(url): url for url in ("http://example.edu/", "http://example.edu/a")}
"""Of ids that are those of their page's URL; where that does not matter, other ids are used."""
IDS = np.array([5, -7, 2**63 - 1, -(2**63)], np.int64)


def change(page_id: int, seen: int = 0, at: int = 100) -> Change:
    page = Page(URL_OF.get(page_id, f"http://example.edu/{page_id}"))
    merge(page, Visit(page.url, at, marks=frozenset({1, 2})))
    page.version = seen + 1
    return Change(page_id, seen, encode_page(page), encode_row(page))


def test_nothing_is_known_to_an_empty_store_and_nothing_to_do_is_done(store: Store) -> None:
    assert store.load([1, 2]) == {}
    assert (store.count(), list(store.all_rows())) == (0, [])
    assert store.write([]) == store.load([]) == {}
    assert len(store.rows(np.zeros(0, np.int64))) == 0
    assert store.annotations("kind", []) == store.annotate("kind", []) == {}


@pytest.mark.cluster
def test_what_was_written_is_read_after_opening_again(open_state: Callable[[], Store]) -> None:
    changes = [change(page_id) for page_id in IDS.tolist()]
    assert open_state().write(changes) == {}
    assert open_state().load(IDS.tolist()) == {one.page_id: one.body for one in changes}
    assert open_state().size_bytes() > 100


def test_rows_come_in_the_order_asked_with_zeros_for_unknown_pages(store: Store) -> None:
    store.write([change(5, at=500), change(-7, at=700)])
    rows = store.rows(np.array([-7, 3, 5], np.int64))
    assert rows["last_visit"].tolist() == [700, 0, 500]
    assert rows.dtype == ROW


@pytest.mark.cluster
def test_all_rows_streams_every_page_once(store: Store) -> None:
    store.write([change(page_id, at=100) for page_id in IDS.tolist()])
    ids = np.concatenate([ids for ids, _ in store.all_rows()])
    assert sorted(ids.tolist()) == sorted(IDS.tolist())
    assert all((rows["last_visit"] == 100).all() for _, rows in store.all_rows())
    assert store.count() == len(IDS)


def test_streaming_goes_on_behind_any_batch(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_ROW_BATCH", 300)
    store.write([change(page_id) for page_id in range(-500, 500)])
    batches = [ids.tolist() for ids, _ in store.all_rows()]
    assert len(batches) > 1
    for number, batch in enumerate(batches):
        rest = [ids.tolist() for ids, _ in store.all_rows(batch[-1])]
        assert [sorted(one) for one in rest] == [sorted(one) for one in batches[number + 1 :]]
    assert list(store.all_rows(2**63 - 1)) == []


@pytest.mark.cluster
def test_a_change_is_written_if_the_version_that_it_saw_is_there(store: Store) -> None:
    first, second = change(5, at=100), change(5, at=200)
    store.write([first])
    assert store.write([second, change(-7)]) == {5: first.body}
    assert store.load([5])[5] == first.body
    assert store.rows(np.array([5]))["last_visit"].tolist() == [100]
    assert -7 in store.load([-7])
    newer = change(5, seen=1, at=200)
    assert store.write([newer, change(6, seen=3)]) == {6: b""}
    assert store.load([5, 6]) == {5: newer.body}


@pytest.mark.cluster
def test_many_pages_in_one_call(store: Store) -> None:
    assert store.write([change(page_id) for page_id in range(3_000)]) == {}
    assert len(store.load(list(range(3_000)))) == 3_000
    assert (store.rows(np.arange(12_000))["visits"] > 0).sum() == 3_000


def records(*facts: tuple[int, int]) -> Outcomes:
    outcomes = np.zeros(len(facts), OUTCOME)
    outcomes["page_id"], outcomes["at"] = zip(*facts, strict=True)
    outcomes["p"] = 0.25
    return outcomes


def kept(store: Store) -> list[tuple[int, int]]:
    return [(int(one["page_id"]), int(one["at"])) for one in sorted_outcomes(store.outcomes())]


@pytest.mark.cluster
def test_outcome_records_are_written_with_their_page(open_state: Callable[[], Store]) -> None:
    outcomes = records((5, 100), (5, 90))
    open_state().write([replace(change(5), outcomes=outcomes.tobytes()), change(-7)])
    assert sorted_outcomes(open_state().outcomes()).tolist() == outcomes[::-1].tolist()


def test_outcome_records_of_a_change_that_is_refused_are_not_written(store: Store) -> None:
    store.write([change(5)])
    store.write([replace(change(5), outcomes=records((5, 100)).tobytes())])
    assert kept(store) == []


def test_an_outcome_record_added_twice_is_kept_once(store: Store) -> None:
    store.add_outcomes(records((5, 100), (-7, 100)))
    store.add_outcomes(records((5, 100), (5, 101)))
    assert kept(store) == [(-7, 100), (5, 100), (5, 101)]


def test_outcome_records_before_a_second_are_forgotten(store: Store) -> None:
    # the third lies in the first one's bucket, out of the order of time
    store.add_outcomes(records((5, 2**31), (-7, 100), (5, 99), (5, 2**31 + 1)))
    store.trim_outcomes(100)
    assert kept(store) == [(-7, 100), (5, 2**31), (5, 2**31 + 1)]


def test_more_outcome_records_than_one_read_brings(store: Store) -> None:
    facts = [(page, at) for at in (70, 80, 90) for page in range(20_000)]
    store.add_outcomes(records(*facts))
    assert len(kept(store)) == 60_000
    store.trim_outcomes(80)
    assert len(kept(store)) == 40_000


def test_the_oldest_records_are_forgotten_once_there_are_a_tenth_too_many(store: Store) -> None:
    state = State(store, Estimation())
    store.add_outcomes(records(*((5, second) for second in range(11))))
    assert len(state.bound_outcomes(10)) == len(kept(store)) == 11
    store.add_outcomes(records((5, 11)))
    assert len(state.bound_outcomes(10)) == len(kept(store)) == 10
    assert min(kept(store)) == (5, 2)


def test_namespaces_that_differ_in_case_only_do_not_meet_or_are_refused(
    state_url: str, namespace: str
) -> None:
    lower, upper = f"news-{namespace}", f"News-{namespace}"
    one = open_store(state_url, lower, Path())
    one.write([change(5)])
    one.close()
    if state_url.startswith("sqlite"):
        for reads_only in (False, True):
            with pytest.raises(
                StateError, match=rf"namespace {lower}, .* cannot tell from {upper}"
            ):
                open_store(state_url, upper, Path(), reads_only=reads_only)
    else:
        other = open_store(state_url, upper, Path())
        assert other.load([5]) == {}
        other.close()


def test_a_newer_schema_is_refused_and_left_alone(state_url: str, namespace: str) -> None:
    store = open_store(state_url, namespace, Path())
    store.write([change(next(iter(URL_OF)))])
    store.close()
    _set_schema(state_url, namespace, 99)
    for reads_only in (False, True):
        with pytest.raises(StateError, match=r"schema 99.*upgrade hacs-crawler"):
            open_store(state_url, namespace, Path(), reads_only=reads_only)
    _set_schema(state_url, namespace, SCHEMA)
    again = open_store(state_url, namespace, Path())
    assert len(again.load([*URL_OF])) == 1
    again.close()


def test_what_only_reads_makes_no_state(state_url: str, namespace: str) -> None:
    if state_url.startswith("sqlite"):
        open_store(state_url, "another", Path()).close()
        with pytest.raises(StateError, match=rf"no state of the namespace {namespace} .* another"):
            open_store(state_url, namespace, Path(), reads_only=True)
        path = Path(state_url.removeprefix("sqlite:///"))
        with sqlite3.connect(path) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master")]
        db.close()
        assert not [name for name in tables if name.startswith(f"{namespace}.")]
        return
    reader = open_store(state_url, namespace, Path(), reads_only=True)
    assert reader.count() == 0
    reader.close()
    kind = RedisCluster if "+cluster" in state_url else redis.Redis
    with kind.from_url(state_url.replace("+cluster", "")) as client:
        assert not client.exists(f"{namespace}:notes")


def test_what_only_reads_cannot_write(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    open_store(url, "hacs", Path()).close()
    reader = open_store(url, "hacs", Path(), reads_only=True)
    with pytest.raises(StateError, match="readonly"):
        reader.write([change(5)])
    reader.close()


class Interrupted(sqlite3.Connection):
    """A connection to which something happens before a statement."""

    before: Callable[[str], object]

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self.before(sql)
        return super().execute(sql, *parameters)


def _interrupted(monkeypatch: pytest.MonkeyPatch, before: Callable[[str], object]) -> None:
    plain = sqlite3.connect

    def connect(*arguments: Any, **more: Any) -> sqlite3.Connection:
        monkeypatch.setattr(sqlite3, "connect", plain)
        connection = plain(*arguments, **more, factory=Interrupted)
        assert isinstance(connection, Interrupted)
        connection.before = before
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)


@pytest.mark.parametrize("statement", ["application_id", "user_version", "sqlite_master"])
def test_a_state_that_another_process_makes_at_the_same_moment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    made: list[Store] = []

    def make(sql: str) -> None:
        if statement in sql and not made:
            made.append(open_store(url, "hacs", Path()))
            made[0].close()

    _interrupted(monkeypatch, make)
    store = open_store(url, "hacs", Path())
    assert made
    assert store.count() == 0
    store.close()


def test_a_file_that_another_process_makes_ready_at_the_same_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(sql: str) -> None:  # at once, as SQLite does where both would have to give way
        asked.append("journal_mode" in sql)
        if asked[-1] and asked.count(True) < 3:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    _interrupted(monkeypatch, refuse)
    store = open_store(f"sqlite:///{tmp_path}/state.db", "hacs", Path())
    assert (asked.count(True), store.count()) == (3, 0)
    store.close()


def _set_schema(url: str, namespace: str, schema: int) -> None:
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
            db.execute(f"PRAGMA user_version = {schema}")
        db.close()
        return
    kind = RedisCluster if "+cluster" in url else redis.Redis
    with kind.from_url(url.replace("+cluster", "")) as client:
        client.hset(f"{namespace}:notes", "schema", schema)


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StateError, match=r"state\.db.*not a database"):
        open_store(f"sqlite:///{path}", "hacs", Path())
    assert path.read_bytes() == b"not a database at all" * 100


@pytest.mark.parametrize("reads_only", [False, True])
@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE theirs (x)"],
        ["PRAGMA journal_mode = WAL", "CREATE TABLE theirs (x)"],
        ["PRAGMA application_id = 7"],
        ["PRAGMA application_id = 7", "PRAGMA user_version = 1", "CREATE TABLE theirs (x)"],
    ],
)
def test_another_programs_database_is_refused_and_left_as_it_is(
    tmp_path: Path, statements: list[str], *, reads_only: bool
) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
    before = path.read_bytes()
    with pytest.raises(StateError, match=r"other\.db is another program's database") as caught:
        open_store(f"sqlite:///{path}", "hacs", Path(), reads_only=reads_only)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["other.db"]


def test_a_relative_path_starts_at_the_base_and_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path,
) -> None:
    open_store("sqlite:///deep/state.db", "hacs", tmp_path).close()
    assert (tmp_path / "deep" / "state.db").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"cannot open the state in .*file/state\.db"):
        open_store("sqlite:///file/state.db", "hacs", tmp_path)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        *[(url, "HACS_STATE") for url in ("mysql://x", "state.db", "sqlite://")],
        ("redis://x/abc", "HACS_STATE = 'redis://x/abc'.*number of a database"),
        ("rediss://:secret@x/1/2", "HACS_STATE = 'rediss://x/1/2'.*number of a database"),
        ("redis://127.0.0.1:1/0?nonsense=1", "no parameter 'nonsense'"),
    ],
)
def test_malformed_addresses_name_the_setting(url: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        open_store(url, "hacs", Path())


def test_parameters_of_a_server_are_known() -> None:
    for query in ("db=1", "socket_timeout=3", "replicas=1", "protocol=3", "max_connections=9"):
        check_address(f"redis://127.0.0.1:1/?{query}")


def test_a_note_is_replaced_where_what_was_seen_is_there_still(
    open_state: Callable[[], Store],
) -> None:
    store = open_state()
    assert store.swap_meta("x", None, {"a": [1, 2.5]})
    assert not store.swap_meta("x", None, 1)
    assert not store.swap_meta("x", {"a": [1]}, 1)
    assert store.swap_meta("x", {"a": [1, 2.5]}, None)
    assert store.read_meta("x") is None
    assert store.swap_meta("x", None, [])


def test_what_two_processes_add_to_a_note_at_once_is_all_in_it(
    open_state: Callable[[], Store],
) -> None:
    first, second = open_state(), open_state()

    def add(store: Store, number: int) -> None:
        change_note(store, "x", list[int], lambda known: [*(known or []), number])

    add(Late(first, lambda: add(second, 2), lambda: add(second, 3)), 1)
    assert open_state().read_meta("x") == [2, 3, 1]


@pytest.mark.cluster
def test_of_what_is_kept_under_a_key_too(open_state: Callable[[], Store]) -> None:
    first, second = open_state(), open_state()

    def add(store: Store, text: bytes) -> set[int]:
        return change_annotations(store, "kind", [7, 8], lambda key, now: now + text * (key == 7))

    assert add(Late(first, lambda: add(second, b"b"), lambda: add(second, b"c")), b"a") == {7}
    assert open_state().annotations("kind", [7, 8]) == {7: b"bca"}


@pytest.mark.cluster
def test_notes_that_are_held_are_those_read_at_first_and_what_was_written_since(
    open_state: Callable[[], Store],
) -> None:
    store, other = open_state(), open_state()
    store.write_meta({"x": 1, "y": [1]})
    with store.hold_notes():
        store.write_meta({"x": 2})
        assert [store.read_meta(key) for key in ("x", "y", "z")] == [2, [1], None]
        other.write_meta({"x": 10})
        change_note(store, "x", int, lambda known: (known or 0) + 1)
        change_note(store, "z", int, lambda known: (known or 0) + 1)
        assert [store.read_meta(key) for key in ("x", "z")] == [11, 1]
    other.write_meta({"y": [2]})
    assert [store.read_meta(key) for key in ("x", "y", "z")] == [11, [2], 1]


def test_a_note_that_never_rests_is_said_to_be_busy(store: Store) -> None:
    numbers = iter(range(1000))
    restless = Late(store, *[lambda: store.write_meta({"x": next(numbers)})] * 1000)
    with pytest.raises(
        StateUnavailableError, match="the note 'x' could not be changed: others changed it"
    ):
        change_note(restless, "x", int, lambda _: -1)


def test_a_damaged_row_is_made_anew_by_what_counts_as_an_update(
    open_state: Callable[[], Store],
) -> None:
    page = Page("http://example.edu/")
    for at in range(100, 700, 100):
        merge(page, Visit(page.url, at, marks=frozenset(range(at))))
        page.echoes = thinned([*page.echoes, at])
    page.version, page.updates = 1, "site"
    damaged = np.frombuffer(encode_row(page), ROW).copy()
    damaged["rate"] = np.nan
    key = page_id_of(page.url)
    store = open_state()
    store.write([Change(key, 0, encode_page(page), damaged.tobytes())])
    rows = State(store, Estimation()).rows(np.array([key]))
    assert (rows["updates"].tolist(), rows.tobytes()) == ([0], encode_row(page))
    assert [batch["updates"].tolist() for _, batch in store.all_rows()] == [[0]]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "1" * 5_000, "1e999", '"\\ud800"', "[" * 900 + "]" * 900, "x"]
)
@pytest.mark.parametrize("kind", [int, list[int], dict[str, int]])
def test_a_damaged_note_is_named_however_it_is_damaged(
    text: str, kind: type[Any], tmp_path: Path, redis_port: int, namespace: str
) -> None:
    in_file = open_store(f"sqlite:///{tmp_path}/state.db", namespace, Path())
    on_server = open_store(f"redis://127.0.0.1:{redis_port}/0", namespace, Path())
    with closing(in_file), closing(on_server):
        in_file._db.execute(f'INSERT INTO "{namespace}.meta" VALUES (?, ?)', ("x", text))
        with redis.Redis(port=redis_port) as client:
            client.hset(f"{namespace}:notes", "x", text)
        for store in (in_file, on_server):
            with pytest.raises(StateError, match=r"note 'x'.* damaged, remove it"):
                read_note(store, "x", kind)


@pytest.mark.cluster
def test_of_crawls_that_claim_links_of_one_site_at_once_one_has_each(
    open_state: Callable[[], Store],
) -> None:
    first, second = open_state(), open_state()

    def claim(store: Any, claims: list[LinkClaim]) -> list[Any]:
        return claim_links(claims, partial(change_annotations, store, KIND))

    rival = LinkClaim.of(7, 2, range(50, 150))
    late = Late(first, lambda: claim(second, [rival]))
    found, other = claim(late, [LinkClaim.of(7, 1, range(100)), LinkClaim.of(8, 1, range(5))])
    (theirs,) = claim(second, [rival])
    assert np.count_nonzero(found) + np.count_nonzero(theirs) == 150
    assert other.all()


# What is kept of a page or a site beside its row


SMALLEST, LARGEST = -(2**63), 2**63 - 1


def keep(store: Store, kind: str, values: dict[int, bytes]) -> dict[int, bytes]:
    return store.annotate(kind, [Annotation(key, b"", value) for key, value in values.items()])


def test_what_is_kept_by_a_kind_is_found_under_its_key(store: Store) -> None:
    values = {SMALLEST: b"a", 0: b"\x00", 7: b"c", LARGEST: b"d"}
    assert keep(store, "asked/quotes", values) == {}
    assert store.annotations("asked/quotes", [0, 8, LARGEST]) == {0: b"\x00", LARGEST: b"d"}
    assert store.annotations("asked/books", [0]) == {}


def test_all_that_is_kept_by_a_kind_is_streamed_and_its_keys_come_ascending(store: Store) -> None:
    values = {key: bytes([key % 256]) for key in (LARGEST, SMALLEST, *range(-300, 300))}
    keep(store, "asked", values)
    keep(store, "signals", {4: b"d"})
    found: dict[int, bytes] = {}
    for batch in store.all_annotations("asked"):
        assert not found.keys() & batch.keys()
        found |= batch
    assert (found, store.annotated("asked").tolist()) == (values, sorted(values))
    assert list(store.all_annotations("none")) == store.annotated("none").tolist() == []


def test_an_empty_value_removes(store: Store) -> None:
    keep(store, "asked", {5: b"a"})
    assert store.annotate("asked", [Annotation(5, b"a", b"")]) == {}
    assert store.annotations("asked", [5]) == {}
    assert store.annotated("asked").tolist() == []


def test_what_somebody_else_changed_meanwhile_is_returned_and_stays(store: Store) -> None:
    keep(store, "asked", {5: b"a", 6: b"b"})
    changes = [Annotation(5, b"old", b"c"), Annotation(6, b"b", b"d"), Annotation(7, b"gone", b"e")]
    assert store.annotate("asked", changes) == {5: b"a", 7: b""}
    assert store.annotations("asked", [5, 6, 7]) == {5: b"a", 6: b"d"}


def test_a_file_reads_what_is_asked_and_not_all_of_its_kind(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "state.db", "hacs")
    keep(store, "asked", dict.fromkeys(range(5000), b"a"))
    turns = 0

    def count() -> int:
        nonlocal turns
        turns += 1
        return 0

    store._db.set_progress_handler(count, 1_000)
    assert len(store.annotations("asked", range(500))) == 500
    store._db.set_progress_handler(None, 0)
    store.close()
    assert turns < 100  # a search takes some 20 steps, all of the kind for each key 10 million
