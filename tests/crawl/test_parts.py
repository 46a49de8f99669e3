"""What parts of a crawl raise, or how long they take, costs the crawl nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.misc import load_object
from twisted.internet.defer import Deferred

from crawl_support import Timers, observed, run, settled
from hacs_crawler.config import BUILT_IN_PARTS
from hacs_crawler.crawl.meta import mark_unseen, tag_of
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.parts import HOOKS, MOST_FAILURES, WAIT_SECONDS, Parts, load_parts
from hacs_crawler.exceptions import ConfigError, StateUnavailableError
from hacs_crawler.links import LinkRules
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.state import Page, Visit
from hacs_crawler.utils import loop

URL = "http://a.example/"
VISIT = Visit(URL, 86_400, marks=frozenset({1}))
REQUEST, RESPONSE = Request(URL), Response(URL)
OBSERVED = observed(VISIT)
QUOTA = Quota(5)


async def answered(own: Parts) -> bool:
    return await own.answered(REQUEST, RESPONSE, URL) is not RESPONSE


CALLS: dict[str, Any] = {
    "held": lambda own: own.enter(),
    "opened": lambda own: own.each(Part.opened),
    "before_request": lambda own: own.before_request(REQUEST, URL),
    "answered": answered,
    "failed": lambda own: own.failed(REQUEST, OSError(), URL),
    "takes": lambda own: not own.takes(URL),
    "admit": lambda own: own.admit(REQUEST),
    "rules": lambda own: own.rules(RESPONSE, LinkRules()) != LinkRules(),
    "quota": lambda own: own.quota(QUOTA) is not QUOTA,
    "chosen": lambda own: own.tell(Part.chosen, np.ones(1), 0),
    "busy": lambda own: own.busy(),
    "before_rank": lambda own: own.wait(Part.before_rank, [URL]),
    "start_requests": lambda own: all_of(own.start_requests()),
    "recorded": lambda own: own.tell(Part.recorded, [OBSERVED.recorded]),
    "items_before": lambda own: own.items_before(URL, RESPONSE),
    "doubts": lambda own: own.doubts(Page(URL), {}, frozenset({1})),
    "shown": lambda own: own.tell(Part.shown, RESPONSE, {}, is_news=True),
    "observed": lambda own: [*own.observed(OBSERVED)],
    "sum_up": lambda own: own.tell(Part.sum_up),
    "round_began": lambda own: own.each(Part.round_began),
    "round_ended": lambda own: own.each(Part.round_ended, lambda: False),
    "closing": lambda own: own.wait(Part.closing),
}
"""How the kernel calls each hook."""
OVER_A_REQUEST = {"before_request", "answered", "failed"}
"""Hooks that are called for one request of a page, which is told apart if they fail."""


async def all_of(requests: AsyncIterator[Request]) -> list[Request]:
    return [request async for request in requests]


class Crawl:
    """Parts of a crawl, what they cost it, and what they counted."""

    def __init__(self, *own: Part) -> None:
        self.stats: Counter[str] = Counter()
        self.failures: list[str] = []
        self.parts = Parts(own, self, self.failures.append)

    def count(self, name: str, number: int = 1) -> None:
        self.stats[name] += number

    def call(self, hook: str) -> Any:
        result = CALLS[hook](self.parts)
        return run(result) if asyncio.iscoroutine(result) else result


def part_with(hook: str, function: Any, *, required: bool = False) -> Part:
    """A part that overrides one hook."""
    return type("Own", (Part,), {hook: function, "required": required})()


def raising(*given: Any, **named: Any) -> Any:
    raise ValueError("of a part")


def test_every_hook_is_called_in_some_test() -> None:
    assert sorted(CALLS) == sorted(HOOKS)


def test_every_hook_has_users() -> None:
    kinds = [load_object(path) for path in BUILT_IN_PARTS]
    for hook in HOOKS:
        assert any(getattr(kind, hook) is not getattr(Part, hook) for kind in kinds), hook


@pytest.mark.parametrize("hook", sorted(CALLS))
def test_a_part_that_raises_costs_nothing_and_is_counted(
    hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    mark_unseen(REQUEST, "")
    crawl = Crawl(part_with(hook, raising))
    for _ in range(2):
        assert not crawl.call(hook)
    assert not tag_of(REQUEST).unseen, "the page is observed"
    assert crawl.stats == {"parts/failed/Own": 2}
    assert crawl.failures == []
    assert caplog.messages == ["The part Own failed; the crawl goes on: ValueError: of a part"]


@pytest.mark.parametrize("hook", sorted(CALLS))
def test_a_part_that_the_crawl_cannot_do_without_ends_it_or_leaves_ten_pages_unobserved(
    hook: str,
) -> None:
    mark_unseen(REQUEST, "")
    crawl = Crawl(part_with(hook, raising, required=True))
    is_over_a_request = hook in OVER_A_REQUEST
    for _ in range(MOST_FAILURES if is_over_a_request else 1):
        assert crawl.failures == []
        assert not crawl.call(hook)
        assert tag_of(REQUEST).unseen == "part_failed" * is_over_a_request
    (line,) = crawl.failures
    assert line == "Own, which this crawl cannot do without, failed: ValueError: of a part"


@pytest.mark.parametrize("hook", sorted(CALLS))
@pytest.mark.parametrize("rubbish", [7, "visit", [None]])
def test_what_is_returned_in_place_of_what_is_asked_for_costs_nothing(
    hook: str, rubbish: Any
) -> None:
    crawl = Crawl(part_with(hook, lambda *_: rubbish))
    assert not crawl.call(hook)
    assert crawl.failures == []


def test_a_part_that_fails_again_and_again_is_off(caplog: pytest.LogCaptureFixture) -> None:
    crawl = Crawl(part_with("observed", raising), part_with("observed", lambda *_: [VISIT]))
    for _ in range(MOST_FAILURES + 5):
        assert crawl.call("observed") == [VISIT], "it costs the others nothing"
    assert crawl.stats == {"parts/failed/Own": MOST_FAILURES}
    assert (
        caplog.messages[-1]
        == f"The part Own failed {MOST_FAILURES} times in a row: it is switched off"
    )


def test_hooks_that_a_part_does_not_need_are_not_called_in_that_round() -> None:
    part = part_with("observed", lambda *_: [VISIT])
    crawl = Crawl(part)
    part.unneeded = ("observed",)
    assert crawl.call("observed") == [VISIT]
    crawl.parts.begin_round()
    assert crawl.call("observed") == []
    assert not crawl.parts.override("observed")
    part.unneeded = ()
    crawl.parts.begin_round()
    assert crawl.call("observed") == [VISIT]


def test_what_succeeds_now_and_then_stays_on() -> None:
    calls: list[int] = []

    def sometimes(*_: Any) -> list[Visit]:
        calls.append(1)
        if len(calls) % MOST_FAILURES:
            raise ValueError("of a part")
        return [VISIT]

    crawl = Crawl(part_with("observed", sometimes))
    found = [crawl.call("observed") for _ in range(5 * MOST_FAILURES)]
    assert len(calls) == 5 * MOST_FAILURES
    assert found.count([VISIT]) == 5


async def test_ranking_does_not_wait_for_ever_for_a_part(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    timers = Timers()
    monkeypatch.setattr(loop, "call_later", timers.call_later)
    never: Deferred[None] = Deferred()

    async def dawdle(part: Part, urls: Sequence[str]) -> None:
        await never.asFuture(asyncio.get_running_loop())

    crawl = Crawl(part_with("before_rank", dawdle))
    ranking = asyncio.ensure_future(crawl.parts.wait(Part.before_rank, [URL]))
    await settled()
    timers.go_on(WAIT_SECONDS - 1)
    await settled()
    assert not ranking.done()
    timers.go_on(2)
    await ranking
    assert crawl.stats == {"parts/failed/Own": 1}
    assert caplog.messages == [
        "The part Own failed; the crawl goes on: TimeoutError: not done after 60 s"
    ]


def test_a_request_waits_only_for_parts_that_have_it_wait() -> None:
    asked: list[str | None] = []

    def at_once(part: Part, request: Request, page_url: str | None) -> None:
        asked.append(page_url)

    async def later(part: Part, request: Request, page_url: str | None) -> None:
        raise ValueError("of a part")

    assert Crawl(part_with("before_request", at_once)).call("before_request") is None
    both = Crawl(part_with("before_request", later), part_with("before_request", at_once))
    for _ in range(MOST_FAILURES + 1):
        both.call("before_request")
    assert both.stats == {"parts/failed/Own": MOST_FAILURES}
    assert asked == [URL] * (MOST_FAILURES + 2)


def test_requests_take_over_what_any_part_says() -> None:
    one, other = (type("Own", (Part,), {"inherited": (key,)}) for key in "ab")
    assert Crawl(one(), Part(), other()).parts.inherited == ("a", "b")


def test_a_state_that_is_away_is_no_failure_of_the_part_that_opens_with_it() -> None:
    async def asks(part: Part) -> None:
        raise StateUnavailableError("the state is away")

    crawl = Crawl(part_with("opened", asks))
    with pytest.raises(StateUnavailableError):
        crawl.call("opened")
    assert not crawl.stats


@pytest.mark.parametrize("failure", [None, "Redis is away"])
async def test_what_parts_hold_is_released_in_the_end_the_last_first(
    failure: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    def holding(name: str, failure: str | None = None) -> Part:
        @asynccontextmanager
        async def held(part: Part) -> AsyncIterator[None]:
            done.append(f"enter {name}")
            try:
                yield
            finally:
                done.append(f"leave {name}")
            if failure is not None:
                raise StateUnavailableError(failure)

        return part_with("held", held)

    crawl = Crawl(holding("one"), Part(), holding("two", failure))
    await crawl.parts.enter()
    await crawl.parts.leave()
    assert done == ["enter one", "enter two", "leave two", "leave one"]
    assert caplog.messages == ([] if failure is None else [f"A part ended badly: {failure}"])


def test_only_hooks_that_a_part_overrides_are_called() -> None:
    crawl = Crawl(part_with("closing", raising))
    assert [hook for hook in HOOKS if crawl.parts.override(hook)] == ["closing"]


class NoPart:
    @staticmethod
    def from_crawl(crawl: object) -> str:
        return f"of {crawl}"


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (f"{__name__}.NoPart", "TypeError: 'of None' is not a Part"),
        ("no.such.Part", "ModuleNotFoundError"),
        ("scrapy.Spider", "AttributeError"),
    ],
)
def test_a_part_that_cannot_be_had_is_named(path: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"HACS_PARTS names {path}: {problem}"):
        load_parts([path], None)


def test_a_part_that_is_off_is_none() -> None:
    class Off(Part):
        @classmethod
        def from_crawl(cls, crawl: Any) -> None:
            del crawl

    assert load_parts([Off], None) == []
