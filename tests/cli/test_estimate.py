"""`hacs estimate`, on real states: whole, stopped, and gone on with."""

import os
import signal
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from cli_support import hacs as run, opened, record
from hacs_crawler.state import ROW, Estimation, Page, State, Store, Visit, reestimation
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY

PAGES = 100


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reestimation, "PAGES_A_CALL", 10)


def history() -> list[Visit]:
    """Visits of pages that are updated at rates which differ widely."""
    rng = np.random.default_rng(1)
    return [
        Visit(f"http://example.edu/{page}/", day * DAY, marks=frozenset(range(1 + shown)))
        for page in range(PAGES)
        for day, shown in enumerate(np.cumsum(rng.random(12) < (page + 1) / PAGES).tolist(), 1)
    ]


def fill(store: Store) -> None:
    State(store, Estimation("mle")).record(history())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with opened(tmp_path) as state:
        fill(state.store)
    return tmp_path


def pages_of(store: Store) -> dict[str, Page]:
    return {page.url: page for page in State(store, Estimation()).pages() if page is not None}


def assert_all_estimated(store: Store, estimator: str = "bayes") -> None:
    """Every rate is what the estimator and the prior kept in the state give."""
    estimation = State(store, Estimation(estimator)).estimation
    pages = list(pages_of(store).values())
    assert len(pages) == PAGES
    expected = estimation.rates(pages).rate_per_day
    assert [page.rate for page in pages] == pytest.approx(expected.tolist())


def stop_after(
    monkeypatch: pytest.MonkeyPatch, calls: int, stop: Callable[[], None]
) -> list[list[int]]:
    """Have the command meet `stop` after so many calls; returns the ids of each call."""
    asked: list[list[int]] = []
    left = iter(range(calls - 1, -1, -1))
    reestimate = State.reestimate

    def counted(self: State, page_ids: Sequence[int]) -> tuple[int, int]:
        asked.append(list(page_ids))
        done = reestimate(self, page_ids)
        if next(left, None) == 0:
            stop()
        return done

    monkeypatch.setattr(State, "reestimate", counted)
    return asked


def send(number: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def test_every_page_is_estimated_with_a_prior_fitted_before_and_a_run_that_ended_is_over(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(folder) as state:
        assert state.store.read_meta("prior") is None
    assert run(folder, "estimate").exit_code == 0
    with opened(folder) as state:
        assert state.store.read_meta("prior") is not None
        assert_all_estimated(state.store)
    assert caplog.messages[0].startswith(f"estimating {PAGES} pages of ")
    assert caplog.messages[-1] == f"{PAGES} pages estimated, {PAGES} of them changed"
    assert run(folder, "estimate").exit_code == 0
    assert caplog.messages[-1] == f"{PAGES} pages estimated, 0 of them changed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_between_two_writes(
    number: signal.Signals,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = signal.getsignal(number)
    asked = stop_after(monkeypatch, 3, send(number))
    assert run(folder, "estimate").exit_code == 128 + number
    assert caplog.messages[-1] == "stopped after 30 pages; the same command continues from there"
    assert signal.getsignal(number) == before
    monkeypatch.setattr(State, "refit_prior", lambda _: pytest.fail("fitted again"))
    assert run(folder, "estimate").exit_code == 0
    assert "going on after the 30 pages of the run that was stopped" in caplog.messages
    assert len(asked) == PAGES / 10
    with opened(folder) as state:
        assert_all_estimated(state.store)


def test_a_signal_that_is_ignored_stops_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stop_after(monkeypatch, 3, send(signal.SIGINT))
        assert run(folder, "estimate").exit_code == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("change", ["HACS_ESTIMATOR=cho", "HACS_FADE_DAYS=30", "the prior"])
def test_with_another_way_of_estimating_it_begins_anew_and_says_so(
    change: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = stop_after(monkeypatch, 3, send(signal.SIGINT))
    run(folder, "estimate")
    asked.clear()
    if change == "the prior":
        with opened(folder) as state:
            state.store.write_meta({"prior": {"log_median": -1.0, "log_sd": 0.9}})
    settings = ["-s", change] if "=" in change else []
    assert run(folder, "estimate", *settings).exit_code == 0
    assert any(said.startswith("beginning again: the run that was") for said in caplog.messages)
    assert len(set(chain(*asked))) == PAGES
    if change == "HACS_ESTIMATOR=cho":
        with opened(folder) as state:
            assert_all_estimated(state.store, "cho")


def test_damaged_pages_are_left_out_and_end_it_with_an_error(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(folder) as state:
        state.store.write([Change(7, 0, b"\1\0\0\0\1\0\0\0", np.zeros(1, ROW).tobytes())])
    assert run(folder, "estimate").exit_code == 1
    assert caplog.messages[-1] == f"{PAGES} pages estimated, 1 damaged left out"
    with opened(folder) as state:
        assert_all_estimated(state.store)
        assert state.store.read_meta(reestimation.NOTE) is None


def test_a_damaged_note_is_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(folder) as state:
        state.store.write_meta({reestimation.NOTE: {"how": {}, "pages": "7"}})
    assert run(folder, "estimate").exit_code == 1
    assert "the note 'estimate' in the state is damaged, remove it" in caplog.messages[-1]


def test_of_an_empty_state_nothing_is_estimated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(tmp_path, [])
    assert run(tmp_path, "estimate").exit_code == 0
    assert caplog.messages[-1] == "0 pages estimated, 0 of them changed"
