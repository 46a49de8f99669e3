"""All pages follow the prior: estimated anew where it changed, in a run that goes on after a kill."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redis.connection import AbstractConnection

from hacs_crawler.model import DEFAULT_PRIOR
from hacs_crawler.state import reestimation
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Visit
from hacs_crawler.state.reestimation import NOTE, Run, follow_prior
from hacs_crawler.state.store import Store
from hacs_crawler.utils.times import DAY

PAGES = 120
VISITS = 8


@pytest.fixture
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reestimation, "PAGES_A_CALL", 10)
    monkeypatch.setattr(reestimation, "SLICE_PAGES", 20)


def filled(store: Store, estimation: Estimation | None = None) -> State:
    """A state of pages that change far more often than the default prior expects."""
    random = np.random.default_rng(2)
    state = State(store, estimation or Estimation())
    state.record(
        [
            Visit(f"http://example.edu/{number}", day * DAY, marks=frozenset(range(day + 1)))
            for number in range(PAGES)
            for day in np.sort(random.choice(np.arange(1, 90), VISITS, False)).tolist()
        ]
    )
    return state


def nothing(run: Run) -> None:
    del run


def assert_followed(state: State) -> None:
    """Every page's rate, in its bytes and in its row, is what this state estimates."""
    pages = [page for page in state.pages() if page is not None]
    rates = state.estimation.rates(pages)
    assert len(pages) == PAGES
    assert [page.rate for page in pages] == pytest.approx(rates.rate_per_day.tolist())
    assert [page.share for page in pages] == pytest.approx(rates.fast_share.tolist(), rel=1e-6)
    for ids, rows in state.store.all_rows():
        loaded = state.load(ids.tolist())
        expected = [loaded[page_id].rate for page_id in ids.tolist()]
        assert rows["rate"].tolist() == np.float32(expected).tolist()


def test_pages_that_were_not_visited_follow_a_prior_that_changed(store: Store) -> None:
    state = filled(store)
    run = follow_prior(state, nothing)
    assert (run.pages, run.changed) == (PAGES, PAGES)
    assert state.estimation.prior.mean_rate > 2 * DEFAULT_PRIOR.mean_rate
    assert_followed(state)


def test_a_server_far_away_is_asked_few_times(
    redis_port: int, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"redis://127.0.0.1:{redis_port}/0", namespace, Path())
    state, asked = filled(store), 0
    send = AbstractConnection.send_packed_command

    def sent(connection: AbstractConnection, *arguments: Any, **more: Any) -> None:
        nonlocal asked
        asked += 1
        send(connection, *arguments, **more)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", sent)
    assert follow_prior(state, nothing).changed == PAGES
    assert asked <= 12
    asked = 0
    state.bound_outcomes()
    assert asked <= 2
    assert_followed(state)
    store.close()


@pytest.mark.usefixtures("_small_slices")
def test_after_a_crawl_pages_are_estimated_again_in_slices(store: Store) -> None:
    state = filled(store)
    counts = []
    while (run := follow_prior(state, nothing, visited=15)) is not None:
        counts.append(run.pages)
        state = State(store, Estimation())
    assert counts == [25, 60, 95, 120]  # the first, after a fit, is smaller
    assert_followed(state)


@pytest.mark.usefixtures("_small_slices")
def test_shards_of_a_round_have_a_slice_together(store: Store) -> None:
    filled(store).refit_prior()
    run = follow_prior(State(store, Estimation()), nothing, visited=15, shards=4)
    assert run.pages == 20


def test_a_crawl_that_brought_little_is_not_followed_by_a_fit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = filled(store)
    follow_prior(state, nothing)
    fits, refit = [], State.refit_prior

    def fitted(state: State) -> int:
        fits.append(state)
        return refit(state)

    monkeypatch.setattr(State, "refit_prior", fitted)
    assert follow_prior(state, nothing, visited=1) is None
    assert not fits
    follow_prior(state, nothing, visited=2)  # 3 visits are more than 2 % of 120 pages
    assert len(fits) == 1
    assert follow_prior(state, nothing, visited=1) is None
    assert len(fits) == 1


def test_another_share_of_churning_pages_touches_only_pages_that_may_churn(store: Store) -> None:
    state = filled(store)
    tokens = [
        Visit(f"http://example.edu/session/{number}", day * DAY, marks=frozenset({day}))
        for number in range(5)
        for day in range(1, 9)
    ]
    state.record(tokens)
    follow_prior(state, nothing)
    store.write_meta({"churning_pages": state.estimation.churning_pages * 2})
    run = follow_prior(State(store, Estimation()), nothing, shards=2)
    assert run.only_churning
    assert 5 <= run.pages < PAGES


def test_a_prior_that_is_the_same_costs_nothing_and_a_close_one_is_not_kept(store: Store) -> None:
    state = filled(store)
    follow_prior(state, nothing)
    assert follow_prior(state, nothing) is None
    assert follow_prior(State(store, Estimation()), nothing) is None
    kept = state.estimation.prior
    near = replace(kept, log_median=kept.log_median + 0.01)
    store.write_meta({"prior": {"log_median": near.log_median, "log_sd": near.log_sd}})
    state = State(store, Estimation())
    state.refit_prior()
    assert state.estimation.prior == near


@pytest.mark.parametrize(
    "changed", [Estimation(fade_days=90.0), Estimation("mle"), Estimation(updates="site")]
)
def test_another_estimator_or_fading_or_sort_of_update_takes_hold_of_every_page(
    store: Store, changed: Estimation
) -> None:
    follow_prior(filled(store), nothing)
    state = State(store, changed)
    assert follow_prior(state, nothing).pages == PAGES
    assert_followed(state)


@pytest.mark.usefixtures("_small_slices")
def test_a_run_that_was_killed_goes_on_at_the_next_end_of_a_crawl(store: Store) -> None:
    state = filled(store)

    def kill(run: Run) -> None:
        if run.pages >= 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow_prior(state, kill)
    noted = store.read_meta(NOTE)["pages"]
    assert 40 <= noted < PAGES
    counts = []
    again = State(store, Estimation())
    follow_prior(again, lambda run: counts.append(run.pages))
    assert counts[0] > noted
    assert counts[-1] == PAGES
    assert store.read_meta(NOTE) is None
    assert_followed(again)


def test_pages_that_a_crawl_with_an_older_prior_wrote_follow_at_its_end(store: Store) -> None:
    filled(store)
    late = State(store, Estimation())
    follow_prior(State(store, Estimation()), nothing)
    late.record([Visit("http://example.edu/1", 95 * DAY, marks=frozenset(range(96)))])
    assert follow_prior(late, nothing) is not None
    assert_followed(late)
