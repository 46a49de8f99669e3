"""Many simulations of the same histories, one process each, and how their policies compare."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, Final

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation.baselines import compete, find_baseline
from hacs_crawler.lab.simulation.simulation import Scenario, Score
from hacs_crawler.lab.timelines import Timelines, parse_day, read_timelines

# What every policy is compared with, asked for or not.
REFERENCES: Final = ("last-obs", "oracle")
# Histories of 40 authors of the demonstration's generator, see `benchmarks/timelines.py`.
MADE_UP: Final = Path(__file__).parent / "made-up"
START, END = "2024-01-01", "2025-01-01"
# In visits a day: each of the 120 made-up pages about every two months.
BUDGET: Final = 2
POLICIES: Final = ("hacs", "last-obs", "random", "oracle")

# Called with the simulated days so far, and all that there will be.
OnProgress = Callable[[int, int], None]
# One simulation: a policy at a budget.
Match = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy's score at a budget, and its hits over those of last-obs and of the oracle.

    The ratios are None if the other is without a hit.
    """

    budget: int
    score: Score
    hits_vs_last_obs: float | None
    hits_vs_oracle: float | None

    def as_row(self) -> dict[str, Any]:
        """Return the budget, the score's fields and the ratios."""
        return {
            "budget": self.budget,
            **asdict(self.score),
            "hits_vs_last_obs": self.hits_vs_last_obs,
            "hits_vs_oracle": self.hits_vs_oracle,
        }


def histories(folder: Path, start: str, end: str) -> tuple[Timelines, int, int]:
    """Return the histories in a folder, captures if it has any, and the seconds of two days.

    Raises HacsError.
    """
    pages, updates, captures = (folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    timelines = read_timelines(pages, updates, captures if captures.exists() else None)
    return timelines, parse_day(start, "start"), parse_day(end, "end")


def compare(
    scenario: Scenario,
    names: Sequence[str],
    budgets: Sequence[int],
    processes: int | None = None,
    on_progress: OnProgress = lambda _done, _total: None,
) -> list[Standing]:
    """Simulate every policy at every budget: return the standings, budget by budget.

    `scenario.budget` is not used. The result does not depend on the number of processes (by default one
    a core). Raises HacsError for an unknown name, and if a policy fails.
    """
    for name in names:
        find_baseline(name)
    matches = _matches(names, budgets)
    workers = min(processes or os.cpu_count() or 1, len(matches))
    play = _play_here if workers == 1 else _play_in_parallel
    scores = play(scenario, matches, workers, on_progress)
    return [_standing(scores, name, budget) for budget in budgets for name in dict.fromkeys(names)]


def _matches(names: Sequence[str], budgets: Sequence[int]) -> list[Match]:
    """Return the matches to simulate; a policy without budget once, the longest first."""
    wanted = dict.fromkeys([*names, *REFERENCES])
    return list(
        dict.fromkeys(
            _match(name, budget) for budget in sorted(budgets, reverse=True) for name in wanted
        )
    )


def _match(name: str, budget: int) -> Match:
    return name, 1 if name == "brute-force" else budget


def _standing(scores: dict[Match, Score], name: str, budget: int) -> Standing:
    score, *others = (scores[_match(other, budget)] for other in (name, *REFERENCES))
    ratios = [score.hits / other.hits if other.hits else None for other in others]
    return Standing(budget, score, *ratios)


def _play_here(
    scenario: Scenario, matches: Sequence[Match], _workers: int, on_progress: OnProgress
) -> dict[Match, Score]:
    total, done = len(matches) * len(scenario.days()), 0

    def on_day() -> None:
        nonlocal done
        done += 1
        on_progress(done, total)

    return {match: _play(scenario, match, on_day) for match in matches}


def _play_in_parallel(
    scenario: Scenario, matches: Sequence[Match], workers: int, on_progress: OnProgress
) -> dict[Match, Score]:
    # a fork would copy the locks of the bar's thread
    context = get_context("spawn")
    others, days = set(active_children()), len(scenario.days())
    scores: dict[Match, Score] = {}
    with ProcessPoolExecutor(workers, context, _start_worker) as pool:
        try:
            with _for_children():
                futures = {pool.submit(_play, scenario, match): match for match in matches}
            for future in as_completed(futures):
                scores[futures[future]] = future.result()
                on_progress(len(scores) * days, len(matches) * days)
        except BrokenProcessPool as error:
            raise HacsError("a process that simulated was ended from outside") from error
        except BaseException:  # Ctrl-C too: nobody waits for the other results any more
            for worker in set(active_children()) - others:
                worker.terminate()
            raise
    return scores


@contextmanager
def _for_children() -> Iterator[None]:
    """Make processes that start in this block ignore Ctrl-C, and use one core each."""
    has_masks = hasattr(signal, "pthread_sigmask")  # not on Windows
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if has_masks else ()
    threads = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if threads is None:
            del os.environ["OPENBLAS_NUM_THREADS"]
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = threads
        if has_masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the other side is killed: its queue would be waited for for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _play(scenario: Scenario, match: Match, on_day: Callable[[], None] = lambda: None) -> Score:
    name, budget = match
    return compete(replace(scenario, budget=budget), name, on_day)
