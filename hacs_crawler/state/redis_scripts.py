"""Lua scripts that run on the Redis server: each is atomic, and saves round trips."""

from typing import Final

from hacs_crawler.state.codec import VERSION_OFFSET

_AT: Final = 8  # where the second of the visit stands in an outcome record

# The page last: were another key of another type, the script would end before the page is written.
WRITE: Final = f"""
local present = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if string.sub(present, {VERSION_OFFSET + 1}, {VERSION_OFFSET + 4}) ~= ARGV[2] then
  return present
end
if #ARGV > 4 then redis.call('RPUSH', KEYS[3], unpack(ARGV, 5)) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""
SWAP: Final = """
local present = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if present ~= ARGV[2] then return present end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return 1
"""
GATHER_KEYS: Final = """
local found = {}
for i, key in ipairs(KEYS) do found[i] = table.concat(redis.call('HKEYS', key)) end
return table.concat(found)
"""
GATHER_ROWS: Final = """
local rows = {}
for i, key in ipairs(KEYS) do rows[i] = redis.call('HGET', key, ARGV[i]) or ARGV[#ARGV] end
return table.concat(rows)
"""
GATHER_ROWS_OF_ALL: Final = """
local found = {}
for i, key in ipairs(KEYS) do found[i] = table.concat(redis.call('HGETALL', key)) end
return table.concat(found)
"""
COUNT: Final = """
local number = 0
for _, key in ipairs(KEYS) do number = number + redis.call('HLEN', key) end
return number
"""
GATHER_OUTCOMES: Final = """
local found = {}
for i, key in ipairs(KEYS) do found[i] = table.concat(redis.call('LRANGE', key, 0, -1)) end
return table.concat(found)
"""
# Several processes append at once, so that a list is in the order of time only by and large.
TRIM_OUTCOMES: Final = f"""
for _, key in ipairs(KEYS) do
  local kept = {{}}
  local records = redis.call('LRANGE', key, 0, -1)
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
"""
