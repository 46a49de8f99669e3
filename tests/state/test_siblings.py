"""What a state learns of its sites: how often their pages are updated together."""

import numpy as np
import pytest

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.model.siblings import USUAL_SIBLING_CORRELATION
from hacs_crawler.state import (
    Estimation,
    Ids,
    MemoryStore,
    State,
    Store,
    Visit,
    follow_prior,
    priors,
)

DAY = 86_400


def visits(url: str, updates: list[int], last_day: int = 200) -> list[Visit]:
    """Visits every other day from day 2 on; each shows a link for each update so far."""
    return [
        Visit(url, day * DAY, marks=frozenset([-1, *(at for at in updates if at <= day)]))
        for day in range(2, last_day, 2)
    ]


def site(number: int, pages: int) -> list[str]:
    return [f"http://s{number}.example.edu/~ada/{page}" for page in range(pages)]


def recorded(store: Store, urls: list[str], *, together: bool, seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    state = State(store, Estimation())
    updates: dict[int, list[int]] = {}
    for url in urls:
        days = rng.choice(np.arange(3, 199), 4, replace=False).tolist()
        if together:
            days = updates.setdefault(site_id(url), days)
        state.record(visits(url, days))
    return state


def siblings_in(store: Store) -> Ids:
    return priors.sampled(store, 0)[1]


def ids_of(urls: list[str]) -> set[int]:
    return {page_id_of(url) for url in urls}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.cluster
def test_the_next_run_knows_how_often_pages_are_updated_together(
    store: Store, together: bool
) -> None:
    urls = [url for number in range(15) for url in site(number, 3)]
    state = recorded(store, urls, together=together)
    assert state.estimation.sibling_correlation == USUAL_SIBLING_CORRELATION
    state.refit_prior()
    learned = State(store, Estimation()).estimation.sibling_correlation
    assert learned > 0.8 if together else learned < 0.25


def test_where_only_the_sibling_correlation_changed_no_page_is_estimated_anew() -> None:
    store = MemoryStore()
    state = recorded(store, [url for number in range(15) for url in site(number, 3)], together=True)
    assert follow_prior(state, lambda _: None) is not None
    store.write_meta({"siblings": {"sibling_correlation": 0.125}})
    state = State(store, Estimation())
    assert state.estimation.sibling_correlation == 0.125
    assert follow_prior(state, lambda _: None) is None


@pytest.mark.parametrize(
    ("key", "note"),
    [
        *[("siblings", note) for note in (0.5, {}, {"sibling_correlation": "much"})],
        ("siblings", {"sibling_correlation": 1.5}),
        ("prior", [1, 2]),
        *[("prior", {"log_median": median, "log_sd": 1}) for median in (1e6, "x")],
    ],
)
def test_a_damaged_note_is_named(key: str, note: object) -> None:
    store = MemoryStore()
    store.write_meta({key: note})
    with pytest.raises(StateError, match=f"the note '{key}' in the state is damaged, remove it"):
        State(store, Estimation())


def test_pages_without_update_and_pages_without_siblings_are_not_looked_at() -> None:
    store = MemoryStore()
    state = recorded(store, [*site(1, 3), *site(2, 1)], together=True)
    state.record(visits("http://s1.example.edu/~ada/quiet", []))
    assert set(siblings_in(store).tolist()) == ids_of(site(1, 3))


def test_of_a_giant_site_only_some_pages_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priors, "PAGES_TO_COMPARE", 12)
    monkeypatch.setattr(priors, "PAGES_OF_A_SITE", 5)
    store = MemoryStore()
    sites = {number: site(number, 9 if number == 3 else 3) for number in range(8)}
    recorded(store, [url for urls in sites.values() for url in urls], together=True)
    taken = set(siblings_in(store).tolist())
    sizes = {number: len(taken & ids_of(urls)) for number, urls in sites.items()}
    assert 8 <= len(taken) <= 12
    assert all(size in (0, 5 if number == 3 else 3) for number, size in sizes.items())


def test_no_more_rows_are_read_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priors, "ROWS_TO_READ", 4)
    monkeypatch.setattr("hacs_crawler.state.sqlite._ROW_BATCH", 2)
    store = MemoryStore()
    recorded(store, site(1, 9), together=True)
    assert len(siblings_in(store)) == 4
