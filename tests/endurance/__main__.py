"""`tox -e endurance`: what happens to crawls happens to many, and a table says what came of it.

HACS_ENDURANCE_SHARE is the share of all that is done (1), HACS_ENDURANCE_SEED repeats what was drawn.
Arguments are words of the rows that are wanted, all without one; `--write` puts the table into
docs/reliability.md. The status is 1 where anything was found.
"""

import logging
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from endurance.answers import Drawn, Hostile
from endurance.judge import Fault, Jobs, Judge
from endurance.states import Cluster, Redis, Replicated, SQLite
from hacs_crawler.utils.terminal import Progress

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "reliability.md"
PLACE = re.compile(r"(<!-- endurance -->\n).*?(?=<!-- end of endurance -->)", re.DOTALL)
SHARE = float(os.environ.get("HACS_ENDURANCE_SHARE", "1"))
SEED = os.environ.get("HACS_ENDURANCE_SEED") or str(random.SystemRandom().randrange(10**6))
PROCESSES = 2
COLUMNS = ("tried", "held", "lost", "false", "hung", "else")


ROWS: dict[str, tuple[Any, Callable[..., Any] | None, int]] = {
    "signals, SQLite": (SQLite, Judge, 500),
    "signals, Redis": (Redis, Judge, 500),
    "signals, two shards": (SQLite, partial(Judge, shards=2), 100),
    "jobs stopped, then killed": (SQLite, Jobs, 200),
    "a full disk": (SQLite, partial(Judge, happens=SQLite.fill), 200),
    "a locked file": (SQLite, partial(Judge, happens=SQLite.lock), 200),
    "other bytes in the file": (SQLite, partial(Judge, happens=SQLite.damage), 200),
    "other bytes in Redis": (Redis, partial(Judge, happens=Redis.damage), 200),
    "Redis restarted, halted, full": (Redis, partial(Judge, happens=Redis.go_away), 200),
    "Redis far away, connections cut": (Redis, partial(Judge, happens=Redis.be_far), 200),
    "a replica promoted": (Replicated, partial(Judge, happens=Replicated.promote), 100),
    "a node of a cluster killed": (Cluster, partial(Judge, happens=Cluster.lose_a_node), 60),
    "hostile answers": (Hostile, None, 30),
    "crawls drawn at random": (Drawn, None, 3_000),
}
"""A state and who judges what happens to it, or a judge of its own, and how often."""


def attempts(name: str) -> int:
    return max(1, round(ROWS[name][2] * SHARE))


def work(share: int, names: list[str], results: Any) -> None:
    """Do every other attempt of each row."""
    logging.disable()  # what is damaged on purpose would be named hundreds of times
    for name in names:
        make, happens, _ = ROWS[name]
        with tempfile.TemporaryDirectory(prefix="hacs-endurance-") as folder, ExitStack() as stack:
            judge = stack.enter_context(closing(make(Path(folder))))
            if happens is not None:
                judge = stack.enter_context(closing(happens(Path(folder), judge)))
            for number in range(share, attempts(name), PROCESSES):
                try:
                    tried, faults = judge.attempt(random.Random(f"{SEED} {name} {number}"))
                except Exception:  # noqa: BLE001 - the others go on
                    tried, faults = 1, [Fault("else", traceback.format_exc())]
                results.put((name, number, tried, faults))
    results.put(None)


def main() -> None:
    words = set(sys.argv[1:]) - {"--write"}
    names = [name for name in ROWS if not words or any(word in name for word in words)]
    results: Any = multiprocessing.Queue()
    started = time.monotonic()
    for share in range(PROCESSES):
        multiprocessing.Process(target=work, args=(share, names, results)).start()
    counts = {name: Counter[str]() for name in names}
    total = sum(map(attempts, names))
    # after Ctrl-C the table says what came of it so far
    with Progress("endurance") as progress, suppress(KeyboardInterrupt):
        ended = chain.from_iterable(iter(results.get, None) for _ in range(PROCESSES))
        for done, (name, number, tried, faults) in enumerate(ended, 1):
            progress.update(name, done, total)
            counts[name].update(tried=tried, held=max(0, tried - len(faults)))
            counts[name].update(fault.kind for fault in faults)
            for fault in faults:
                print(f"{name}, {number}: {fault.kind}: {fault.text}", file=sys.stderr)
    rows = [[name, *(f"{counts[name][one]:,}" for one in COLUMNS)] for name in names]
    head = [["what happens", *COLUMNS], ["---", *["---:"] * len(COLUMNS)]]
    described = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(
        described, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    minutes = (time.monotonic() - started) / 60
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in head + rows)
    table += f"\nCommit {commit}, seed {SEED}, {SHARE:.0%} of a whole run, {minutes:.0f} min.\n"
    print(table)
    if "--write" in sys.argv:
        DOCUMENT.write_text(PLACE.sub(lambda found: found[1] + table, DOCUMENT.read_text()))
    sys.exit(any(set(count) - {"tried", "held"} for count in counts.values()))


if __name__ == "__main__":
    main()
