"""Many simulations of the same histories, one process each, and how their policies compare."""

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

from rich.table import Table

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation.baselines import compete, find_baseline
from hacs_crawler.lab.simulation.simulation import Scenario, Score
from hacs_crawler.lab.timelines import Timelines, parse_day, read_timelines
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import shown

# Every policy is compared with these, even if they are not requested.
REFERENCES: Final = ("last-obs", "oracle")
# Histories of 40 authors of the demonstration's generator, see `benchmarks/timelines.py`.
MADE_UP: Final = Path(__file__).parent / "made-up"
START, END = "2024-01-01", "2025-01-01"
# In visits a day: each of the 120 made-up pages about every two months.
BUDGET: Final = 2
POLICIES: Final = ("hacs", "last-obs", "random", "oracle")

# The columns of a row in the printed table, which fits into 80 characters.
_TITLES: Final = (
    *("budget", "policy", "visits", "hits", "share", "found", "of", "links"),
    *("delay", "fresh", "last", "oracle"),
)
_LEGEND: Final = (
    "hits: visits that found an update; share: hits per visit; found, of: updates that were found, of "
    "all; links: new links in these; delay: days until they were found; fresh: mean share of pages "
    "without an unseen update; last, oracle: hits relative to last-obs and to the oracle"
)
# One simulation: a policy at a budget.
Match = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy's score at a budget, and the ratios of its hits to the hits of last-obs and the oracle.

    A ratio is None if the other policy is without hits.
    """

    budget: int
    score: Score
    hits_vs_last_obs: float | None
    hits_vs_oracle: float | None

    def as_row(self) -> dict[str, Any]:
        """Return the budget, the score's fields and the ratios."""
        row = asdict(self)
        score = row.pop("score")
        return {"budget": row.pop("budget"), **score, **row}


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
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[Standing]:
    """Simulate every policy at every budget: return the standings, budget by budget.

    `scenario.budget` is not used. The result does not depend on the number of processes (by default one
    a core). `on_progress` gets the finished and the total number of simulations. Raises HacsError for an
    unknown name, and if a policy fails.
    """
    for name in names:
        find_baseline(name)
    wanted = dict.fromkeys([*names, *REFERENCES])
    # the longest first
    most_first = sorted(budgets, reverse=True)
    matches = list(dict.fromkeys(_match(name, budget) for budget in most_first for name in wanted))
    workers = min(processes or os.cpu_count() or 1, len(matches))
    scores: dict[Match, Score] = {}
    for match, score in _played(scenario, matches, workers):
        scores[match] = score
        on_progress(len(scores), len(matches))
    standings = []
    for budget in budgets:
        references = [scores[name, budget].hits for name in REFERENCES]
        for name in dict.fromkeys(names):
            score = scores[_match(name, budget)]
            ratios = [score.hits / hits if hits else None for hits in references]
            standings.append(Standing(budget, score, *ratios))
    return standings


def _match(name: str, budget: int) -> Match:
    """Return the simulation of a policy at a budget; a policy without one is simulated once."""
    return name, 1 if name == "brute-force" else budget


def _played(
    scenario: Scenario, matches: Sequence[Match], workers: int
) -> Iterator[tuple[Match, Score]]:
    if workers == 1:
        yield from ((match, _play(scenario, match)) for match in matches)
        return
    # a fork would copy the locks of the bar's thread
    context, others = get_context("spawn"), set(active_children())
    with ProcessPoolExecutor(workers, context, _start_worker) as pool:
        try:
            with _for_children():
                futures = {pool.submit(_play, scenario, match): match for match in matches}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise HacsError("a process that simulated was ended from outside") from error
        except BaseException:  # also Ctrl-C: the other results are not needed any more
            for worker in set(active_children()) - others:
                worker.terminate()
            raise


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
    """End this process when the parent is killed: otherwise it would wait for the queue forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _play(scenario: Scenario, match: Match) -> Score:
    name, budget = match
    return compete(replace(scenario, budget=budget), name)


def standings_parts(standings: Sequence[Standing]) -> Iterator[str | Table]:
    """Yield the standings as a table in Markdown, and a sentence that explains its columns."""
    rows = zip(*(standing.as_row().values() for standing in standings), strict=True)
    columns = {
        title: [
            shown(cell, 3) if cell is None or isinstance(cell, float) else cell for cell in cells
        ]
        for title, cells in zip(_TITLES, rows, strict=True)
    }
    yield column_table(columns, texts=("policy",), is_markdown=True)
    yield from ("", _LEGEND)
