"""Lua scripts that run on the Redis server: each is atomic, and saves round trips."""

from typing import Final

from hacs_crawler.state.codec import VERSION_OFFSET
from hacs_crawler.state.outcome_log import OUTCOME

_AT: Final = 8  # where the second of the visit stands in an outcome record

REPLACED: Final = "HACS_REPLACED"
"""The error of a script that writes where its last key does not hold the state that was opened."""
_GUARD: Final = f"""
if ARGV[1] ~= '' then
  local known_by = redis.pcall('HMGET', KEYS[#KEYS], 'schema', 'identity')
  if known_by.err then return redis.error_reply(KEYS[#KEYS] .. ': ' .. known_by.err) end
  if tostring(known_by[1]) .. ' ' .. tostring(known_by[2]) ~= ARGV[1] then
    return redis.error_reply('{REPLACED}')
  end
end
"""
# An error of Redis does not say of which key it is.
_READ: Final = """
local found, failed = {}, nil
local function read(command, key, ...)
  local value = redis.pcall(command, key, ...)
  if type(value) ~= 'table' or not value.err then return value end
  failed = redis.error_reply(key .. ': ' .. value.err)
  return {}
end
"""
# Of each page three keys and five arguments. A key of another type would end the script in their midst.
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
FETCH: Final = f"""{_READ}
for i, key in ipairs(KEYS) do found[i] = read('HGET', key, ARGV[i]) end
return failed or found
"""
GATHER_KEYS: Final = f"""{_READ}
for i, key in ipairs(KEYS) do found[i] = table.concat(read('HKEYS', key)) end
return failed or table.concat(found)
"""
GATHER_FIELDS: Final = f"""{_READ}
for _, key in ipairs(KEYS) do
  for _, text in ipairs(read('HGETALL', key)) do found[#found + 1] = text end
end
return failed or found
"""
GATHER_ROWS: Final = f"""{_READ}
for i, key in ipairs(KEYS) do found[i] = read('HGET', key, ARGV[i]) or ARGV[#ARGV] end
return failed or table.concat(found)
"""
GATHER_ROWS_OF_ALL: Final = f"""{_READ}
for i, key in ipairs(KEYS) do found[i] = table.concat(read('HGETALL', key)) end
return failed or table.concat(found)
"""
COUNT: Final = f"""{_READ}
for i, key in ipairs(KEYS) do found[i] = read('HLEN', key) end
local number = 0
for i = 1, failed and 0 or #found do number = number + found[i] end
return failed or number
"""
GATHER_OUTCOMES: Final = f"""{_READ}
for i, key in ipairs(KEYS) do found[i] = table.concat(read('LRANGE', key, 0, -1)) end
return failed or table.concat(found)
"""
# Several processes append at once, so that a list is in the order of time only by and large.
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
