"""What a run finds changes the rest of it: a real state and thread, a downloader of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as with_settings
from hypothesis import strategies as st
from scrapy import Request, signals
from scrapy.utils.defer import maybe_deferred_to_future

from crawl_support import UnderWay, new_crawler, run, settled
from hacs_crawler.crawl.adaptation import Adaptation
from hacs_crawler.crawl.scheduler import HacsScheduler
from hacs_crawler.crawl.seeds import planned_seeds
from hacs_crawler.crawl.session import Session
from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Estimation, State, Visit, open_store

DAY = 86_400
NOW = 2_000 * DAY
A, A1, A2 = "http://a.example/", "http://a.example/1.html", "http://a.example/2.html"
B, C, D = "http://b.example/", "http://c.example/", "http://d.example/"
ALL = (A, A1, A2, B, C, D)


def history(url: str, last: int, *updates: int, every: int = 10) -> list[Visit]:
    """Visits every so many days, the last of them `last` days ago; `updates` are days ago, too."""
    days = range(last + 20 * every, last - 1, -every)
    return [
        Visit(url, NOW - day * DAY, links=frozenset({0, *(one for one in updates if one >= day)}))
        for day in days
    ]


def trap(url: str, last: int) -> list[Visit]:
    """Five daily visits, each of which showed other links: a page to be asked a second time."""
    return [Visit(url, NOW - (last + n) * DAY, links=frozenset({9_000 + n})) for n in range(5)]


HISTORIES = (
    *history(A, 20, *range(30, 200, 20)),
    *history(A1, 20, *range(40, 200, 40)),
    *history(A2, 20, *range(60, 200, 70)),
    *history(B, 20, *range(30, 200, 30)),
    *history(C, 20, *range(30, 200, 40)),
    *history(D, 14, *range(30, 200, 40)),
)


class World:
    """A crawl around which there is no network: what is sent is answered by the test."""

    def __init__(self, folder: Path, visits: Sequence[Visit] = HISTORIES, **given: Any) -> None:
        state = f"sqlite:///{folder}/state.db"
        with closing(open_store(state, "hacs", Path())) as store:
            State(store, Estimation()).record(sorted(visits, key=lambda visit: visit.at))
        self.crawler = new_crawler(**{"HACS_STATE": state, "HACS_FLUSH_VISITS": 1, **given})
        self.under_way = UnderWay(self.crawler)
        self.session = Session.of(self.crawler)
        self.session.clock = lambda: float(NOW)
        self.scheduler = HacsScheduler.from_crawler(self.crawler)
        assert self.crawler.spider is not None
        self.scheduler.open(self.crawler.spider)

    @property
    def adaptation(self) -> Adaptation:
        return self.scheduler.adaptation

    def stat(self, name: str) -> Any:
        assert self.crawler.stats is not None
        return self.crawler.stats.get_value(f"hacs/{name}", 0)

    async def begin(self, *urls: str) -> None:
        """Give start requests, and have them ranked."""
        await self.session.open()
        for url in urls:
            self.scheduler.enqueue_request(Request(url, meta={"is_start_request": True}))
        await self.scheduler.rank(is_last=True)

    async def begin_with_state(self) -> None:
        """Plan a crawl of the whole state."""
        await self.session.open()

        def request_of(url: str, meta: dict[str, Any]) -> Request:
            return Request(url, meta=meta)

        async for url, meta in planned_seeds(self.session, request_of):
            self.scheduler.enqueue_request(request_of(url, meta))

    def send(self) -> Request | None:
        request = self.scheduler.next_request()
        if request is not None:
            self.under_way.begin(request)
            self.under_way.end(request)
        return request

    def send_all(self) -> list[str]:
        return [request.url for request in iter(self.send, None)]

    async def answer(self, request: Request | None, *, is_update: bool) -> None:
        """Record what a request found, and let everything come of it that does."""
        assert request is not None
        (known,) = self.session.state.load([page_id_of(request.url)]).values()
        links = {*known.links, 99} if is_update else known.links
        self.session.pages.record(Visit(request.url, NOW, links=frozenset(links)))
        await self.session.pages.settle()
        await settled_with(self)


async def settled_with(world: World) -> None:
    """Return when the event loop, and the thread beside it, have done all that there is to do."""
    for _ in range(5):
        await maybe_deferred_to_future(world.session._worker.run(int))
        await settled()


New = Callable[..., World]
RestAfter = Callable[..., list[str]]


@pytest.fixture
def new_world(tmp_path: Path, asyncio_reactor: None) -> Iterator[New]:
    worlds: list[World] = []

    def new(**settings: Any) -> World:
        worlds.append(World(tmp_path, **settings))
        return worlds[-1]

    yield new
    for world in worlds:
        world.session._worker.close()


def rest_after(world: World, *, is_update: bool, urls: Sequence[str] = ALL) -> list[str]:
    """Send the best start request, which is A; return which others are sent after its answer."""

    async def scenario() -> list[str]:
        await world.begin(*urls)
        await world.answer(world.send(), is_update=is_update)
        return world.send_all()

    return run(scenario())


def rest_of_plan_after(world: World, *, is_update: bool) -> list[str]:
    """The same of a plan of the whole state."""

    async def scenario() -> list[str]:
        await world.begin_with_state()
        await world.answer(world.send(), is_update=is_update)
        return world.send_all()

    return run(scenario())


def sent_of_long_plan(world: World) -> list[str]:
    """Send a plan of which one page at a time is a request; the first answer shows an update."""

    async def scenario() -> list[str]:
        make_room = world.scheduler.make_room
        world.scheduler.make_room = lambda _=None: make_room(1)  # type: ignore[method-assign]
        planning = asyncio.ensure_future(world.begin_with_state())
        await settled_with(world)
        sent = [world.send()]
        await world.answer(sent[0], is_update=True)
        while not planning.done():
            await settled_with(world)
            sent += iter(world.send, None)
        return [request.url for request in sent if request is not None]

    return run(scenario())


def test_without_an_answer_pages_go_by_what_was_known(new_world: New) -> None:
    world = new_world()

    async def scenario() -> list[str]:
        await world.begin(*ALL)
        return world.send_all()

    assert run(scenario()) == [A, B, C, A1, D, A2]


@pytest.mark.parametrize("rest_after", [rest_after, rest_of_plan_after])
def test_siblings_of_a_page_found_updated_move_up(new_world: New, rest_after: RestAfter) -> None:
    world = new_world()
    assert rest_after(world, is_update=True) == [B, A1, C, D, A2]
    assert world.stat("adapted/moved") == 2
    assert world.stat("adapted/came_in") == 0


@pytest.mark.parametrize("rest_after", [rest_after, rest_of_plan_after])
def test_siblings_of_a_quiet_page_move_down(new_world: New, rest_after: RestAfter) -> None:
    assert rest_after(new_world(), is_update=False) == [B, C, D, A1, A2]


def test_what_is_recorded_as_predicted_is_what_was_known_when_a_page_was_sent(
    new_world: New,
) -> None:
    world = new_world()

    async def scenario() -> tuple[float, float]:
        await world.begin(*ALL)
        waiting = {seed.url: seed for seed in world.scheduler.ranked_seeds()}
        before = waiting[A1].meta["hacs"]["p"]
        await world.answer(world.send(), is_update=True)
        return before, waiting[A1].meta["hacs"]["p"]

    before, after = run(scenario())
    assert before == pytest.approx(0.327, abs=0.001)
    assert after == pytest.approx(0.424, abs=0.001)


@pytest.mark.parametrize("rest_after", [rest_after, rest_of_plan_after])
def test_under_a_budget_a_sibling_comes_in_for_what_is_now_worst(
    new_world: New, rest_after: RestAfter
) -> None:
    world = new_world(HACS_BUDGET=3)
    assert rest_after(world, is_update=True) == [B, A1]
    assert world.stat("adapted/came_in") == 1
    world.scheduler.close("finished")
    assert world.stat("dropped/budget") == 3
    assert world.stat("ranked") == 3


@pytest.mark.parametrize("rest_after", [rest_after, rest_of_plan_after])
def test_under_a_budget_nothing_worse_comes_in(new_world: New, rest_after: RestAfter) -> None:
    world = new_world(HACS_BUDGET=3)
    assert rest_after(world, is_update=False) == [B, C]
    assert world.stat("adapted/came_in") == 0


def test_a_plan_that_does_not_use_the_budget_up_has_room_for_a_sibling(new_world: New) -> None:
    world = new_world(HACS_BUDGET=5, HACS_THRESHOLD=0.35)
    assert rest_of_plan_after(world, is_update=True) == [B, A1, C]
    assert world.stat("ranked") == 4


def test_what_a_list_does_not_use_of_a_budget_is_left_to_seeds_that_come_later(
    new_world: New,
) -> None:
    world = new_world(HACS_BUDGET=4, HACS_THRESHOLD=0.35)

    async def scenario() -> list[str]:
        await world.begin(A, A1, B)
        await world.answer(world.send(), is_update=True)
        rest = world.send_all()
        await world.begin(C, "http://c.example/new.html")
        return rest + world.send_all()

    assert run(scenario()) == [B, "http://c.example/new.html", C]
    assert world.stat("ranked") == 4


@pytest.mark.parametrize(("budget", "rest"), [(3, [B, A1]), (2, [B])])
def test_once_no_seed_can_come_a_sibling_takes_what_is_left_of_the_budget(
    new_world: New, budget: int, rest: list[str]
) -> None:
    world = new_world(HACS_BUDGET=budget, HACS_THRESHOLD=0.35)

    async def scenario() -> list[str]:
        await world.begin(A, A1, B)
        world.scheduler.watch.is_over = True
        await world.answer(world.send(), is_update=True)
        return world.send_all()

    assert sorted(run(scenario())) == sorted(rest)
    assert world.stat("ranked") == budget
    assert world.stat("adapted/came_in") == budget - 2


@pytest.mark.parametrize("rest_after", [rest_after, rest_of_plan_after])
def test_what_falls_below_the_threshold_is_left_out(new_world: New, rest_after: RestAfter) -> None:
    world = new_world(HACS_THRESHOLD=0.31)
    assert rest_after(world, is_update=False) == [B, C]
    world.scheduler.close("finished")
    assert world.stat("dropped/threshold") == 3
    assert world.stat("ranked") == 3


@pytest.mark.parametrize("rest_after", [rest_after, rest_of_plan_after])
def test_what_rises_above_the_threshold_comes_in(new_world: New, rest_after: RestAfter) -> None:
    world = new_world(HACS_THRESHOLD=0.24)
    assert rest_after(world, is_update=True) == [B, A1, C, D, A2]
    assert world.stat("adapted/came_in") == 1
    world.scheduler.close("finished")
    assert world.stat("dropped/threshold") == 0


def test_pages_never_seen_stay_first(new_world: New) -> None:
    new = "http://a.example/new.html"
    world = new_world(HACS_BUDGET=3)

    async def scenario() -> list[str]:
        await world.begin(*ALL, new)
        first, second = world.send(), world.send()
        assert first is not None
        assert first.url == new
        await world.answer(second, is_update=True)
        return world.send_all()

    assert run(scenario()) == [B], "A1 is not better than it"


@pytest.mark.parametrize(
    "settings",
    [
        {"HACS_SIBLINGS": False},
        {"HACS_RANK_WINDOW": 6},
        {"HACS_EXPERIMENT": '{"hacs": 0.5, "last-obs": 0.5}'},
        {"HACS_POLICY": "last-obs"},
    ],
)
def test_where_pages_do_not_go_by_p_alone_the_order_stays(
    new_world: New, settings: dict[str, Any]
) -> None:
    assert not new_world(**settings).adaptation.is_on


def test_what_a_plan_explores_is_not_left_out_for_a_sibling(new_world: New) -> None:
    world = new_world(HACS_BUDGET=3, HACS_EXPLORE=0.4)

    assert len(sent_of_long_plan(world)) == 3
    assert world.stat("adapted/came_in") == 0


@pytest.mark.parametrize("settings", [{"HACS_EXPLORE": 0.4}, {"HACS_PAGES": "all"}])
def test_where_some_pages_have_a_share_of_the_budget_none_comes_in_for_them(
    new_world: New, settings: dict[str, Any]
) -> None:
    world = new_world(HACS_BUDGET=3, **settings)

    async def scenario() -> list[str]:
        await world.begin(*ALL)
        await world.answer(world.send(), is_update=True)
        return world.send_all()

    assert A1 not in run(scenario())
    assert world.stat("adapted/came_in") == 0


def test_a_state_that_is_away_leaves_the_order_as_it_is(
    new_world: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world()

    async def away(*_: object) -> None:
        raise StateUnavailableError("the state is away")

    async def scenario() -> list[str]:
        await world.begin(*ALL)
        monkeypatch.setattr(world.session.pages, "rows", away)
        await world.answer(world.send(), is_update=True)
        return world.send_all()

    assert run(scenario()) == [B, C, A1, D, A2]


def test_what_is_asked_for_a_second_time_as_a_control_is_not_left_out(new_world: New) -> None:
    world = new_world(HACS_BUDGET=3)

    async def scenario() -> list[str]:
        await world.begin(*ALL)
        for seed in world.scheduler.ranked_seeds():
            seed.meta["hacs_control"] = True
        await world.answer(world.send(), is_update=True)
        return world.send_all()

    assert run(scenario()) == [B, C]


def test_the_next_round_begins_with_nothing_of_the_last(new_world: New) -> None:
    world = new_world(HACS_BUDGET=3)

    async def scenario() -> list[str]:
        await world.begin(*ALL)
        await world.answer(world.send(), is_update=False)
        world.send_all()
        world.scheduler.begin_round()
        assert world.stat("dropped/budget") == 3
        await world.begin(*ALL)
        return world.send_all()

    assert run(scenario()) == [B, C, D]


def test_of_a_long_plan_what_is_no_request_yet_moves_too(new_world: New) -> None:
    world = new_world(HACS_BUDGET=4)

    assert sent_of_long_plan(world) == [A, B, A1, C], "A1 passed C, which was no request yet"
    assert world.stat("ranked") == 4


@dataclass(frozen=True)
class Story:
    """A crawl: of each page its site, days since its last visit and between updates, what it shows."""

    pages: list[tuple[int, int, int, bool]]
    budget: int | None
    threshold: float
    room: int
    """How many seeds may wait as requests."""
    controls: float

    @property
    def urls(self) -> list[str]:
        return [f"http://{site}.example/{number}" for number, (site, *_) in enumerate(self.pages)]

    def visits(self) -> list[Visit]:
        return [
            visit
            for url, (_, last, every, _) in zip(self.urls, self.pages, strict=True)
            for visit in (
                trap(url, last) if every < 20 else history(url, last, *range(last, 200, every))
            )
        ]

    def settings(self) -> dict[str, Any]:
        budget = {} if self.budget is None else {"HACS_BUDGET": self.budget}
        return {"HACS_THRESHOLD": self.threshold, "HACS_CONTROLS": self.controls, **budget}


one_page = st.tuples(st.integers(0, 3), st.integers(1, 60), st.integers(1, 90), st.booleans())
stories = st.builds(
    Story,
    pages=st.lists(one_page, min_size=1, max_size=14),
    budget=st.none() | st.integers(1, 14),
    threshold=st.sampled_from([0.0, 0.2, 0.5]),
    room=st.sampled_from([1, 3, 100]),
    controls=st.sampled_from([0.0, 0.5]),
)


@pytest.mark.parametrize("of_state", [False, True])
@with_settings(max_examples=25, deadline=None)
@example(story=Story([(0, 5, 1, True)] * 6, budget=4, threshold=0.0, room=100, controls=0.5))
@given(story=stories)
def test_whatever_is_found_each_page_is_sent_once_or_left_out_and_the_budget_holds(
    tmp_path_factory: pytest.TempPathFactory, asyncio_reactor: None, story: Story, of_state: bool
) -> None:
    urls = story.urls
    world = World(tmp_path_factory.mktemp("story"), story.visits(), **story.settings())
    news = {url: is_update for url, (*_, is_update) in zip(urls, story.pages, strict=True)}
    dropped: list[str] = []
    controls = 0

    def note_dropped(request: Request) -> None:
        dropped.append(request.url)

    world.crawler.signals.connect(note_dropped, signals.request_dropped)

    async def scenario() -> list[str]:
        make_room = world.scheduler.make_room
        world.scheduler.make_room = lambda _=None: make_room(story.room)  # type: ignore[method-assign]
        beginning = asyncio.ensure_future(
            world.begin_with_state() if of_state else world.begin(*urls)
        )
        sent = []
        nonlocal controls
        while not beginning.done() or world.scheduler.has_pending_requests():
            await settled_with(world)
            if (request := world.send()) is not None:
                sent.append(request.url)
                controls += "hacs_control" in request.meta
                await world.answer(request, is_update=news[request.url])
        await beginning
        return sent

    sent = run(scenario())
    world.scheduler.close("finished")
    world.session._worker.close()
    assert len(set(sent)) == len(sent)
    assert story.budget is None or len(sent) + controls <= story.budget
    assert len(sent) == world.stat("ranked")
    assert len(urls) - len(sent) == world.stat("dropped/threshold") + world.stat("dropped/budget")
    if not of_state:
        assert sorted(sent + dropped) == sorted(urls)
    if not story.threshold and not story.controls:
        assert len(sent) == min(len(urls), story.budget or len(urls))
