"""Which seed is next, by free slots, priority and rank; and the seeds that wait to be ranked."""

import weakref
from functools import cache
from itertools import count

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from scrapy import Request

from crawl_support import UnderWay
from hacs_crawler.crawl.queues import LEAST_CHUNK, MOST_AHEAD, Key, SeedQueue, UnrankedSeeds
from hacs_crawler.crawl.scrapy_internals import Downloads

HOSTS = ("a", "b", "c")


class World:
    """A queue before a downloader in which each slot transfers so many requests at a time."""

    def __init__(self, under_way: UnderWay) -> None:
        self.under_way = under_way
        self.under_way.clear()
        self.seeds = SeedQueue(Downloads(under_way.crawler))

    def add(self, *paths: str, priority: int = 0) -> None:
        seeds = [Request(f"http://{path}", priority=priority) for path in paths]
        self.seeds.add(seeds, range(len(seeds)))

    def send(self) -> str | None:
        best = self.seeds.best()
        return None if best is None else self.send_of(best[0])

    def send_of(self, slot: str) -> str:
        seed = self.seeds.take(slot)
        self.under_way.begin(seed)
        return seed.url.removeprefix("http://")

    def send_other(self, path: str) -> Request:
        request = Request(f"http://{path}")
        self.seeds.on_sent(request, path.partition("/")[0])
        self.under_way.begin(request)
        return request


@pytest.fixture(scope="module")
def under_way(asyncio_reactor: None) -> UnderWay:
    return UnderWay()


@pytest.fixture
def world(under_way: UnderWay) -> World:
    return World(under_way)


def test_slots_that_may_not_be_asked_are_passed_over_and_keep_their_seeds(world: World) -> None:
    world.add("a/1", "b/1", "b/2", "c/1")
    best = world.seeds.best({"a"})
    assert (best[0], world.send_of("b")) == ("b", "b/1")
    best = world.seeds.best({"a", "c"})
    assert best[0] == "b", "though it is busy"
    assert world.seeds.best({"a", "b", "c"}) is None
    assert [world.send() for _ in range(3)] == ["a/1", "c/1", "b/2"]


def test_what_the_queue_says_of_the_next_seed_is_what_orders_it(world: World) -> None:
    assert not world.seeds.is_before(Request("http://a/", priority=-9), "a")
    world.seeds.add_one(Request("http://a/1", priority=7), 0.5)
    assert world.seeds.best() == ("a", (-7, 0.5, 0), 0)
    assert world.seeds.is_before(Request("http://a/2", priority=6), "a")
    assert not world.seeds.is_before(Request("http://a/2", priority=7), "a")
    assert not world.seeds.is_before(Request("http://b/2", priority=6), "b")


@cache
def downloader(concurrency: int) -> UnderWay:
    return UnderWay(concurrency=concurrency)


hosts, priorities, orders = st.sampled_from(HOSTS), st.integers(-1, 1), st.integers(0, 4)
seeds = st.tuples(hosts, priorities, orders)


