"""The keys of a state in Redis, the Lua scripts that run on the server, and bulk reads.

Pages fall into `BUCKETS` buckets by their id. A bucket has two hashes, `<namespace>:{<bucket>}:pages`
(id -> page bytes) and `<namespace>:{<bucket>}:rows` (id -> ranking row), and a list,
`<namespace>:{<bucket>}:outcomes`, of the outcome records of its pages' visits. Annotations of pages and
sites have a hash for each kind, `<namespace>:{<bucket>}:annotations:<kind>`. The braces are a hash tag:
all keys of a page, or a site, stay on one node. With 65,536 buckets the rows of up to 28 million pages
stay in Redis's compact encoding (at most 512 fields in a hash), see benchmarks/README.md.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any, Final

from redis.crc import key_slot

from hacs_crawler.state.codec import VERSION_OFFSET
from hacs_crawler.state.outcome_log import OUTCOME
from hacs_crawler.state.redis_connection import RedisServer

BUCKETS: Final = 65_536
_BUCKETS_A_TRIP = 4_096
# a script that joins the rows of thousands of buckets takes the server twice as long
_BUCKETS_A_CALL = 64
_PAGES_A_CALL = 500
_SLOTS_A_PIPELINE = 1_000
_FEW_BYTES = 1 << 21


class RedisBuckets:
    """The buckets of a namespace."""

    def __init__(self, server: RedisServer, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self._is_small = False  # as of the last complete read

    def key(self, page_id: int, kind: str) -> str:
        """Return the key for a kind in the bucket of a page or site."""
        return f"{self._namespace}:{{{page_id % BUCKETS:04x}}}:{kind}"

    def keys(self, page_id: int, *kinds: str) -> list[str]:
        """Return the keys for several kinds in the bucket of a page or site."""
        bucket = self.key(page_id, "")
        return [bucket + kind for kind in kinds]

    def fetched(self, kind: str, page_ids: Sequence[int]) -> list[bytes | None]:
        """Return the values of pages or sites in the hashes of a kind, in one round trip."""
        if not page_ids:
            return []
        with self._server.pipeline("read") as pipe:
            if self._server.is_cluster:
                for page_id in page_ids:
                    pipe.hget(self.key(page_id, kind), field_of(page_id))
                return list(pipe.execute())
            # a command for each page takes redis-py ten times as long
            for some in self.calls(page_ids):
                keys = [self.key(page_id, kind) for page_id in some]
                self._server.add_call(pipe, FETCH, keys, *map(field_of, some))
            return list(chain.from_iterable(self._server.answers(pipe)))

    def calls(self, page_ids: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield pages or sites in the order given, in groups that fit one call of a script."""
        # in a cluster all keys of a script must be in one slot; a running script blocks other clients
        size = 1 if self._server.is_cluster else _PAGES_A_CALL
        return (page_ids[start : start + size] for start in range(0, len(page_ids), size))

    def run_on_all(
        self, action: str, script: str, kind: str, *args: object, first: int = 0
    ) -> Iterator[tuple[Sequence[Sequence[int]], list[Any]]]:
        """Run a script on the keys for a kind in all buckets.

        Yields parts, each a list of groups of buckets with the results of the calls for them, from part
        number `first` on. If the first part is small, or all were small at an earlier reading, the rest
        is requested in one round trip.
        """
        parts = list(islice(self._groups(), first, None))
        is_small = self._is_small or script == COUNT  # counts are small results
        a_trip, total = len(parts) if is_small else 1, 0
        while parts:
            some, parts = parts[:a_trip], parts[a_trip:]
            with self._server.pipeline(action) as pipe:
                for buckets in chain.from_iterable(some):
                    keys = [self.key(bucket, kind) for bucket in buckets]
                    self._server.add_call(pipe, script, keys, *args)
                answers = self._server.answers(pipe)
            size = sum(_size_of(answer) for answer in answers)
            total += size
            a_trip = max(1, len(parts)) if size * len(parts) <= _FEW_BYTES else 1
            waiting = iter(answers)
            for groups in some:
                yield groups, list(islice(waiting, len(groups)))
        if total and not first:
            self._is_small = total <= _FEW_BYTES

    def part_of(self, page_id: int) -> int:
        """Return the number of the part in `run_on_all` that has the bucket of a page."""
        bucket = page_id % BUCKETS
        parts = enumerate(self._groups())
        return next(part for part, groups in parts if any(bucket in group for group in groups))

    def _groups(self) -> Iterator[Sequence[Sequence[int]]]:
        """Yield all buckets in parts that fit a round trip, of groups that fit one call of a script."""
        groups: Sequence[Sequence[int]]
        if self._server.is_cluster:
            groups, a_trip = _buckets_by_slot(), _SLOTS_A_PIPELINE
        else:
            starts = range(0, BUCKETS, _BUCKETS_A_CALL)
            groups = [range(start, start + _BUCKETS_A_CALL) for start in starts]
            a_trip = _BUCKETS_A_TRIP // _BUCKETS_A_CALL
        for start in range(0, len(groups), a_trip):
            yield groups[start : start + a_trip]


def field_of(page_id: int) -> bytes:
    """Return the field of a page or site in the hashes of its bucket."""
    return page_id.to_bytes(8, "little", signed=True)


