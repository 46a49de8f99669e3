"""Recording visits and estimating rates, on every store."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hacs_crawler.links.keys import page_id_of
from hacs_crawler.model import DEFAULT_PRIOR
from hacs_crawler.state.database import Restored, State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.state.recorded import Recorded, merged
from hacs_crawler.state.rows import ROW
from hacs_crawler.state.store import Change, Store
from hacs_crawler.utils.times import DAY
from state_support import page_after, visit

URLS = [f"http://example.edu/~a{number}/" for number in range(4)]


def state_of(store: Store) -> State:
    return State(store, Estimation())


def loaded(store: Store, url: str) -> Page:
    return state_of(store).load([page_id_of(url)])[page_id_of(url)]


def test_several_visits_of_a_page_in_one_batch_are_taken_in_time_order(store: Store) -> None:
    recorded = state_of(store).record([visit(URLS[0], 3, 1, 2), visit(URLS[0], 1, 1)])
    assert [one.updated for one in recorded] == [True, False]
    assert [one.new_marks for one in recorded] == [{2}, frozenset()]


def test_the_rate_and_the_last_update_are_written_with_the_visit(store: Store) -> None:
    state_of(store).record([visit(URLS[0], 1, 0)])
    assert loaded(store, URLS[0]).rate == pytest.approx(DEFAULT_PRIOR.mean_rate)
    state_of(store).record([visit(URLS[0], day, *range(day)) for day in range(2, 30)])
    page = loaded(store, URLS[0])
    row = store.rows(np.array([page_id_of(URLS[0])]))[0]
    assert row["rate"] == np.float32(page.rate) > DEFAULT_PRIOR.mean_rate
    assert row["last_update"] == page.last_update == 29 * DAY


def test_a_page_known_to_the_caller_costs_one_round_trip_and_two_more_if_sites_count(
    store: Store,
) -> None:
    state = state_of(store)
    state.record([visit(url, 1, 1) for url in URLS])
    known = state.load([page_id_of(url) for url in URLS])
    counting = CountingStore(store)
    State(counting, Estimation()).record([visit(url, 2, 1, 2) for url in URLS], known)
    assert counting.calls == ["hold_notes", *["read_meta"] * 4, "write"]
    for day, claims in ((3, ["annotations", "annotate"]), (4, [])):
        known = state.load([page_id_of(url) for url in URLS])
        counting = CountingStore(store)
        by_site = State(counting, Estimation(updates="site"))
        by_site.record([visit(url, day, 1, 2) for url in URLS], known)
        assert counting.calls == ["hold_notes", *["read_meta"] * 4, *claims, "write"]


@pytest.mark.cluster
def test_two_workers_at_once_leave_the_state_as_if_one_came_after_the_other(
    open_state: Callable[[], Store],
) -> None:
    def work(store: Store, first_day: int) -> None:
        state = state_of(store)
        for day in range(first_day, 61, 2):
            state.record([visit(URLS[0], day, *range(day))])

    stores = [open_state(), open_state()]
    with ThreadPoolExecutor() as threads:
        [*threads.map(work, stores, (1, 2))]
    page = loaded(stores[0], URLS[0])
    assert [at // DAY for at in page.visits] == list(range(1, 61))
    assert page.new_marks_by_visit() == [0] + [1] * 59


histories = st.lists(
    st.builds(
        visit, st.sampled_from(URLS), st.integers(1, 30), st.integers(1, 5), st.integers(1, 9)
    ),
    max_size=12,
    unique_by=lambda one: (one.url, one.at),
)


@settings(suppress_health_check=list(HealthCheck), max_examples=25, deadline=None)
@given(history=histories, random=st.randoms(use_true_random=False), size=st.integers(1, 5))
def test_the_order_and_the_batches_of_recording_do_not_matter(
    new_store: Callable[[], Store], history: list[Visit], random: object, size: int
) -> None:
    shuffled = history[:]
    random.shuffle(shuffled)
    one, other = new_store(), new_store()
    state_of(one).record(sorted(history, key=lambda visit: visit.at))
    for start in range(0, len(shuffled), size):
        state_of(other).record(shuffled[start : start + size])
    for url in URLS:
        assert comparable(one, url) == comparable(other, url)


@settings(suppress_health_check=list(HealthCheck), max_examples=25, deadline=None)
@given(before=histories, theirs=histories, ours=histories)
def test_visits_that_the_caller_has_merged_already_lead_to_the_same_state(
    new_store: Callable[[], Store], before: list[Visit], theirs: list[Visit], ours: list[Visit]
) -> None:
    found, stores = [], (new_store(), new_store())
    for store, has_merged in zip(stores, (False, True), strict=True):
        state = state_of(store)
        state.record(before)
        known = state.load([page_id_of(url) for url in URLS])
        known = {page_id_of(url): known.get(page_id_of(url), Page(url)) for url in URLS}
        merges = chained(known, ours)
        state.record(theirs)  # by another process, meanwhile
        found.append(state.record(ours, known, merges if has_merged else ()))
    assert [one.new_marks for one in found[0]] == [one.new_marks for one in found[1]]
    for url in URLS:
        assert comparable(stores[0], url) == comparable(stores[1], url)


def chained(known: dict[int, Page], visits: list[Visit]) -> list[Recorded]:
    """Merge visits with pages, those of one page one after the other."""
    latest, merges = {**known}, []
    for one in visits:
        page = latest[page_id_of(one.url)]
        merges.append(merged(page, one))
        latest[page_id_of(one.url)] = merges[-1].after
    return merges


def test_what_the_caller_has_merged_is_merged_again_only_where_another_one_wrote(
    store: Store,
) -> None:
    state = state_of(store)
    state.record([visit(url, 1, 1) for url in URLS[:2]])
    known = state.load([page_id_of(url) for url in URLS[:2]])
    ours = [visit(url, 3, 1, 2, 3) for url in URLS[:2]]
    merges = chained(known, ours)
    state.record([visit(URLS[0], 2, 1, 2)])
    again, as_merged = state.record(ours, known, merges)
    assert as_merged is merges[1]
    assert again.new_marks == {3}


def comparable(store: Store, url: str) -> dict[str, object]:
    page = state_of(store).load([page_id_of(url)]).get(page_id_of(url), Page(url))
    page.version = 0
    page.rate = float(np.float32(page.rate))
    return {name: getattr(page, name) for name in page.__slots__}


def test_a_damaged_page_is_named_and_the_others_are_recorded_restored_and_streamed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = Change(page_id_of(URLS[0]), 0, b"\x01rubbish", bytes(ROW.itemsize))
    store.write([damaged])
    recorded = state_of(store).record([visit(URLS[0], 1, 1), visit(URLS[1], 1, 1)])
    assert [one.visit.url for one in recorded] == [URLS[1]]
    assert URLS[0] in caplog.text
    assert "damaged" in caplog.text
    caplog.clear()
    pages = [page_after(visit(url, 1, 1), rate=1.0) for url in (URLS[0], URLS[2])]
    assert state_of(store).restore(pages) == Restored(1, 0, 1)
    assert URLS[0] in caplog.text
    found = list(state_of(store).pages())
    assert {page.url for page in found if page is not None} == {URLS[1], URLS[2]}
    assert found.count(None) == 1
    assert store.load([damaged.page_id])[damaged.page_id] == damaged.body


def test_urls_are_kept_as_seen_and_those_of_one_page_meet(store: Store) -> None:
    state = state_of(store)
    state.record([visit("http://WWW.example.edu/~A", 1, 1), visit(URLS[1], 1, 1)])
    assert set(state.urls()) == {"http://WWW.example.edu/~A", URLS[1]}
    (recorded,) = state.record([visit("https://example.edu/~A/", 2, 1, 2)])
    assert recorded.new_marks == {2}


def test_the_prior_follows_the_stores_own_pages(store: Store) -> None:
    rng = np.random.default_rng(1)
    state = state_of(store)
    history = [
        Visit(f"http://example.edu/{number}", day * DAY, marks=frozenset(range(day + number % 3)))
        for number in range(400)
        for day in np.sort(rng.choice(np.arange(1, 40), 8, replace=False)).tolist()
    ]
    state.record(history)
    state.refit_prior()
    prior = state.estimation.prior
    assert prior.log_median > DEFAULT_PRIOR.log_median
    assert state_of(store).estimation.prior == prior


def test_a_restored_page_is_estimated_with_the_prior_of_this_state(store: Store) -> None:
    counting = CountingStore(store)
    page = page_after(visit(URLS[0], 1, 1), visit(URLS[0], 2, 1, 2), rate=99.0)
    state = State(counting, Estimation())
    assert state.restore([page]) == Restored(1, 0, 0)
    assert counting.calls == ["hold_notes", *["read_meta"] * 4, "write"]
    rates = state.estimation.rates([page])
    columns = rates.rate_per_day, rates.fast_share, rates.fast_per_day, rates.slow_per_day
    rate, *others = (column[0] for column in columns)
    share, fast, slow = (float(np.float32(one)) for one in others)
    row = store.rows(np.array([page_id_of(URLS[0])]))[0]
    assert (row["rate"], row["share"]) == (np.float32(rate), np.float16(share))
    assert (row["fast"], row["slow"]) == (fast, np.float16(slow))
    page.version, page.rate = 1, float(rate)
    page.share, page.fast, page.slow = share, fast, slow
    assert loaded(store, URLS[0]) == page


def test_what_restored_pages_add_is_merged_and_estimated_anew(store: Store) -> None:
    state = state_of(store)
    state.record([visit(URLS[0], 1, 1), visit(URLS[0], 3, 1, 2), visit(URLS[1], 1, 1)])
    added = [page_after(visit(URLS[0], *shown), rate=99.0) for shown in ((2, 1, 2), (4, 3))]
    assert state.restore(added) == Restored(0, 1, 0)
    page = loaded(store, URLS[0])
    assert page.new_marks_by_visit() == [0, 1, 0, 1]
    assert page.rate == pytest.approx(state.estimation.rate_per_day(page))


def test_restoring_what_is_known_writes_nothing(store: Store) -> None:
    state = state_of(store)
    state.record([visit(URLS[0], 1, 1), visit(URLS[0], 3, 1, 2)])
    before = loaded(store, URLS[0])
    part = page_after(visit(URLS[0], 1, 1), rate=99.0)
    assert state.restore([part, before]) == Restored(0, 0, 0)
    assert loaded(store, URLS[0]) == before


def history(number: int) -> list[Visit]:
    return [
        visit(url, day, *range(day // (2 + place)))
        for place, url in enumerate(URLS)
        for day in range(1, number)
    ]


def rates(store: Store) -> list[float]:
    return [loaded(store, url).rate for url in URLS]


def test_reestimating_is_estimating_what_was_recorded_with_the_other_estimator(
    new_store: Callable[[], Store],
) -> None:
    store, other = new_store(), new_store()
    State(store, Estimation("mle")).record(history(20))
    State(other, Estimation("bayes")).record(history(20))
    assert state_of(store).reestimate([page_id_of(url) for url in URLS]) == (4, 0)
    assert rates(store) == pytest.approx(rates(other))
    ids = np.array([page_id_of(url) for url in URLS])
    assert store.rows(ids)["rate"].tolist() == pytest.approx(rates(store))


def test_pages_whose_rate_stays_are_not_written_again(store: Store) -> None:
    state_of(store).record(history(20))
    assert state_of(store).reestimate([page_id_of(url) for url in URLS]) == (0, 0)
    assert loaded(store, URLS[0]).version == 1


def test_reestimating_does_not_undo_what_a_crawl_records_meanwhile(store: Store) -> None:
    class Interfering(CountingStore):
        """Records a visit between loading and writing."""

        def write(self, changes: Sequence[Change]) -> dict[int, bytes]:
            if "write" not in self.calls:
                self.calls.append("write")
                State(store, Estimation("cho")).record([visit(URLS[0], 30, *range(40))])
            return store.write(changes)

    State(store, Estimation("cho")).record(history(20))
    done = State(Interfering(store), Estimation()).reestimate([page_id_of(url) for url in URLS])
    page = loaded(store, URLS[0])
    assert done == (4, 0)
    assert page.last_visit == page.last_update == 30 * DAY
    assert page.rate == pytest.approx(Estimation().rate_per_day(page))


def test_reestimating_counts_damaged_pages_and_leaves_them_alone(store: Store) -> None:
    key = page_id_of(URLS[0])
    store.write([Change(key, 0, b"\1\0\0\0\1\0\0\0", np.zeros(1, ROW).tobytes())])
    assert state_of(store).reestimate([key]) == (0, 1)
    assert store.load([key])[key] == b"\1\0\0\0\1\0\0\0"


class CountingStore:
    """Passes calls on to a store and keeps their names."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        self.calls.append(name)
        return getattr(self._store, name)
