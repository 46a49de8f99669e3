"""What signals said of pages, kept beside sites and sources."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.model import trust_of
from hacs_crawler.parts.signals.register import (
    SignalSource,
    change_sources,
    claim_source,
    known_sources,
    read_sources,
    write_sources,
)
from hacs_crawler.state import (
    Annotation,
    Estimation,
    MemoryStore,
    Others,
    State,
    Store,
    Visit,
    read_known_signals,
    record_signals,
    refit_signals,
    source_id,
    trusted_sources,
)
from hacs_crawler.state.signals import KnownSignals
from hacs_crawler.utils.times import DAY

START = 20_000 * DAY
HOST = "http://a.example"
URLS = [f"{HOST}/{number}.html" for number in range(20)]


def visited(store: Store, days: float = 0, urls: list[str] = URLS, links: int = 1) -> State:
    state = State(store, Estimation())
    at = int(START + days * DAY)
    state.record([Visit(url, at, marks=frozenset(range(links))) for url in urls])
    return state


def listen(
    state: State, days: float, times: dict[str, float], others: Others = "gone", sites: Any = ()
) -> tuple[int, ...]:
    ids = np.array([page_id_of(url) for url in times], np.int64)
    shown = np.array([int(START + day * DAY) for day in times.values()], np.int64)
    now = int(START + days * DAY)
    return record_signals(state, "sitemap", HOST, now, ids, shown, others=others, sites=sites)


def learn(store: Store) -> None:
    """Visit all pages nine times, each time three days after the source has said that it is new."""
    state = visited(store)
    for turn in range(1, 10):
        listen(state, 10 * turn - 1, dict.fromkeys(URLS, 10.0 * turn - 3))
        visited(store, 10 * turn, links=1 + turn)


def known(store: Store) -> KnownSignals:
    (found,) = read_known_signals(store, np.array([site_id(URLS[0])]))
    return found


def recorded(store: Store) -> dict[str, float]:
    """What was recorded of the first page."""
    records = known(store).records
    (record,) = records[records["page_id"] == page_id_of(URLS[0])]
    return {name: record[name].item() for name in record.dtype.names or ()}


def test_signals_since_the_last_visit_are_counted_and_the_time_watched(store: Store) -> None:
    state = visited(store)
    assert listen(state, 2, {URLS[0]: -5}) == (site_id(URLS[0]),)
    assert (recorded(store)["count"], recorded(store)["watched"]) == (0, 2.0)
    listen(state, 6, {URLS[0]: 3})
    listen(state, 7, {URLS[0]: 3})
    found = recorded(store)
    assert (found["count"], found["first"]) == (1, START + 3 * DAY)
    assert found["watched"] == 2 + 3 + 1, "of days 2 to 3 nobody knows whether there was another"


def test_a_visit_begins_anew_and_what_it_found_is_learned(store: Store) -> None:
    state = visited(store)
    for turn in range(1, 13):
        signalled = dict.fromkeys(URLS[::2], 10.0 * turn - 3)
        listen(state, 10 * turn - 1, {**dict.fromkeys(URLS, -5.0), **signalled})
        visited(store, 10 * turn, URLS[::2], links=1 + turn)
        visited(store, 10 * turn, URLS[1::2])
    listen(state, 121, dict.fromkeys(URLS, 117.0))
    assert recorded(store)["count"] == 0
    trust = trust_of(known(store).weights[0])
    assert trust.recall > 0.8
    assert trust.false_per_day < 0.01


def test_a_source_that_is_read_after_the_visit_tells_of_the_time_before(store: Store) -> None:
    state = visited(store)
    for turn in range(1, 9):
        listen(state, 10 * turn - 9.9, dict.fromkeys(URLS, 10.0 * turn - 11))
        visited(store, 10 * turn, links=1 + turn)
    assert trust_of(known(store).weights[0]).recall > 0.7


def test_a_day_that_a_visit_lies_in_is_not_counted_again_after_it(store: Store) -> None:
    """A sitemap that names days: what it says of today was seen by today's visit."""
    state = visited(store)
    listen(state, 5.2, {URLS[0]: 5.99})
    assert recorded(store)["count"] == 1
    visited(store, 5.3, links=2)
    listen(state, 6.2, {URLS[0]: 5.99})
    assert recorded(store)["count"] == 0


def test_unknown_pages_are_passed_over_until_they_are_visited(store: Store) -> None:
    state = State(store, Estimation())
    assert listen(state, 0, dict.fromkeys(URLS, -1.0)) == ()
    visited(store, 1, URLS[:1])
    assert len(listen(state, 2, dict.fromkeys(URLS, -1.0))) == 1
    assert len(known(store).records) == 1


