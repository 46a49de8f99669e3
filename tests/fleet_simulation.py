"""A fleet of workers on a clock of its own, in one thread: what they do, and what they must not do.

Each worker is a process that asks several hosts at once, each host by one request at a time with a
delay in between. Workers crash, are paused (their process stands still, while what the web has under
way goes on) and join; the board is away for a while, and then may have done what it was asked all the
same. A visit may lead to another on another host, which goes through a queue that all share, as in
`hacs_crawler.fleet.queue`: what a former holder of a partition took and did not finish returns when
the partition is given to another.
"""

from __future__ import annotations

import heapq
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.fleet.board import Board, partition_of
from hacs_crawler.fleet.member import Assignment, FleetWorker, Task

BATCH = 8
"""Entries taken at once."""
CONCURRENCY = 8
"""Hosts that a worker asks at once."""
DELAY_SECONDS = 2.0
LONGEST_REQUEST_SECONDS = 12.0
PAUSES_SECONDS = (5.0, 40.0, 70.0, 200.0)


@dataclass(frozen=True)
class Scale:
    """How large a fleet is, and what happens to it. Times are in simulated seconds."""

    workers: int = 50
    hosts: int = 5_000
    entries: int = 25_000
    """Of each round."""
    rounds: int = 4
    crash_seconds: float = 2_000.0
    """A worker's mean life."""
    pause_share: float = 0.001
    """Of the requests before which the worker's process stands still, between looking at its lease and
    sending: the worst moment."""
    outages: tuple[tuple[float, float], ...] = ((200.0, 30.0), (700.0, 120.0))
    """When the board is away, and for how long."""
    follow_share: float = 0.2


@dataclass(slots=True, eq=False)
class Visit:
    """A visit of the plan, or, with page id 0, one that follows from a visit."""

    host: int
    partition: int
    page_id: int = 0