def page_of(field: bytes) -> int:
    """Return the page or site of a field; an arbitrary number for a damaged field."""
    return int.from_bytes(field[:8].ljust(8, b"\0"), "little", signed=True)


def _size_of(answer: Any) -> int:
    """Return the size in bytes of a script's result: a text, a list of texts, or a number (0)."""
    if isinstance(answer, list):
        return sum(map(len, answer))
    return len(answer) if isinstance(answer, bytes) else 0


@cache
def _buckets_by_slot() -> list[list[int]]:
    """Return all buckets, grouped by their slot in a cluster."""
    slots: dict[int, list[int]] = defaultdict(list)
    for bucket in range(BUCKETS):
        slots[key_slot(b"%04x" % bucket)].append(bucket)
    return list(slots.values())


_AT: Final = 8  # offset of the second of the visit in an outcome record

# The error of a writing script if its last key, the notes, is not of the state that was opened.
REPLACED: Final = "HACS_REPLACED"
_GUARD: Final = f"""
if ARGV[1] ~= '' then
  local known_by = redis.pcall('HMGET', KEYS[#KEYS], 'schema', 'identity')
  if known_by.err then return redis.error_reply(KEYS[#KEYS] .. ': ' .. known_by.err) end
  if tostring(known_by[1]) .. ' ' .. tostring(known_by[2]) ~= ARGV[1] then
    return redis.error_reply('{REPLACED}')
  end
end
"""
# Redis's error messages do not name the key.
_READ: Final = """
local found, failed = {}, nil
local function read(command, key, ...)
  local value = redis.pcall(command, key, ...)
  if type(value) ~= 'table' or not value.err then return value end
  failed = redis.error_reply(key .. ': ' .. value.err)
  return {}
end
"""
# Three keys and five arguments for each page. Types are checked first: a wrong one would stop the script
# after some of the writes.
WRITE: Final = f"""{_GUARD}
local kinds, answers = {{'hash', 'hash', 'list'}}, {{}}
for i = 1, (#ARGV - 1) / 5 * 3 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= kinds[(i - 1) % 3 + 1] then
    return redis.error_reply('WRONGTYPE ' .. KEYS[i] .. ' holds a ' .. kind)
  end
end
for i = 1, (#ARGV - 1) / 5 do
  local pages, rows, outcomes = unpack(KEYS, 3 * i - 2, 3 * i)
  local field, seen, body, row, records = unpack(ARGV, 5 * i - 3, 5 * i + 1)
  local page = redis.call('HGET', pages, field) or ''
  if string.sub(page, {VERSION_OFFSET + 1}, {VERSION_OFFSET + 4}) == seen then
    for first = 1, #records, {OUTCOME.itemsize} do
      redis.call('RPUSH', outcomes, string.sub(records, first, first + {OUTCOME.itemsize - 1}))
    end
    redis.call('HSET', rows, field, row)
    redis.call('HSET', pages, field, body)
    page = 1
  end
  answers[i] = page
end
return answers
"""
SWAP: Final = f"""{_GUARD}{_READ}
local value = read('HGET', KEYS[1], ARGV[2]) or ''
if failed then return failed end
if value ~= ARGV[3] then return value end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[1], ARGV[2])
else
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
end
return 1
"""
KEEP: Final = f"""{_GUARD}
return redis.call('HSET', KEYS[1], unpack(ARGV, 2))
"""
TRY: Final = """redis.call('HSET', KEYS[1], 'try', '0')
return redis.call('HDEL', KEYS[1], 'try')
"""
FETCH: Final = f"""{_READ}
for i, key in ipairs(KEYS) do found[i] = read('HGET', key, ARGV[i]) end
return failed or found
"""
_JOIN: Final = (
    _READ
    + """
for i, key in ipairs(KEYS) do found[i] = table.concat(read(%s)) end
return failed or table.concat(found)
"""
)
GATHER_KEYS: Final = _JOIN % "'HKEYS', key"
GATHER_ROWS_OF_ALL: Final = _JOIN % "'HGETALL', key"
GATHER_OUTCOMES: Final = _JOIN % "'LRANGE', key, 0, -1"
GATHER_FIELDS: Final = f"""{_READ}
for _, key in ipairs(KEYS) do
  for _, text in ipairs(read('HGETALL', key)) do found[#found + 1] = text end
end
return failed or found
"""
COUNT: Final = f"""{_READ}
for i, key in ipairs(KEYS) do found[i] = read('HLEN', key) end
local number = 0
for i = 1, failed and 0 or #found do number = number + found[i] end
return failed or number
"""
# All records are checked: several processes append, so that a list is only roughly in order of time.
TRIM_OUTCOMES: Final = f"""{_READ}
for _, key in ipairs(KEYS) do
  local kept = {{}}
  local records = read('LRANGE', key, 0, -1)
  for _, record in ipairs(records) do
    local a, b, c, d = string.byte(record, {_AT + 1}, {_AT + 4})
    if d and a + 256 * (b + 256 * (c + 256 * d)) >= tonumber(ARGV[1]) then kept[#kept + 1] = record end
  end
  if #kept < #records then
    redis.call('DEL', key)
    for first = 1, #kept, 1000 do
      redis.call('RPUSH', key, unpack(kept, first, math.min(first + 999, #kept)))
    end
  end
end
return failed
"""
