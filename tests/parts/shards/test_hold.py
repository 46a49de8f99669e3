"""A crawl's hold on its shard: nothing is sent without it, and one that is lost stays lost."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from crawl_support import UnderWay, settled
from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.parts.shards import hold
from hacs_crawler.parts.shards.hold import ShardHold
from hacs_crawler.shards import ShardLock, shard_lock
from hacs_crawler.state import Shard
from hacs_crawler.utils.loop import Worker

SHARD = Shard(0, 2)


class Handlers:
    """What sends requests, behind the queues of all slots."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def download_request_async(self, request: Request) -> None:
        self.sent.append(request.url)


class Held:
    """A hold on a lock in a real Redis, whose clock a test moves."""

    def __init__(self, lock: ShardLock) -> None:
        self.now = 0.0
        self.lost: list[str] = []
        self.handlers = Handlers()
        under_way = UnderWay()
        under_way._downloader.handlers = self.handlers
        under_way.crawler.engine._slot = type("Slot", (), {"closing": None})()
        self.hold = ShardHold(under_way.crawler, SHARD, lock, self.lost.append, lambda: self.now)
        self.worker = Worker()

    async def take(self) -> None:
        await self.hold.take(self.worker)

    def send(self, url: str) -> asyncio.Task[None]:
        sending = self.handlers.download_request_async(Request(url))
        return asyncio.ensure_future(sending)

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RENEW_SECONDS", "RETRY_SECONDS", "CHECK_SECONDS"):
        monkeypatch.setattr(hold, name, 0.001)


@pytest.fixture
def server(redis_port: int) -> Iterator[redis.Redis]:
    with redis.Redis(port=redis_port) as client:
        yield client


@pytest.fixture
def lock(redis_port: int, namespace: str) -> ShardLock:
    return shard_lock(f"redis://127.0.0.1:{redis_port}/0", namespace, Path())


@pytest.fixture
def holding(lock: ShardLock) -> Iterator[Held]:
    held = Held(lock)
    yield held
    held.hold.release()
    held.worker.close()


async def test_what_would_be_sent_past_the_deadline_waits_until_the_same_lock_is_renewed(
    holding: Held, lock: ShardLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "RENEW_SECONDS", 3600.0)
    await holding.take()
    await holding.send("http://a.example/1")
    holding.now = lock.seconds + 1.0  # as after a SIGSTOP, before anything is renewed
    sending = holding.send("http://a.example/2")
    await settled()
    assert holding.handlers.sent == ["http://a.example/1"]
    assert not holding.hold.may_send()
    holding.now = 0.0
    await sending
    assert holding.handlers.sent == ["http://a.example/1", "http://a.example/2"]


async def test_the_lock_is_renewed_while_the_crawl_lasts(
    holding: Held, server: redis.Redis, namespace: str
) -> None:
    await holding.take()
    server.pexpire(f"{namespace}:lock", 60_000)
    await holding.until(lambda: server.ttl(f"{namespace}:lock") > 60)
    holding.now = 100.0
    await holding.until(holding.hold.may_send)


@pytest.mark.parametrize("value", [None, "another's"])
async def test_a_lock_that_is_gone_or_another_s_is_lost_for_good(
    holding: Held, server: redis.Redis, namespace: str, value: str | None
) -> None:
    key = f"{namespace}:lock"

    await holding.take()
    if value is None:
        server.delete(key)
    else:
        server.set(key, value)
    await holding.until(lambda: bool(holding.lost))
    assert len(holding.lost) == 1
    assert holding.lost[0].startswith("the lock of shard 0/2 expired")
    with pytest.raises(IgnoreRequest):
        await holding.send("http://a.example/")
    assert holding.handlers.sent == []
    assert server.get(key) == (None if value is None else value.encode())


async def test_who_has_to_wait_says_for_whom_and_takes_the_shard_when_it_is_free(
    holding: Held, redis_port: int, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other = shard_lock(f"redis://127.0.0.1:{redis_port}/0", namespace, Path())

    assert other.take() is None
    taking = asyncio.ensure_future(holding.take())
    await holding.until(lambda: "this crawl waits" in caplog.text)
    assert "shard 0/2 is crawled by process " in caplog.text
    other.release()
    await taking
    assert holding.hold.may_send()
    assert caplog.text.count("waits") == 1
    assert "Shard 0/2 is free: this crawl begins" in caplog.text


async def test_a_state_that_is_away_is_said_once_until_the_lock_is_renewed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    away = StateUnavailableError("the state is away")
    taken = iter([away, "process 7", away, None])
    renewed = iter([True, away, away, True, away, away, True, False])

    def next_of(answers: Iterator[object]) -> object:
        held.now += lock.seconds  # so late is each
        answer = next(answers)
        if answer is away:
            raise away
        return answer

    lock: Any = SimpleNamespace(seconds=30.0, release=lambda: None)
    lock.take, lock.renew = partial(next_of, taken), partial(next_of, renewed)
    held = Held(lock)
    with pytest.raises(StateUnavailableError):
        await held.take()
    await held.take()
    await held.until(lambda: bool(held.lost))
    counts = [
        caplog.text.count(said)
        for said in ("this crawl waits", "is free", "nothing is sent", "goes on")
    ]
    assert counts == [1, 1, 2, 2]
    held.worker.close()
