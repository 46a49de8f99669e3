"""What is kept of a page or a site beside its row, in each kind of store."""

from pathlib import Path

from hacs_crawler.state import Annotation, Store
from hacs_crawler.state.sqlite import SQLiteStore

SMALLEST, LARGEST = -(2**63), 2**63 - 1


def keep(store: Store, kind: str, values: dict[int, bytes]) -> dict[int, bytes]:
    return store.annotate(kind, [Annotation(key, b"", value) for key, value in values.items()])


def test_what_is_kept_by_a_kind_is_found_under_its_key(store: Store) -> None:
    values = {SMALLEST: b"a", 0: b"\x00", 7: b"c", LARGEST: b"d"}
    assert keep(store, "asked/quotes", values) == {}
    assert store.annotations("asked/quotes", [0, 8, LARGEST]) == {0: b"\x00", LARGEST: b"d"}
    assert store.annotations("asked/books", [0]) == {}


def test_all_keys_of_a_kind_come_ascending(store: Store) -> None:
    keep(store, "asked", {5: b"a", SMALLEST: b"b", 3: b"c"})
    keep(store, "signals", {4: b"d"})
    assert store.annotated("asked").tolist() == [SMALLEST, 3, 5]
    assert store.annotated("none").tolist() == []


def test_all_that_is_kept_by_a_kind_is_streamed(store: Store) -> None:
    values = {key: bytes([key % 256]) for key in range(-300, 300)}
    keep(store, "asked", values)
    keep(store, "signals", {4: b"d"})
    found: dict[int, bytes] = {}
    for batch in store.all_annotations("asked"):
        assert not found.keys() & batch.keys()
        found |= batch
    assert found == values
    assert list(store.all_annotations("none")) == []


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
