"""The queue that the crawls of a fleet share, for scrapy-redis's SCHEDULER_QUEUE_CLASS.

A request waits in its host's partition, and a crawl takes only from the partitions that it holds
(`Holdings`). What was taken is kept until Scrapy is done with the request and with all that its callback
yielded; if that process dies, it returns when the fleet's board gives the partition to another.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import redis
from scrapy import Request, Spider, signals

from hacs_crawler.exceptions import StateError
from hacs_crawler.fleet.board import partition_of
from hacs_crawler.fleet.partitions import Holdings, under_way
from hacs_crawler.fleet.serializer import SerializerError, dumps, read_request
from hacs_crawler.state.redis_connection import may_pass
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

BATCH: Final = 16
"""Requests taken at once, at most one of each partition."""
EMPTY_SECONDS: Final = 0.2
"""For so long after nothing was found the server is not asked again."""
AWAY_SECONDS: Final = 2.0
"""For so long after the server did not answer it is not asked again."""
MOST_DAMAGED: Final = 100
"""So many of the requests that could not be read are kept to be looked at."""
_LOWEST: Final = 2**31

# KEYS: waiting (members in the order of their text), requests (member -> request), taken (member ->
# who took it), number, damaged. A member is "<partition>|<2^31 - priority>|<number>".
_PUSH = """
for i = 1, #ARGV, 2 do
  local member = ARGV[i] .. string.format('%016.0f', redis.call('INCR', KEYS[4]))
  redis.call('HSET', KEYS[2], member, ARGV[i + 1])
  redis.call('ZADD', KEYS[1], 0, member)
end
return 1
"""
# ARGV: who, how many, number of members done, number of partitions that are new to who, these, then
# the partitions to take from
_POP = """
local waiting, requests, taken = KEYS[1], KEYS[2], KEYS[3]
local me, most, ended, new = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
for i = 5, 4 + ended do
  redis.call('HDEL', taken, ARGV[i])
  redis.call('HDEL', requests, ARGV[i])
  redis.call('ZREM', waiting, ARGV[i])
end
if new > 0 then
  local mine = {}
  for i = 5 + ended, 4 + ended + new do mine[ARGV[i]] = true end
  local all = redis.call('HGETALL', taken)
  for i = 1, #all, 2 do
    if all[i + 1] ~= me and mine[string.match(all[i], '^%d+')] then
      redis.call('HDEL', taken, all[i])
      redis.call('ZADD', waiting, 0, all[i])
    end
  end
