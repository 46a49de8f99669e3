"""A simulated fleet: whether its promises hold, and what its board costs.

python benchmarks/fleet.py                       # 50 workers, 100,000 entries, about 3 minutes
python benchmarks/fleet.py --workers 8 --hosts 300 --entries 1500 --rounds 3

The workers are those of `hacs_crawler.fleet.member` on a real board, in memory (SQLite) and on a Redis
server; their processes, the web and the clock are simulated (tests/fleet_simulation.py): in one thread,
without waiting. Workers crash and are replaced, stand still at the worst moment for 5 to 200 s, and the
board is away twice, for 30 and 120 s. What is timed is each step as the worker sees it, and on Redis
also the time that the server itself takes for it, from which follows how many steps a second it can do.
"""

import argparse
import statistics
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fleet_simulation import Counts, Scale, SimulatedFleet
from hacs_crawler.fleet.board import PARTITIONS
from hacs_crawler.fleet.redis_board import RedisBoard
from servers import redis_server
from sqlite_board import SQLiteBoard

STEPS = ("take", "done", "renew")


def promises(name: str, counts: Counts) -> list[Any]:
    visits = counts.visits.total()
    return [
        name,
        len(counts.round_seconds),
        f"{visits:,}",
        counts.forgotten,
        counts.repeats,
        counts.lost,
        counts.early_ends,
        counts.overlaps,
        counts.overlaps_in_time,
        max(counts.sent_late.values(), default=0),
    ]


def costs(name: str, counts: Counts, server_us: float | None) -> list[Any]:
    times = counts.step_seconds
    number = sum(map(len, times.values()))
    seconds = sum(map(sum, times.values()))
    cells: list[Any] = [name, f"{number:,}", f"{number / seconds:,.0f}"]
    for step in STEPS:
        ordered = sorted(times[step])
        cells.append(
            f"{statistics.median(ordered) * 1e6:.0f} ({ordered[len(ordered) * 99 // 100] * 1e6:.0f})"
        )
    published = sum(times["publish"]) / sum(map(len, counts.plans)) * 1_000
    cells.append(f"{published * 1e3:.1f}")
    cells.append("" if server_us is None else f"{server_us:.0f}")
    return cells


def table(header: str, rows: list[list[Any]]) -> None:
    names = header.split(" | ")
    print("\n| " + " | ".join(names) + " |\n|---" + "|---:" * (len(names) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def what_happened(counts: Counts) -> None:
    rounds = ", ".join(f"{seconds:.0f}" for seconds in counts.round_seconds)
    shares = sorted(counts.shares)
    tenth, nine = (shares[len(shares) * place // 10] for place in (1, 9))
    print(
        f"{counts.crashes} crashes, {counts.joins} joins, {counts.pauses} pauses "
        f"({counts.long_pauses} longer than a lease), {counts.followed:,} visits that followed; "
        f"rounds of {rounds} s; visits of a worker that lived through a round: {tenth:.2f} to "
        f"{nine:.2f} of their mean (10th to 90th percentile)"
    )


def on_redis(scale: Scale, seed: int) -> tuple[Counts, float]:
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as port:

        def open_board(clock: Callable[[], float]) -> RedisBoard:
            url = f"redis://127.0.0.1:{port}/0"
            return RedisBoard(url, uuid.uuid4().hex, clock=clock)

        counts = SimulatedFleet(scale, open_board, seed).run()
        with redis.Redis(port=port) as client:
            return counts, client.info("commandstats")["cmdstat_eval"]["usec_per_call"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=Scale.workers)
    parser.add_argument("--hosts", type=int, default=Scale.hosts)
    parser.add_argument("--entries", type=int, default=Scale.entries, help="of each round")
    parser.add_argument("--rounds", type=int, default=Scale.rounds)
    parser.add_argument("--seed", type=int, default=1)
    given = vars(parser.parse_args())
    seed = given.pop("seed")
    scale = Scale(**given)

    def in_memory(clock: Callable[[], float]) -> SQLiteBoard:
        return SQLiteBoard(None, clock=clock)

    print(f"{scale.workers} workers, {PARTITIONS} partitions, {scale.hosts} hosts")
    memory = SimulatedFleet(scale, in_memory, seed).run()
    what_happened(memory)
    redis_counts, server_us = on_redis(scale, seed)
    what_happened(redis_counts)
    table(
        "board | rounds | visits | forgotten | repeated | came back after a lease | ended early | "
        "overlaps | of them unexplained | most sent after a lease",
        [promises("memory", memory), promises("Redis", redis_counts)],
    )
    table(
        "board | steps | steps/s, one client | take, µs (99 %) | done, µs (99 %) | renew, µs (99 %) | "
        "publish 1,000, ms | server's own µs a step",
        [costs("memory", memory, None), costs("Redis", redis_counts, server_us)],
    )


if __name__ == "__main__":
    main()