@pytest.mark.parametrize(
    ("others", "count", "watched"), [("silent", 0, 9.0), ("unread", 0, 5.0), ("gone", None, None)]
)
def test_what_becomes_of_pages_that_are_not_listed_now_is_said(
    others: Others, count: int | None, watched: float | None
) -> None:
    store = MemoryStore()
    state = visited(store)
    sites = listen(state, 5, dict.fromkeys(URLS[:2], -1.0))
    listen(state, 9, {URLS[1]: -1.0}, others, sites)
    ids = known(store).records["page_id"].tolist()
    if count is None:
        assert page_id_of(URLS[0]) not in ids
    else:
        assert recorded(store)["count"] == count
        assert recorded(store)["watched"] == watched


def test_how_sources_are_read_is_kept(store: Store) -> None:
    source = SignalSource(HOST, 5, 4, 3, {f"{HOST}/s.xml": ('"e"', "")}, (1, 2))
    write_sources(store, "sitemap", [source, SignalSource("https://b.example", tried=1)])
    unknown = "http://c.example"
    found = read_sources(store, "sitemap", [HOST, unknown])
    assert found == [source, SignalSource(unknown)]
    write_sources(store, "sitemap", [replace(source, tried=9)])
    assert [one.tried for one in known_sources(store, "sitemap", 10)] == [1, 9]
    assert known_sources(store, "feed", 10) == []


@pytest.mark.cluster
def test_a_source_that_is_due_is_claimed_by_one_crawler(store: Store) -> None:
    other = SignalSource("https://b.example", tried=1, files={"/s": ("", "")})
    write_sources(store, "sitemap", [other])
    for known in (SignalSource(HOST), other):
        assert claim_source(store, "sitemap", known, 7)
        assert not claim_source(store, "sitemap", known, 7)
        assert not claim_source(store, "sitemap", known, 8)
        (kept,) = read_sources(store, "sitemap", [known.origin])
        assert kept == replace(known, tried=7)
        assert claim_source(store, "sitemap", kept, 9)


def test_of_two_that_change_a_source_the_second_sees_what_the_first_wrote(store: Store) -> None:
    before: list[SignalSource | None] = []

    def late(_: int, now: SignalSource | None) -> SignalSource:
        before.append(now)
        if len(before) == 1:
            write_sources(store, "feed", [SignalSource(HOST, tried=3)])
        return replace(now or SignalSource(HOST), read=4)

    assert change_sources(store, "feed", [source_id(HOST)], late) == [SignalSource(HOST, 3, 4)]
    assert before == [None, SignalSource(HOST, 3)]
    assert change_sources(store, "feed", [source_id(HOST)], lambda *_: None) == []


def test_what_is_expected_of_a_new_source_is_fitted_to_those_known(store: Store) -> None:
    refit_signals(store)
    assert read_known_signals(store, np.array([1])) == []
    learn(store)
    before = trust_of(known(store).prior).recall
    refit_signals(store)
    assert trust_of(known(store).prior).recall > before


def test_how_far_sources_are_trusted_is_told_for_those_of_which_most_is_known(store: Store) -> None:
    assert trusted_sources(store, 10) == []
    learn(store)
    write_sources(store, "sitemap", [SignalSource(HOST, read=7)])
    (found,) = trusted_sources(store, 10)
    assert (found.kind, found.origin, found.read, found.pages) == ("sitemap", HOST, 7, len(URLS))
    assert found.gaps == 8 * len(URLS)
    assert found.trust.recall > 0.7
    assert trusted_sources(store, 0) == []


@pytest.mark.parametrize("body", [b"\x01", b"\x02" + bytes(56), b"\x01" + bytes(11), b"{}"])
def test_damaged_annotations_are_as_none(body: bytes) -> None:
    store = MemoryStore()
    state = visited(store)
    listen(state, 1, dict.fromkeys(URLS, -1.0))
    for kind in ("heard.sitemap", "worth.sitemap", "source.sitemap"):
        for key in store.annotated(kind).tolist():
            seen = store.annotations(kind, [key])[key]
            store.annotate(kind, [Annotation(key, seen, body)])
    found = read_known_signals(store, np.array([site_id(URLS[0])]))
    assert not any(len(one.records) for one in found)
    assert known_sources(store, "sitemap", 10) == []
    listen(state, 2, dict.fromkeys(URLS, -1.0))
    assert len(known(store).records) == len(URLS)


@pytest.mark.parametrize("note", [[], {"priors": {"sitemap": [1.0]}}, {"priors": 3}, {}])
def test_a_damaged_note_is_named(note: object) -> None:
    store = MemoryStore()
    store.write_meta({"signals": note})
    with pytest.raises(StateError, match="'signals'"):
        read_known_signals(store, np.array([1]))
