"""Which links are new to the site: each test runs on every store."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from hacs_crawler.links import menu_id, menu_of, page_id_of
from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.state import (
    OUTCOME,
    UPDATED,
    Estimation,
    Label,
    LinkClaim,
    MemoryStore,
    News,
    Page,
    Prediction,
    Recorded,
    State,
    Store,
    Visit,
    change_annotations,
    claim_links,
)
from hacs_crawler.state.merging import merge
from hacs_crawler.state.outcome_jsonl import from_line, to_line
from hacs_crawler.state.site_links import ENTRY, KIND, MOST_BYTES, MOST_LINKS
from hacs_crawler.utils.times import DAY
from state_support import visit

HOME, PAPERS = "http://a.example/~ada/", "http://a.example/~ada/papers.html"
TALKS = "http://a.example/~ada/talks.html"


def owned(store: Store, page: int, *links: int, site: int = 7) -> list[bool]:
    (found,) = claim(store, [LinkClaim.of(site, page, links)])
    return found.tolist()


def claim(store: Store, claims: Sequence[LinkClaim]) -> list[NDArray[np.bool_]]:
    return claim_links(claims, partial(change_annotations, store, KIND))


def memories(store: Store, *sites: int) -> dict[int, bytes]:
    return store.annotations(KIND, sites)


def state_of(store: Store, updates: str = "site") -> State:
    return State(store, Estimation(updates=updates))


def new_to_site(recorded: Sequence[Recorded]) -> list[set[int]]:
    return [set(one.new_to_site or ()) for one in recorded]


def page_in(state: State, url: str) -> Page:
    return state.load([page_id_of(url)])[page_id_of(url)]


def test_of_claims_made_at_once_the_first_has_the_link(store: Store) -> None:
    claims = [LinkClaim.of(7, page, [10]) for page in (3, 4)]
    assert [one.tolist() for one in claim(store, [*claims, LinkClaim.of(8, 5, [10])])] == [
        [True],
        [False],
        [True],
    ]


def test_what_is_remembered_takes_six_bytes_a_link(store: Store) -> None:
    owned(store, 1, 10, -20)
    owned(store, 2, 20)
    (memory,) = memories(store, 7, 8).values()
    assert np.frombuffer(memory, ENTRY).tolist() == [(10, 1), (2**32 - 20, 1), (20, 2)]


@pytest.mark.cluster
def test_past_the_bound_the_oldest_links_are_forgotten(store: Store) -> None:
    owned(store, 1, 10)
    owned(store, 2, *range(100, 100 + MOST_LINKS))
    assert len(memories(store, 7)[7]) == MOST_BYTES
    assert owned(store, 3, 10, 101) == [True, False]


def test_a_memory_that_is_cut_begins_anew(open_state: Callable[[], Store]) -> None:
    store = open_state()
    owned(store, 1, 10)
    cut(store)
    assert owned(store, 2, 10) == [True]
    assert owned(store, 1, 10) == [False]


def cut(store: Store) -> None:
    """Leave the memory of site 7 with a byte too few."""
    memory = memories(store, 7)[7][:-1]
    if hasattr(store, "_db"):
        store._db.execute(f"UPDATE {store._annotations} SET value = ?", (memory,))
    else:
        field = (7).to_bytes(8, "little")
        store._redis.hset(store._key(7, f"annotations:{KIND}"), field, memory)


def test_a_link_that_comes_up_on_several_pages_is_new_to_the_site_once(store: Store) -> None:
    state = state_of(store)
    state.record([visit(HOME, 1, 1), visit(PAPERS, 1, 1, 2), visit(TALKS, 2, 3)])
    found = state.record(
        [visit(PAPERS, 11, 1, 2, 7), visit(TALKS, 9, 3, 7), visit(HOME, 10, 1, 7, 8)]
    )
    assert new_to_site(found) == [set(), {7}, {8}], "of those recorded together the earliest has it"
    assert [one.updated for one in found] == [True, True, True]
    assert [one.updated_site for one in found] == [False, True, True]


def test_where_pages_count_a_site_is_neither_asked_nor_told(store: Store) -> None:
    state = state_of(store, "page")
    state.record([visit(HOME, 1, 1), visit(PAPERS, 1, 1)])
    for found in state.record([visit(HOME, 9, 1, 7), visit(PAPERS, 9, 1, 7)]):
        assert found.updated
        assert found.new_to_site is None
    assert memories(store, menu_id(HOME)) == {}


def test_what_a_page_shows_is_told_to_its_site_from_when_sites_count(store: Store) -> None:
    state_of(store, "page").record([visit(HOME, 1, 1), visit(PAPERS, 1, 1)])
    by_site = state_of(store)
    by_site.record([visit(HOME, 2, 1), visit(PAPERS, 2, 1)])
    assert new_to_site(by_site.record([visit(HOME, 9, 1, 7), visit(PAPERS, 9, 1, 7)])) == [
        {7},
        set(),
    ]


def test_a_link_that_a_page_had_on_its_first_visit_is_not_new_to_the_site(store: Store) -> None:
    state = state_of(store)
    state.record([visit(HOME, 1, 1)])
    state.record([visit(PAPERS, 5, 7)])
    (found,) = state.record([visit(HOME, 9, 1, 7)])
    assert found.updated
    assert not found.updated_site


def test_visits_recorded_a_second_time_bring_the_same(store: Store) -> None:
    state = state_of(store)
    state.record([visit(HOME, 1, 1), visit(PAPERS, 1, 1)])
    visits = [visit(HOME, 8, 1, 7), visit(PAPERS, 9, 1, 7)]
    for _ in range(2):
        assert new_to_site(state.record(visits)) == [{7}, set()]
    assert list(page_in(state, PAPERS).echoes) == [9 * DAY]
    assert list(page_in(state, HOME).echoes) == []


def test_two_workers_that_find_a_link_on_one_page_both_have_it_for_that_page(
    open_state: Callable[[], Store],
) -> None:
    workers = [state_of(open_state()) for _ in range(2)]
    workers[0].record([visit(HOME, 1, 1), visit(PAPERS, 1, 1)])
    stale = workers[1].load([page_id_of(HOME)])
    (first,) = workers[0].record([visit(HOME, 8, 1, 7)])
    (second,) = workers[1].record([visit(HOME, 9, 1, 7)], stale)
    assert first.updated_site
    assert not second.updated  # it was known by then, as the store said
    assert list(page_in(workers[0], HOME).echoes) == []


def test_an_update_without_known_links_is_taken_for_new_to_the_site(store: Store) -> None:
    state = state_of(store)
    visits = [Visit(HOME, day * DAY, digest=day) for day in (1, 9)]
    assert [one.updated_site for one in state.record(visits)] == [False, True]


def test_a_page_that_was_imported_tells_its_site_its_links_when_it_shows_them(store: Store) -> None:
    state = state_of(store)
    old = [Page(url) for url in (HOME, PAPERS)]
    for page in old:
        merge(page, Visit(page.url, DAY, marks=frozenset({1})))
    state.restore(old)
    found = state.record([visit(HOME, 8, 1, 7), visit(PAPERS, 9, 1, 7)])
    assert [one.updated_site for one in found] == [True, False]


def test_what_saw_no_links_claims_none(store: Store) -> None:
    state = state_of(store)
    state.record([visit(HOME, 1, 1)])
    before = memories(store, menu_id(HOME))
    state.record([Visit(HOME, 2 * DAY), Visit(HOME, 3 * DAY, News.FAILED)])
    state.record([Visit(PAPERS, 2 * DAY), Visit(PAPERS, 3 * DAY, News.GONE)])
    assert memories(store, menu_id(HOME)) == before
    assert not page_in(state, PAPERS).is_in_site


def test_rates_are_learned_from_what_counts_as_an_update(store: Store) -> None:
    state = state_of(store)
    state.record([visit(url, day, *links) for url in (HOME, PAPERS) for day, links in history()])
    pages = [page_in(state, url) for url in (HOME, PAPERS)]
    assert list(pages[1].update_times) == []
    rates = []
    for updates in ("page", "site"):
        Estimation(updates=updates).estimate(pages)
        rates.append([page.rate for page in pages])
    of_page, of_site = rates
    assert of_page[0] == pytest.approx(of_page[1])
    assert of_site[0] == pytest.approx(of_page[0])
    assert of_site[1] < of_site[0] / 3


def history() -> list[tuple[int, range]]:
    """Visits every ten days, with a link more each time."""
    return [(10 * number, range(number + 1)) for number in range(1, 8)]


def prediction() -> Prediction:
    numbers = dict.fromkeys(("p", "rate_per_day", "days_since_visit", "churn"), 0.5)
    return Prediction(label=1, run=1, **numbers)


def ranked(url: str, day: int, *links: int) -> Visit:
    return replace(visit(url, day, *links), prediction=prediction())


@pytest.mark.parametrize(("updates", "updated"), [("page", [True, True]), ("site", [True, False])])
def test_outcome_records_say_what_counted(store: Store, updates: str, updated: list[bool]) -> None:
    state = state_of(store, updates)
    state.record([visit(HOME, 1, 1), visit(PAPERS, 1, 1)])
    state.record([ranked(HOME, 8, 1, 7, 8), ranked(PAPERS, 9, 1, 7), ranked(PAPERS, 10, 1, 7)])
    found = state.outcomes()
    assert ((found["flags"] & UPDATED) > 0).tolist() == [*updated, False]
    assert found["new_links"].tolist() == [2, 1, 0]
    assert (found["new_to_site"] > 0).tolist() == [*updated, False]


def test_lines_of_outcome_records_say_what_was_new_to_the_site() -> None:
    label = Label("hacs", "bayes", 365.0, "visit", siblings=True, updates="site")
    outcome = np.zeros(1, OUTCOME)
    outcome["at"] = outcome["run"] = DAY
    outcome["new_links"], outcome["new_to_site"] = 3, 2
    line = to_line(outcome[0], label, None)
    assert json.loads(line)["new_to_site"] == 2
    values, read = from_line(line)
    assert read == label
    assert values[OUTCOME.names.index("new_to_site") - 1] == 2


def test_labels_tell_what_p_was_of(store: Store) -> None:
    page = Label("hacs", "bayes", 365.0, "visit", siblings=True)
    site = dataclasses.replace(page, updates="site")
    assert page.number != site.number
    assert site.model == f"{page.model}, new to the site"
    state = state_of(store)
    state.keep_label(page)
    assert state.label(page.number) == page


def test_pages_that_churn_claim_nothing(store: Store) -> None:
    state = state_of(store)
    state.record([visit(HOME, 1, 1), visit(PAPERS, 1, 1)])
    trap = page_in(state, HOME)
    trap.churn = 0.9
    before = memories(store, menu_id(HOME))
    (found,) = state.record([visit(HOME, 2, 1, 77)], {page_id_of(HOME): trap})
    assert found.updated_site
    assert memories(store, menu_id(HOME)) == before


def test_a_baseline_under_other_rules_of_links_claims_all_that_it_shows(store: Store) -> None:
    state = state_of(store)
    state.record([replace(visit(url, 1, 1), rules=1) for url in (HOME, PAPERS)])
    state.record([replace(visit(url, 2, 2), rules=2) for url in (HOME, PAPERS)])
    (found,) = state.record([replace(visit(PAPERS, 3, 2, 7), rules=2)])
    assert (found.updated, found.updated_site) == (True, True)
    memory = np.frombuffer(memories(store, menu_id(HOME))[menu_id(HOME)], ENTRY)
    assert memory["link"].tolist() == [1, 2, 7]
    of_home, of_papers = (page_id_of(url) & 0xFFFF for url in (HOME, PAPERS))
    assert memory["page"].tolist() == [of_home, of_home, of_papers]


def p_of(state: State, ids: NDArray[np.int64]) -> float:
    options = RankingOptions(POLICIES["hacs"])
    candidates = candidates_from(ids, state.rows(ids), 100 * DAY, state.estimation, options)
    return float(candidates.p[0])


def test_where_sites_count_an_echo_on_a_sibling_makes_no_page_rise() -> None:
    rises = []
    for updates in ("page", "site"):
        state = state_of(MemoryStore(), updates)
        state.record([visit(url, day, 1) for url in (HOME, PAPERS, TALKS) for day in (1, 40, 80)])
        state.record([visit(TALKS, 81, 1, 7)])
        ids = np.array([page_id_of(url) for url in (HOME, PAPERS, TALKS)])
        before = p_of(state, ids)
        (echo,) = state.record([visit(PAPERS, 99, 1, 7)])
        assert echo.updated
        assert echo.updated_site == (updates == "page")
        rises.append(p_of(state, ids) - before)
    assert rises[0] > 0.0
    assert rises[1] <= 0.0


def test_where_sites_count_siblings_that_share_a_menu_only_are_not_updated_together() -> None:
    together = []
    for updates in ("page", "site"):
        state = state_of(MemoryStore(), updates)
        urls = [f"http://a.example/~ada/{number}.html" for number in range(8)]
        state.record([visit(url, day, *links) for url in urls for day, links in history()])
        state.refit_prior()
        together.append(state.estimation.sibling_correlation)
    assert together[1] < together[0]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://www.a.example/x/y/z.html", "a.example"),
        ("https://a.example", "a.example"),
        ("http://a.example/%7EAda/x/y.html", "a.example/~ada"),
        ("http://a.example:8080/~ada", "a.example/~ada"),
    ],
)
def test_pages_share_a_menu_with_their_host_or_their_author_s_pages(url: str, place: str) -> None:
    assert menu_of(url) == place
