"""A crawl's hold on its shard: nothing is sent without it, and one that is lost stays lost."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from twisted.internet.defer import Deferred

from crawl_support import UnderWay, settled
from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.parts.shards import hold
from hacs_crawler.parts.shards.hold import ShardHold
from hacs_crawler.state import Shard
from hacs_crawler.utils.loop import Worker, sleep

SHARD = Shard(0, 2)
URL = "http://a.example/"


class Lock:
    """A lock that another crawl has, or loses, when a test says so."""

    def __init__(self) -> None:
        self.seconds = 60.0
        self.holder: str | None = None
        self.is_ours = True

    def take(self) -> str | None:
        return self.holder

    def renew(self) -> bool:
        return self.is_ours

    def release(self) -> None:
        pass


class Handlers:
    """What sends requests, behind the queues of all slots."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def download_request_async(self, request: Request) -> None:
        self.sent.append(request.url)


class Held:
    """A hold on a lock, whose clock a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lock: Any = Lock()
        self.lost: list[str] = []
        self.handlers = Handlers()
        under_way = UnderWay()
        under_way._downloader.handlers = self.handlers
        under_way.begin(Request(URL))
        (self.slot,) = under_way._downloader.slots.values()
        self.engine_slot = type("Slot", (), {"closing": None})()
        under_way.crawler.engine._slot = self.engine_slot
        self.hold = ShardHold(under_way.crawler, SHARD, self.lock, self.lost.append, self.clock)
        self.worker = Worker()

    def clock(self) -> float:
        return self.now

    async def take(self) -> None:
        await self.hold.take(self.worker)

    def send(self, url: str = URL) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.handlers.download_request_async(Request(url)))

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long requests and crawls wait, in seconds; here they go on at once."""
    found: list[float] = []

    def pause(seconds: float) -> Deferred[None]:
        found.append(seconds)
        return sleep(0.0)

    monkeypatch.setattr(hold, "sleep", pause)
    for name in ("RENEW_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(hold, name, 0.001)
    return found


@pytest.fixture
def holding() -> Iterator[Held]:
    held = Held()
    yield held
    held.hold.release()
    held.worker.close()


async def test_what_would_be_sent_past_the_deadline_waits_until_the_same_lock_is_renewed(
    holding: Held, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "RENEW_SECONDS", 3600.0)
    holding.slot.delay = 5.0
    await holding.take()
    await holding.send()
    holding.now = holding.lock.seconds  # as after a SIGSTOP, before anything is renewed
    waiting = [holding.send(f"{URL}{number}") for number in range(2)]
    await settled()
    assert (holding.handlers.sent, set(pauses)) == ([URL], {hold.CHECK_SECONDS})
    holding.now -= 1.0
    await asyncio.gather(*waiting)
    assert holding.handlers.sent == [URL, f"{URL}0", f"{URL}1"]
    # what waited together is as far apart as the slot says
    assert pauses[-2:] == [0.0, pytest.approx(5.0, abs=0.5)]
    holding.now += 1.0
    holding.engine_slot.closing = object()
    with pytest.raises(IgnoreRequest):
        await holding.send()


async def test_a_lock_that_is_not_this_crawl_s_is_lost_for_good(holding: Held) -> None:
    await holding.take()
    queued: Deferred[None] = Deferred()
    holding.slot.queue.append((Request(URL), queued))
    holding.lock.is_ours = False
    await holding.until(lambda: bool(holding.lost))
    assert len(holding.lost) == 1
    assert holding.lost[0].startswith("the lock of shard 0/2 expired")
    with pytest.raises(IgnoreRequest):
        await queued
    with pytest.raises(IgnoreRequest):
        await holding.send()
    assert holding.handlers.sent == []


async def test_a_crawl_that_ends_waits_for_no_lock_and_misses_none(
    holding: Held, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await holding.take()
    holding.lock.holder = "process 7"
    taking = asyncio.ensure_future(holding.take())
    await holding.until(lambda: "this crawl waits" in caplog.text)
    holding.hold.stop_waiting()
    await taking
    holding.lock.is_ours = False
    await holding.until(lambda: not holding.hold.may_send())
    assert holding.lost == []


async def test_a_lock_that_is_released_while_it_is_renewed_is_not_lost(holding: Held) -> None:
    renewals: list[None] = []

    def renew() -> bool:
        renewals.append(holding.hold.release())
        return False

    holding.lock.renew = renew
    await holding.take()
    await holding.until(lambda: bool(renewals))
    await asyncio.sleep(0.02)
    assert holding.lost == []


async def test_who_has_to_wait_says_for_whom_and_takes_the_shard_when_it_is_free(
    holding: Held, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    holding.lock.holder = "process 7"
    taking = asyncio.ensure_future(holding.take())
    await holding.until(lambda: "this crawl waits" in caplog.text)
    assert "shard 0/2 is crawled by process 7" in caplog.text
    holding.lock.holder = None
    await taking
    assert holding.hold.may_send()
    assert caplog.text.count("waits") == 1
    assert "Shard 0/2 is free: this crawl begins" in caplog.text


async def test_a_state_that_is_away_is_said_once_until_the_lock_is_renewed(
    holding: Held, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    away = StateUnavailableError("the state is away")
    taken = iter([away, "process 7", away, None])
    renewed = iter([True, away, away, True, away, away, True, False])

    def next_of(answers: Iterator[object]) -> object:
        holding.now += holding.lock.seconds  # so late is each
        answer = next(answers)
        if answer is away:
            raise away
        return answer

    holding.lock.take, holding.lock.renew = partial(next_of, taken), partial(next_of, renewed)
    with pytest.raises(StateUnavailableError):
        await holding.take()
    await holding.take()
    await holding.until(lambda: bool(holding.lost))
    counts = [
        caplog.text.count(said)
        for said in ("this crawl waits", "is free", "nothing is sent", "goes on")
    ]
    assert counts == [1, 1, 2, 2]