class Story(RuleBasedStateMachine):
    """A queue beside a model that looks at everything each time."""

    @initialize(concurrency=st.integers(1, 3))
    def begin(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.world = World(downloader(concurrency))
        self.arrivals = count()
        self.waiting: list[tuple[str, Key, Request]] = []
        self.sent: list[tuple[str, Request]] = []
        self.added: list[Request] = []
        self.taken: list[Request] = []

    @rule(some=st.lists(seeds, max_size=5))
    def add(self, some: list[tuple[str, int, int]]) -> None:
        self.world.seeds.add([self.new(*one) for one in some], [order for _, _, order in some])

    @rule(seed=seeds)
    def add_one(self, seed: tuple[str, int, int]) -> None:
        self.world.seeds.add_one(self.new(*seed), seed[2])

    @rule()
    def send(self) -> None:
        entries = [(self.busy(host), key, host) for host, key, _ in self.waiting]
        best = self.world.seeds.best()
        if not entries:
            assert best is None
            return
        waiting, key, host = min(entries)
        assert best == (host, key, waiting)
        entry = next(one for one in self.waiting if one[1] == key)
        self.taken.append(self.world.seeds.take(host))
        assert self.taken[-1] is entry[2]
        self.world.under_way.begin(entry[2])
        self.waiting.remove(entry)
        self.sent.append((host, entry[2]))

    @rule(host=hosts)
    def send_other(self, host: str) -> None:
        self.sent.append((host, self.world.send_other(f"{host}/other")))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        ended = data.draw(st.sampled_from(self.sent))
        self.sent.remove(ended)
        self.world.under_way.end(ended[1])

    @invariant()
    def says_what_waits(self) -> None:
        found = self.world.seeds
        assert len(found) == len(self.waiting)
        assert found.all() == [seed for _, _, seed in sorted(self.waiting, key=lambda one: one[1])]
        assert set(found.busy_slots()) == {host for host in HOSTS if self.busy(host)}

    def teardown(self) -> None:
        while self.waiting:
            self.send()
        assert self.world.seeds.best() is None
        assert sorted(self.taken, key=id) == sorted(self.added, key=id)

    def new(self, host: str, priority: int, order: int) -> Request:
        seed = Request(f"http://{host}/{len(self.added)}", priority=priority)
        self.added.append(seed)
        self.waiting.append((host, (-priority, order, next(self.arrivals)), seed))
        return seed

    def busy(self, host: str) -> int:
        """How many requests too many are under way for a slot to be free."""
        number = sum(one == host for one, _ in self.sent)
        return max(0, number + 1 - self.concurrency) if number else 0


def test_the_best_seed_of_the_freest_slot_is_always_next_and_none_is_lost_or_sent_twice() -> None:
    short = settings(max_examples=30, stateful_step_count=30, report_multiple_bugs=False)
    run_state_machine_as_test(Story, settings=short)


def test_a_seed_is_marked_when_it_is_taken_by_its_number_among_those_added_with_it(
    world: World,
) -> None:
    marks: list[tuple[str, int]] = []
    world.add("b/1")
    seeds = [Request(f"http://a/{number}") for number in range(3)]
    world.seeds.add(seeds, [2.0, 0.0, 1.0], lambda seed, number: marks.append((seed.url, number)))
    assert world.seeds.all() != []
    assert marks == []
    assert [world.send_of("a") for _ in range(3)] == ["a/1", "a/2", "a/0"]
    assert marks == [("http://a/1", 1), ("http://a/2", 2), ("http://a/0", 0)]


def test_requests_of_others_are_not_kept_where_no_seed_waits(world: World) -> None:
    """A crawl that follows a million links holds none of them."""
    sent = weakref.WeakSet[Request]()
    for number in range(100):
        sent.add(world.send_other(f"a/{number}"))
        world.under_way.clear()
    assert len(sent) <= 1


# what the inner scheduler was given


def goes_first(world: World, slot: str = "a", priority: int = 0, waiting: int = 0) -> bool:
    """Whether follow-ups go before the best seed, which is of that slot and priority."""
    return world.seeds.is_for_follow_ups(slot, (-priority, 0.0, 0), waiting)


def give(world: World, *paths: str, priority: int = 0) -> None:
    for path in paths:
        request = Request(f"http://{path}", priority=priority)
        world.seeds.on_enqueued(request, path.partition("/")[0])


def test_an_inner_scheduler_that_was_given_nothing_may_have_something_unless_that_is_known(
    world: World,
) -> None:
    assert goes_first(world)
    queue = SeedQueue(Downloads(world.under_way.crawler), knows_all_given=True)
    assert not queue.is_for_follow_ups("a", (0, 0.0, 0), 0)


def test_a_seed_of_a_free_slot_goes_before_follow_ups_for_busy_ones(world: World) -> None:
    give(world, "a/1", "b/1")
    world.send_other("a/other")
    assert goes_first(world, "c")
    world.send_other("b/other")
    assert not goes_first(world, "c")
    assert goes_first(world, "c", waiting=1), "its slot is busy, too"


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), hosts, priorities), max_size=30), hosts, priorities)
def test_what_was_given_is_a_multiset_of_slots_and_priorities(
    steps: list[tuple[bool, str, int]], slot: str, priority: int
) -> None:
    world, model = World(downloader(1)), list[tuple[str, int]]()
    for is_in, host, of in steps:
        request = Request(f"http://{host}/", priority=of)
        (world.seeds.on_enqueued if is_in else world.seeds.on_dequeued)(request, host)
        if is_in:
            model.append((host, of))
        elif (host, of) in model:
            model.remove((host, of))
    highest = max((of for _, of in model), default=priority)
    here = max((of for host, of in model if host == slot), default=priority)
    assert goes_first(world, slot, priority) == (priority <= min(highest, here))


# Seeds that wait to be ranked, without an engine: how many are held, and that none is lost


def is_filtered(_: Request) -> bool:
    return False


def filled(number: int, budget: int | None = None) -> UnrankedSeeds:
    unranked = UnrankedSeeds(budget)
    for page_id in range(number):
        unranked.add(Request(f"http://a.example/{page_id}"), page_id)
    return unranked


def test_what_is_being_ranked_is_not_held_and_not_lost_until_it_was_ranked() -> None:
    unranked = filled(3)
    ranking, page_ids = unranked.begin_ranking(is_filtered)
    assert page_ids == [0, 1, 2]
    assert (len(unranked), unranked.all()) == (0, ranking)
    unranked.end_ranking([], [])
    assert unranked.all() == []


def test_what_could_not_be_ranked_is_held_before_what_came_meanwhile() -> None:
    unranked = filled(2)
    ranking, page_ids = unranked.begin_ranking(is_filtered)
    late = Request("http://a.example/late")
    unranked.add(late, 9)
    unranked.end_ranking(ranking, page_ids)
    assert unranked.begin_ranking(is_filtered) == ([*ranking, late], [0, 1, 9])


@pytest.mark.parametrize(
    ("budget", "chunk"), [(None, MOST_AHEAD), (5, LEAST_CHUNK), (3 * LEAST_CHUNK, 3 * LEAST_CHUNK)]
)
def test_so_many_are_ranked_at_once(budget: int | None, chunk: int) -> None:
    assert not filled(chunk - 1, budget).is_chunk
    assert filled(chunk, budget).is_chunk


def test_a_list_is_ranked_whole_and_nothing_is_held_back_of_it() -> None:
    unranked = filled(MOST_AHEAD)
    assert unranked.most_ahead == MOST_AHEAD
    unranked.ends_surely = True
    assert not unranked.is_chunk
    assert unranked.most_ahead is None


def test_nothing_is_taken_and_nothing_kept_where_nothing_was_ranked() -> None:
    unranked = filled(1, budget=1)
    assert unranked.take(is_last=True) == (None, [])
    assert not unranked.is_kept