@dataclass
class Counts:
    """What a simulated fleet did, and what it ought not to have done."""

    visits: Counter[int] = field(default_factory=Counter)
    """By page id, of the plans."""
    visits_of: Counter[str] = field(default_factory=Counter)
    """By worker."""
    plans: list[range] = field(default_factory=list)
    """Page ids of each plan that was opened."""
    followed: int = 0
    follows_done: set[int] = field(default_factory=set)
    crashes: int = 0
    joins: int = 0
    pauses: int = 0
    long_pauses: int = 0
    """Longer than a lease."""
    overlaps: int = 0
    """Requests to a host that another worker's request was under way to."""
    overlaps_in_time: int = 0
    """Of those the ones of which neither was sent by a worker that had just stood still."""
    sent_late: Counter[str] = field(default_factory=Counter)
    """Requests sent by a worker whose lease had run out, by worker and pause."""
    early_ends: int = 0
    """Rounds said to be over while something waited or was under way."""
    lost: int = 0
    """Entries that returned because a lease ran out."""
    shares: list[float] = field(default_factory=list)
    """Visits of each worker that lived through a round, relative to their mean."""
    round_seconds: list[float] = field(default_factory=list)
    step_seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Real time of each step of the board, by its name."""
    seconds: float = 0.0
    """Real time of all."""

    @property
    def forgotten(self) -> int:
        """Entries of the plans that nobody visited."""
        return sum(not self.visits[page] for plan in self.plans for page in plan)

    @property
    def repeats(self) -> int:
        """Visits of an entry that had been visited."""
        return sum(number - 1 for number in self.visits.values())


class Observed:
    """A board whose steps are timed, and which is away now and then."""

    def __init__(self, board: Board, counts: Counts, chance: random.Random) -> None:
        self.is_away = False
        self.lease_seconds = board.lease_seconds
        self._board = board
        self._counts = counts
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        return partial(self._step, name)

    def _step(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self.is_away and self._chance.random() < 0.5:
            raise StateUnavailableError("the board is away")
        started = time.perf_counter()
        answer = getattr(self._board, name)(*args, **kwargs)
        self._counts.step_seconds[name].append(time.perf_counter() - started)
        if self.is_away:
            raise StateUnavailableError("the board did it, but its answer got lost")
        return answer


class SharedQueue:
    """What follows from visits, by partition; what was taken stays until it is done."""

    def __init__(self) -> None:
        self.waiting: defaultdict[int, deque[Visit]] = defaultdict(deque)
        self.taken: defaultdict[int, dict[Visit, str]] = defaultdict(dict)

    def adopt(self, partition: int, worker: str) -> None:
        others = [visit for visit, owner in self.taken[partition].items() if owner != worker]
        for visit in others:
            del self.taken[partition][visit]
            self.waiting[partition].appendleft(visit)

    def take(self, partition: int, worker: str) -> Visit | None:
        if not self.waiting[partition]:
            return None
        visit = self.waiting[partition].popleft()
        self.taken[partition][visit] = worker
        return visit

    def done(self, visit: Visit) -> None:
        self.taken[visit.partition].pop(visit, None)

    def __len__(self) -> int:
        parts = (*self.waiting.values(), *self.taken.values())
        return sum(map(len, parts))


class Process:
    """One worker's process."""

    def __init__(self, name: str, fleet: SimulatedFleet) -> None:
        self.name = name
        self.fleet = fleet
        self.worker = FleetWorker(fleet.board, name, forever=True)
        self.assignment: Assignment | None = None
        self.held: frozenset[int] = frozenset()
        self.ranked = 0
        self.waiting: deque[Visit] = deque()
        self.under_way: dict[int, Visit] = {}
        """By host."""
        self.free_at: defaultdict[int, float] = defaultdict(float)
        self.next_take = 0.0
        self.lease_until = 0.0
        self.has_begun = False
        self.lives = 1
        self.paused_until = 0.0
        self.is_dead = False

    @property
    def life(self) -> str:
        """Who takes from the shared queue: another one each time that the lease ran out."""
        return f"{self.name}.{self.lives}"

    def tick(self) -> None:
        fleet = self.fleet
        busy = {visit.partition for visit in (*self.waiting, *self.under_way.values())}
        is_idle = not busy and not any(fleet.queue.waiting[partition] for partition in self.held)
        try:
            has_begun, self.has_begun = self.has_begun, False
            assignment = self.worker.tick(
                fleet.now, busy=busy, is_idle=is_idle, has_begun=has_begun
            )
        except StateUnavailableError:
            fleet.after(1.0, self.tick, self)
            return
        self.lease_until = fleet.now + fleet.board.lease_seconds
        if assignment.has_lost:
            self.waiting.clear()
            self.held = frozenset()
            self.lives += 1
        for partition in assignment.view.partitions - self.held:
            fleet.queue.adopt(partition, self.life)
        self.held = assignment.view.partitions
        self.assignment = assignment
        fleet.counts.lost = assignment.view.lost
        if assignment.task is Task.LEAD and self.ranked != assignment.round:
            self.ranked = assignment.round
            plan = fleet.ranked()
            fleet.after(fleet.chance.uniform(1.0, 30.0), partial(self.publish, plan), self)
        fleet.after(assignment.tick_seconds, self.tick, self)

    def publish(self, plan: range) -> None:
        hosts = self.fleet.hosts
        entries = [(hosts[page % len(hosts)], page, b"%d" % (page % len(hosts))) for page in plan]
        try:
            if not self.worker.publish(entries):
                return
        except StateUnavailableError:
            self.fleet.after(5.0, partial(self.publish, plan), self)
            return
        self.open_round(plan)

    def open_round(self, plan: range) -> None:
        try:
            if self.worker.open_round():
                self.fleet.counts.plans.append(plan)
        except StateUnavailableError:
            self.fleet.after(5.0, partial(self.open_round, plan), self)

    def look(self) -> None:
        """Take what may be taken, and send what may be sent."""
        fleet = self.fleet
        fleet.after(0.5, self.look, self)
        if self.assignment is None:
            return
        self.fill(self.assignment)
        for _ in range(len(self.waiting)):
            if len(self.under_way) >= CONCURRENCY or not self.worker.may_send(fleet.now):
                return
            visit = self.waiting.popleft()
            if visit.host in self.under_way or self.free_at[visit.host] > fleet.now:
                self.waiting.append(visit)
                continue
            self.under_way[visit.host] = visit
            if fleet.chance.random() < fleet.scale.pause_share:
                fleet.pause(self)
                fleet.after(0.0, partial(self.send, visit), self)
                return
            self.send(visit)

    def fill(self, assignment: Assignment) -> None:
        now = self.fleet.now
        for partition in sorted(assignment.partitions):
            if len(self.waiting) >= 2 * BATCH or not self.worker.may_send(now):
                return
            visit = self.fleet.queue.take(partition, self.life)
            if visit is not None:
                self.waiting.append(visit)
                self.has_begun = True
        if assignment.task is not Task.CRAWL or len(self.waiting) >= BATCH or now < self.next_take:
            return
        try:
            entries = self.worker.take(BATCH, now)
        except StateUnavailableError:
            entries = []
        if not entries:
            self.next_take = now + 2.0
        self.waiting.extend(
            Visit(int(entry.request), entry.partition, entry.page_id) for entry in entries
        )

    def send(self, visit: Visit) -> None:
        fleet = self.fleet
        seconds = min(fleet.chance.lognormvariate(0.0, 1.0), LONGEST_REQUEST_SECONDS)
        fleet.note_request(self, visit, seconds)
        fleet.after(seconds, partial(self.end, visit), self)

    def end(self, visit: Visit) -> None:
        fleet = self.fleet
        del self.under_way[visit.host]
        self.free_at[visit.host] = fleet.now + DELAY_SECONDS
        if fleet.chance.random() < fleet.scale.follow_share:
            fleet.follow()
        if visit.page_id:
            fleet.counts.visits[visit.page_id] += 1
            self.worker.done([visit.page_id])
        else:
            fleet.counts.follows_done.add(id(visit))
            fleet.queue.done(visit)
        fleet.counts.visits_of[self.name] += 1


