"""What updates brought, kept as text beside the pages."""

from __future__ import annotations

import pytest

from hacs_crawler.state.findings import (
    KIND,
    MOST_BYTES,
    Findings,
    findings_text,
    read_findings,
    write_findings,
)
from hacs_crawler.state.store import Annotation, Store


def test_what_was_written_is_read(store: Store) -> None:
    found = {1: Findings(10, ("a", "ü")), -2: Findings(20, ("b",))}
    write_findings(store, found)
    assert read_findings(store, [1, -2, 3]) == found


def test_the_later_update_is_kept_in_whatever_order_they_come(store: Store) -> None:
    for at in (20, 10, 30, 30):
        write_findings(store, {1: Findings(at, (f"of {at}",))})
    assert read_findings(store, [1]) == {1: Findings(30, ("of 30",))}


def test_damaged_entries_are_left_out_and_written_anew(store: Store) -> None:
    store.annotate(KIND, [Annotation(1, b"", b"{nothing")])
    assert read_findings(store, [1]) == {}
    write_findings(store, {1: Findings(10, ("a",))})
    assert read_findings(store, [1]) == {1: Findings(10, ("a",))}


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
