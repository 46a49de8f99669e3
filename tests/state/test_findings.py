"""The newest things of pages, kept as text beside the pages."""

import pytest

from hacs_crawler.state.findings import (
    KIND,
    MOST_BYTES,
    Finding,
    Findings,
    all_findings,
    findings_text,
    read_findings,
    write_findings,
)
from hacs_crawler.state.store import Annotation, Store


def of(*seconds: int, title: str = "") -> Findings:
    return Findings(title, tuple(Finding(at, "text", f"of {at}") for at in seconds))


def test_what_was_written_is_read(store: Store) -> None:
    link = Finding(10, "link", "A ü", "http://a.example/x")
    item = Finding(10, "item", "price 9.99", "", "price 10.49")
    found = {1: Findings("The page", (link, item)), -2: of(20)}
    write_findings(store, found, 20)
    assert read_findings(store, [1, -2, 3]) == found
    assert dict(all_findings(store)) == found


def test_the_newest_are_kept_in_whatever_order_they_come(store: Store) -> None:
    for at in (20, 10, 40, 30, 30):
        write_findings(store, {1: of(at)}, 3)
    assert read_findings(store, [1]) == {1: of(40, 30, 20)}


def test_a_title_is_kept_until_another_one_is_read(store: Store) -> None:
    for title, at in (("Old", 1), ("", 2), ("New", 3), ("", 4)):
        write_findings(store, {1: of(at, title=title)}, 2)
    assert read_findings(store, [1]) == {1: of(4, 3, title="New")}


def test_damaged_entries_are_left_out_and_written_again(store: Store) -> None:
    store.annotate(KIND, [Annotation(1, b"", b"{nothing")])
    assert read_findings(store, [1]) == {}
    assert dict(all_findings(store)) == {}
    write_findings(store, {1: of(10)}, 20)
    assert read_findings(store, [1]) == {1: of(10)}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("  a\n\tb ", "a b"),
        ("News http://me:secret@a.example/x", "News http://a.example/x"),
        ("\u202egnp.exe\x1b[31m", "\\u202egnp.exe\\x1b[31m"),
        ("x" * MOST_BYTES, "x" * MOST_BYTES),
        ("ü" * MOST_BYTES, "ü" * 98 + "…"),
    ],
)
def test_a_text_is_one_line_without_logins_cut_at_a_character(text: str, kept: str) -> None:
    assert findings_text(text) == kept
    assert len(kept.encode()) <= MOST_BYTES