end
local fronts = {}
for i = 5 + ended + new, #ARGV do
  local best = redis.call('ZRANGEBYLEX', waiting, '[' .. ARGV[i] .. '|', '[' .. ARGV[i] .. '}',
    'LIMIT', 0, 1)[1]
  if best then fronts[#fronts + 1] = {string.match(best, '|(%d+)|') or '', i, best} end
end
table.sort(fronts, function(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  return a[2] < b[2]
end)
local given = {}
for i = 1, math.min(most, #fronts) do
  local member = fronts[i][3]
  redis.call('ZREM', waiting, member)
  redis.call('HSET', taken, member, me)
  given[#given + 1] = member
  given[#given + 1] = redis.call('HGET', requests, member) or ''
end
return given
"""
_GIVE_BACK = """
for i = 1, #ARGV do
  if redis.call('HDEL', KEYS[3], ARGV[i]) == 1 then redis.call('ZADD', KEYS[1], 0, ARGV[i]) end
end
return 1
"""
_QUARANTINE = f"""
redis.call('LPUSH', KEYS[5], ARGV[2])
redis.call('LTRIM', KEYS[5], 0, {MOST_DAMAGED - 1})
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
"""
_COUNT = """
local number = 0
for i = 1, #ARGV do
  number = number + redis.call('ZLEXCOUNT', KEYS[1], '[' .. ARGV[i] .. '|', '[' .. ARGV[i] .. '}')
end
return number
"""


class PartitionQueue:
    """Requests by partition, and in one by priority, then in the order of arrival.

    Two kinds of request stay in this process's memory: visits of the plan, which the board brings back
    if this process dies, and those that JSON cannot hold. The latter only where this crawl holds the
    partition; elsewhere they are dropped with an error line.
    """

    def __init__(self, server: Any, spider: Spider, key: str, serializer: Any = None) -> None:
        self._server = server
        self._spider = spider
        del serializer  # it might load pickles
        self._prefix = "{" + key % {"spider": spider.name} + "}"
        names = ("waiting", "requests", "taken", "number", "damaged")
        self._keys = [f"{self._prefix}:{name}" for name in names]
        self._holdings = Holdings.of(spider.crawler)
        self._name = _new_name()
        self._known: frozenset[int] = frozenset()
        """Partitions of which this process has what former holders left."""
        self._given: dict[str, Request] = {}
        """What was taken, until the server knows that it has ended."""
        self._taken: deque[tuple[str, Request]] = deque()
        self._local: deque[Request] = deque()
        self._unsent: list[tuple[str, bytes]] = []
        self._turn = 0
        self._next_try = 0.0
        self._is_away = False
        self._has_warned = False
        self._holdings.busy = self._busy
        self._holdings.lose = self._lose
        self._holdings.settle = self._settle
        spider.crawler.signals.connect(self._settle_alone, signals.spider_closed)

    def __len__(self) -> int:
        """Return how many requests wait here and in the partitions held; 1 where that is not known."""
        is_known = self._holdings.partitions <= self._known
        if not is_known and self._holdings.may_send() and time.monotonic() >= self._next_try:
            self._take()  # what a former holder of these had taken waits again only then
        here = len(self._local) + len(self._taken) + len(self._unsent)
        if here:
            return here
        found = self._ask(_COUNT, *_names(self._holdings.partitions))
        return 1 if found is None else int(found)

    def push(self, request: Request) -> None:
        """Put a request where the crawl that holds its host's partition finds it."""
        partition = partition_of(request.url)
        if _is_planned(request):
            self._keep(request)
            return
        try:
            body = dumps(request.to_dict(spider=self._spider))
        except (SerializerError, ValueError) as error:  # ValueError: a callback that is no method
            self._keep_unshared(request, partition, error)
            return
        priority = min(max(_LOWEST - request.priority, 0), 2 * _LOWEST)
        self._unsent.append((f"{partition:03d}|{priority:010d}|", body))
        self._send()
        self._next_try = 0.0 if not self._is_away else self._next_try

    def pop(self, timeout: int = 0) -> Request | None:
        """Return the next request that this crawl may send, None where there is none now."""
        del timeout  # nothing waits in the event loop
        if not self._holdings.may_send():
            return None
        if self._local:
            return self._local.popleft()
        if not self._taken and time.monotonic() >= self._next_try:
            self._take()
        if not self._taken:
            return None
        return self._taken.popleft()[1]

    def clear(self) -> None:
        """Empty the queue if SCHEDULER_FLUSH_ON_START asks for it; it is not this crawl's alone."""
        if self._spider.crawler.settings.getbool("SCHEDULER_FLUSH_ON_START"):
            self._server.delete(*self._keys)
        else:
            logger.warning(
                "The requests in %s are left there, as other crawls may share them: set "
                "SCHEDULER_PERSIST = True",
                self._prefix,
            )

    def _take(self) -> None:
        self._send()
        held = self._holdings.partitions
        ended = self._ended()
        new = held - self._known if self._holdings.is_of_fleet else frozenset()
        order = sorted(held - self._holdings.left_alone())
        self._turn = (self._turn + 1) % max(len(order), 1)
        turned = order[self._turn :] + order[: self._turn]
        counts = (len(ended), len(new))
        found = self._ask(_POP, self._name, BATCH, *counts, *ended, *_names(new), *_names(turned))
        if found is None:
            return
        self._forget(ended)
        self._known = held
        for member, body in zip(found[::2], found[1::2], strict=True):
            request = self._read(member, body)
            if request is not None:
                self._taken.append((_text(member), request))
        if not found:
            self._next_try = time.monotonic() + EMPTY_SECONDS

    def _read(self, member: bytes, body: bytes) -> Request | None:
        """Return a request; one that cannot be read is put aside with an error line."""
        try:
            _partition(_text(member))
            request = read_request(body, self._spider)
        except (SerializerError, ValueError) as error:
            logger.error(
                "A request in %s cannot be used and was put aside in %s: %s",
                self._prefix,
                self._keys[4],
                error,
            )
            self._count("scheduler/damaged")
            self._ask(_QUARANTINE, member, body)
            return None
        self._holdings.note_begun()
        self._given[_text(member)] = request
        return request

    def _ended(self) -> list[str]:
        """Return what was handed out and is not under way any more."""
        here = under_way(self._spider.crawler).union(self._waiting())
        return [member for member, request in self._given.items() if request not in here]

    def _waiting(self) -> set[Request]:
        """Return what was taken and not sent yet: it waits for its turn here, or for its host."""
        return {request for _, request in self._taken}.union(self._holdings.waiting())

    def _busy(self) -> frozenset[int]:
        """Tell the server what has ended; return the partitions of the rest, and of what waits here."""
        self._acknowledge(self._ended())
        local = (partition_of(request.url) for request in self._local)
        return frozenset(map(_partition, self._given)).union(local)

    def _acknowledge(self, ended: Sequence[str]) -> None:
        if ended and self._ask(_POP, self._name, 0, len(ended), 0, *ended) is not None:
            self._forget(ended)

    def _forget(self, ended: Iterable[str]) -> None:
        for member in ended:
            del self._given[member]

    def _send(self) -> None:
        """Send what was pushed; while the server is away it waits here."""
        if not self._unsent or (self._is_away and time.monotonic() < self._next_try):
            return
        args = [part for pair in self._unsent for part in pair]
        if self._ask(_PUSH, *args) is not None:
            self._unsent.clear()

    def _ask(self, script: str, *args: Any) -> Any:
        """Return a script's answer; None, and a line in the log, where the server gives none.

        An error that will not pass ends the crawl, as one of the state does.
        """
        node = {}
        if hasattr(self._server, "get_node_from_key"):
            # not told the node, redis-py asks the server for each call which arguments are keys
            node = {"target_nodes": self._server.get_node_from_key(self._keys[0])}
        try:
            answer = self._server.execute_command(
                "EVAL", script, len(self._keys), *self._keys, *args, **node
            )
        except (
            redis.exceptions.RedisError,
            redis.exceptions.RedisClusterException,
            OSError,
        ) as error:
            if not may_pass(error):
                self._fail(f"the queue {self._prefix} cannot be used: {error}")
            elif not self._is_away:
                logger.warning("The queue %s cannot be used now: %s", self._prefix, error)
            self._is_away = True
            self._next_try = time.monotonic() + AWAY_SECONDS
            return None
        if self._is_away:
            logger.info("The queue %s is back", self._prefix)
        self._is_away = False
        return answer

    def _keep(self, request: Request) -> None:
        self._holdings.note_begun()
        self._local.append(request)

    def _keep_unshared(self, request: Request, partition: int, error: object) -> None:
        self._count("scheduler/unserializable")
        if partition not in self._holdings.partitions:
            logger.error("%s is dropped, as its host is another crawl's now: %s", request, error)
            return
        if not self._has_warned:
            logger.warning(
                "%s cannot be shared and waits in this process's memory (no more of these will be "
                "logged): %s",
                request,
                error,
            )
        self._has_warned = True
        self._keep(request)

    def _lose(self, requests: Collection[Request]) -> None:
        """Drop what was taken under a lease that ran out, and these requests: others have it.

        What is under way ends here, and is then off the queue for all.
        """
        self._name = _new_name()
        self._known = frozenset()
        lost = self._waiting().union(requests)
        self._forget([member for member, request in self._given.items() if request in lost])
        self._taken.clear()
        local = [request for request in self._local if not _is_planned(request)]
        self._local.clear()
        for request in local:
            self._keep_unshared(request, partition_of(request.url), "a lease ran out")

    def _settle(self, *, is_last: bool = True) -> bool:
        """Leave to others what waits here, as all that was handed out has ended; whether they have it.

        The last time what could not be put into the queue is named.
        """
        self._next_try = 0.0
        self._send()
        waiting = self._waiting()
        left = [member for member, request in self._given.items() if request in waiting]
        is_done = not self._unsent and self._ask(_GIVE_BACK, *left) is not None
        if is_done:
            self._taken.clear()
            self._forget(left)  # else the worker's last look takes them for ended
            self._acknowledge([*self._given])
        elif is_last and self._unsent:
            unsent = counted(len(self._unsent), "request")
            logger.error("%s could not be put into %s", unsent, self._prefix)
        return is_done

    def _settle_alone(self) -> None:
        if not self._holdings.is_of_fleet:  # else its worker has it done, patiently
            self._settle()

    def _fail(self, message: str) -> None:
        session = getattr(self._spider.crawler, "hacs_session", None)
        if session is None:
            raise StateError(message)
        session.fail(message)

    def _count(self, name: str) -> None:
        stats = self._spider.crawler.stats
        if stats is not None:
            stats.inc_value(name)


def _is_planned(request: Request) -> bool:
    return "hacs_planned" in request.meta


def _text(member: bytes) -> str:
    return member.decode("ascii", "replace")


def _partition(member: str) -> int:
    return int(member[:3])


def _names(partitions: Iterable[int]) -> list[str]:
    return [f"{partition:03d}" for partition in partitions]


def _new_name() -> str:
    return secrets.token_hex(8)