class SimulatedFleet:
    """Runs processes until so many rounds are over."""

    def __init__(
        self, scale: Scale, open_board: Callable[[Callable[[], float]], Board], seed: int = 0
    ) -> None:
        self.scale = scale
        self.now = 0.0
        self.chance = random.Random(seed)
        self.counts = Counts()
        self.board: Any = Observed(open_board(lambda: 1.8e9 + self.now), self.counts, self.chance)
        self.queue = SharedQueue()
        self.hosts = [f"http://host{number}.example/" for number in range(scale.hosts)]
        self.partitions = [partition_of(host) for host in self.hosts]
        self.processes: list[Process] = []
        self._names = count()
        self._next_page = 1
        self._last_ranked = 0.0
        self._born: dict[str, int] = {}
        self._visits_before: Counter[str] = Counter()
        self._follows: list[Visit] = []
        self._asking: dict[int, tuple[float, Process, bool]] = {}
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], object], Process | None]] = []
        for _ in range(scale.workers):
            self.after(self.chance.uniform(0, 20), self.join)
        for start, seconds in scale.outages:
            self.after(start, partial(self.set_away, True))
            self.after(start + seconds, partial(self.set_away, False))

    def run(self) -> Counts:
        """Return what happened; raises where the fleet gets stuck."""
        started = time.perf_counter()
        while len(self.counts.round_seconds) < self.scale.rounds:
            self.now, _, call, process = heapq.heappop(self._events)
            assert self.now < 100_000, "the fleet is stuck"
            if process is not None and process.is_dead:
                continue
            if process is not None and process.paused_until > self.now:
                self.after(process.paused_until - self.now, call, process)
                continue
            call()
        self.counts.seconds = time.perf_counter() - started
        return self.counts

    def after(
        self, seconds: float, call: Callable[[], object], process: Process | None = None
    ) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), call, process))

    def set_away(self, is_away: bool) -> None:
        self.board.is_away = is_away

    def join(self) -> None:
        process = Process(f"w{next(self._names):04d}", self)
        self.processes.append(process)
        self.counts.joins += 1
        self._born[process.name] = len(self.counts.plans)
        life = self.chance.expovariate(1 / self.scale.crash_seconds)
        self.after(life, partial(self.crash, process))
        process.tick()
        process.look()

    def crash(self, process: Process) -> None:
        process.is_dead = True
        self.processes.remove(process)
        self.counts.crashes += 1
        self.after(self.chance.uniform(1.0, 120.0), self.join)

    def pause(self, process: Process) -> None:
        seconds = self.chance.choice(PAUSES_SECONDS)
        process.paused_until = self.now + seconds
        self.counts.pauses += 1
        self.counts.long_pauses += seconds > self.board.lease_seconds

    def follow(self) -> None:
        host = self.chance.randrange(len(self.hosts))
        visit = Visit(host, self.partitions[host])
        self._follows.append(visit)
        self.queue.waiting[visit.partition].append(visit)
        self.counts.followed += 1

    def note_request(self, process: Process, visit: Visit, seconds: float) -> None:
        """See whether another worker's request is under way to the host."""
        until, other, is_late = self._asking.get(visit.host, (0.0, process, False))
        was_paused = process.paused_until > 0 and process.paused_until == self.now
        if self.now >= process.lease_until:
            self.counts.sent_late[f"{process.name} {process.paused_until}"] += 1
        if until > self.now and other is not process:
            self.counts.overlaps += 1
            self.counts.overlaps_in_time += not (was_paused or is_late)
        self._asking[visit.host] = (self.now + seconds, process, was_paused)

    def ranked(self) -> range:
        """Return a new plan, after looking at how the round before ended."""
        counts = self.counts
        if len(counts.plans) > len(counts.round_seconds):
            is_missing = any(not counts.visits[page] for page in counts.plans[-1])
            under_way = any(
                process.under_way for process in self.processes if process.worker.may_send(self.now)
            )
            counts.early_ends += is_missing or under_way or len(self.queue) > 0
            counts.round_seconds.append(self.now - self._last_ranked)
            self._note_shares()
        self._last_ranked = self.now
        plan = range(self._next_page, self._next_page + self.scale.entries)
        self._next_page = plan.stop
        return plan

    def _note_shares(self) -> None:
        """Compare the visits of the workers that were there for all of the round."""
        counts = self.counts
        number = len(counts.plans) - 1
        made = [
            counts.visits_of[process.name] - self._visits_before[process.name]
            for process in self.processes
            if self._born[process.name] <= number
        ]
        mean = sum(made) / max(len(made), 1)
        counts.shares += [visits / mean for visits in made if mean]
        self._visits_before = counts.visits_of.copy()
