"""Lua scripts of the board: each step is atomic, and one round trip."""

from typing import Final

KEYS: Final = (
    "board",
    "workers",
    "idle",
    "partitions",
    "waiting",
    "taken",
    "plan",
    "mobile",
    "spares",
    "anew",
    "notes",
)

# KEYS: as in KEYS. ARGV: time ('' for the server's own), worker, lease in seconds, number of
# partitions, format, then the step's own from 6 on. An entry is named "<partition>:<rank>", and waits
# with the score partition * 2^32 + 1 + position, so that the best of a partition are found at once.
# The position is the rank, or what "anew" has before a space and the entry's note. Of the entries that
# wait "mobile" has the position of those which may be left out for others.
BEGINNING: Final = """
local board, workers, idle, owners, waiting, taken, plan, mobile, spares, anew, notes = unpack(KEYS)
local kinds = {'hash', 'zset', 'set', 'hash', 'zset', 'hash', 'hash', 'zset', 'set', 'hash', 'hash'}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key)['ok']
  if kind ~= 'none' and kind ~= kinds[i] then
    return redis.error_reply('ERR the key ' .. key .. ' is a ' .. kind .. ' instead of a ' ..
      kinds[i] .. ': delete it')
  end
end
local me, lease, partitions = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local numbers = {'time', 'clock', 'round', 'began', 'over', 'epoch', 'total', 'done', 'repeats',
  'lost', 'published', 'room'}
local found = redis.call('HMGET', board, unpack(numbers))
local facts = {}
for i, name in ipairs(numbers) do
  local value = tonumber(found[i] or '0')
  -- numbers of Lua are doubles: beyond 2^53 adding 1 changes nothing
  if not value or not (math.abs(value) < 2^53) then
    return redis.error_reply('ERR the field ' .. name .. ' of the key ' .. board ..
      ' is no number: delete that key')
  end
  facts[name] = value
end
local phase = redis.call('HGET', board, 'phase') or 'none'
local leader = redis.call('HGET', board, 'leader') or ''

local now = tonumber(ARGV[1])
if not now then
  local server = redis.call('TIME')
  now = server[1] + server[2] / 1e6
end
-- the board's own time: never back, and never so far ahead that leases end because a clock was set
-- or because nobody reached the server
facts.time = facts.time + math.min(math.max(now - facts.clock, 0), lease / 4)

local format = redis.call('HGET', board, 'format') or ARGV[5]
if format ~= ARGV[5] then
  if redis.call('ZCOUNT', workers, '(' .. string.format('%.6f', facts.time), '+inf') > 0 then
    return redis.error_reply('ERR the fleet is of another version of hacs-crawler (format ' ..
      format .. ', here ' .. ARGV[5] .. '): stop its workers first')
  end
  redis.call('DEL', unpack(KEYS))
  for _, name in ipairs(numbers) do facts[name] = 0 end
  phase, leader = 'none', ''
end
facts.clock = now

local function set(...) redis.call('HSET', board, ...) end
set('format', ARGV[5], 'time', string.format('%.6f', facts.time),
  'clock', string.format('%.6f', now))

-- '%.0f', as tostring writes large numbers with an exponent
local function add(name, number)
  facts[name] = facts[name] + number
  set(name, string.format('%.0f', facts[name]))
end

local function each(key, use)  -- of a hash
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do use(all[i], all[i + 1]) end
end

local function wait(entry)
  local partition, rank = string.match(entry, '^(%d+):(%d+)$')
  if not partition then return end  -- it is not of this program
  local position = tonumber(string.match(redis.call('HGET', anew, entry) or '', '^%S+'))
  if not position or not (position > -1 and position < 2^32 - 1) then position = rank end
  redis.call('ZADD', waiting, string.format('%.17g', partition * 2^32 + 1 + position), entry)
  return string.format('%.17g', position)
end

local function give_back(entry)
  redis.call('HDEL', taken, entry)
  wait(entry)
end

local function forget_plan()
  redis.call('DEL', waiting, taken, plan, mobile, spares, anew, notes)
  add('total', -facts.total)
  add('published', -facts.published)
end

local function forget_idleness()
  redis.call('DEL', idle)
  add('epoch', 1)
end

local function end_ranking()
  phase, leader = 'none', ''
  set('phase', phase, 'leader', leader)
  forget_plan()
end

local function free(worker)
  if redis.call('ZREM', workers, worker) == 0 then return 0 end
  local had = 0
  forget_idleness()
  each(owners, function(partition, owner)
    if owner == worker then redis.call('HDEL', owners, partition) end
  end)
  each(taken, function(entry, owner)
    if owner == worker then
      give_back(entry)
      had = had + 1
    end
  end)
  if phase == 'ranking' and leader == worker then end_ranking() end
  if phase == 'open' and redis.call('ZCARD', workers) == 0 and redis.call('ZCARD', waiting) == 0 then
    phase = 'none'
    set('phase', phase)
  end
  return had
end

local dead = redis.call('ZRANGEBYSCORE', workers, '-inf', string.format('%.6f', facts.time))
for _, worker in ipairs(dead) do
  local had = free(worker)
  if had > 0 then add('lost', had) end
end

local function is_over()
  if phase ~= 'open' or facts.over == 1 then return phase == 'open' end
  return redis.call('ZCARD', waiting) == 0
    and redis.call('HLEN', taken) == 0
    and redis.call('HLEN', owners) == partitions
    and redis.call('SCARD', idle) == redis.call('ZCARD', workers)
end

local function is_mine(number)
  return leader == me and facts.round == tonumber(number)
end
"""
# 6: the epoch since which the worker is idle ('' where it is not); 7: whether it was busy before that;
# 8...: partitions given up
RENEW: Final = """
local is_new = not redis.call('ZSCORE', workers, me)
redis.call('ZADD', workers, string.format('%.6f', facts.time + lease), me)
if #ARGV > 7 then
  local given_up = {}
  for i = 8, #ARGV do
    if redis.call('HGET', owners, ARGV[i]) == me then
      redis.call('HDEL', owners, ARGV[i])
      given_up[ARGV[i]] = true
    end
  end
  each(taken, function(entry, owner)
    if owner == me and given_up[string.match(entry, '^%d+')] then give_back(entry) end
  end)
end

local names = redis.call('ZRANGE', workers, 0, -1)
-- they come in the order of their leases; each worker has to find the same one among them
table.sort(names)
local share = math.floor(partitions / #names)
local more = partitions % #names
for i = 1, more do
  if names[i] == me then share = share + 1 end
end
local held, owned, given = {}, {}, 0
each(owners, function(partition, owner)
  owned[partition] = true
  if owner == me then held[#held + 1] = tonumber(partition) end
end)
for i = 0, partitions - 1 do
  if #held >= share then break end
  local partition = string.format('%.0f', i)
  if not owned[partition] then
    redis.call('HSET', owners, partition, me)
    held[#held + 1] = i
    given = given + 1
  end
end

local is_idle = tonumber(ARGV[6]) == facts.epoch and not is_new and given == 0
if given > 0 or ARGV[7] == '1' then forget_idleness() end
if is_idle then
  redis.call('SADD', idle, me)
else
  redis.call('SREM', idle, me)
end
if is_over() then
  facts.over = 1
  set('over', 1)
end
local mine = 0
for _, owner in ipairs(redis.call('HVALS', taken)) do
  if owner == me then mine = mine + 1 end
end
return {is_new and 1 or 0, held, share, phase, facts.round, leader, facts.epoch,
  is_over() and 1 or 0, string.format('%.6f', facts.time - facts.began), #names, mine,
  redis.call('ZCARD', waiting), redis.call('HLEN', taken),
  facts.total, facts.done, facts.repeats, facts.lost}
"""
# 6: whether to begin anew; 7: a number below the round's
BEGIN: Final = """
local is_alone = redis.call('ZCARD', workers) == 1
local may_begin = phase == 'none' or is_over() or (ARGV[6] == '1' and is_alone)
if not may_begin or not redis.call('ZSCORE', workers, me) then return 0 end
forget_plan()
forget_idleness()
add('done', -facts.done)
add('repeats', -facts.repeats)
add('round', math.max(tonumber(ARGV[7]) - facts.round, 0) + 1)
set('phase', 'ranking', 'leader', me, 'over', 0, 'began', string.format('%.6f', facts.time))
return facts.round
"""
# 6: round; 7: rank of the first; 8: whether they are spare; 9...: partition, whether it may be left
# out for another, then page and request of each
PUBLISH: Final = """
if not is_mine(ARGV[6]) or phase ~= 'ranking' then return 0 end
local start = tonumber(ARGV[7])
if start > facts.published then
  end_ranking()
  return 0
end
if start < facts.published then return 1 end
local number = (#ARGV - 8) / 3
for i = 0, number - 1 do
  local rank = string.format('%.0f', start + i)
  local entry = ARGV[9 + 3 * i] .. ':' .. rank
  redis.call('HSET', plan, entry, ARGV[11 + 3 * i])
  if ARGV[8] == '1' then
    redis.call('SADD', spares, entry)
  else
    wait(entry)
    if ARGV[10 + 3 * i] == '1' then redis.call('ZADD', mobile, rank, entry) end
  end
end
add('published', number)
if ARGV[8] ~= '1' then add('total', number) end
return 1
"""
# 6: round; 7...: name and text of each
NOTE: Final = """
if not is_mine(ARGV[6]) or phase ~= 'ranking' then return 0 end
for i = 7, #ARGV, 2 do redis.call('HSET', notes, ARGV[i], ARGV[i + 1]) end
return 1
"""
# 6: round; 7...: names
NOTES: Final = """
if facts.round ~= tonumber(ARGV[6]) or phase ~= 'open' or #ARGV < 7 then return {} end
return redis.call('HMGET', notes, unpack(ARGV, 7))
"""
# 6: round; 7: entries; 8: room, -1 where no budget says how many there may be
OPEN: Final = """
if not is_mine(ARGV[6]) then return 0 end
if phase == 'ranking' then
  if facts.published ~= tonumber(ARGV[7]) then
    end_ranking()
    return 0
  end
  set('phase', 'open', 'room', ARGV[8])
end
return 1
"""
# 6: how many; 7...: partitions
TAKE: Final = """
if phase ~= 'open' then return {} end
local most = tonumber(ARGV[6])
local found = {}
for i = 7, #ARGV do
  if redis.call('HGET', owners, ARGV[i]) == me then
    local low = ARGV[i] * 2^32
    local best = redis.call('ZRANGEBYSCORE', waiting, string.format('%.0f', low),
      string.format('(%.0f', low + 2^32), 'WITHSCORES', 'LIMIT', 0, most)
    for j = 1, #best, 2 do
      local rank = tonumber(string.match(best[j], '^%d+:(%d+)$'))
      if rank then
        found[#found + 1] = {best[j + 1] - low, rank, best[j]}
      else
        redis.call('ZREM', waiting, best[j])  -- not of this program
      end
    end
  end
end
table.sort(found, function(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  return a[2] < b[2]
end)
local given = {}
for i = 1, math.min(most, #found) do
  local entry = found[i][3]
  redis.call('ZREM', waiting, entry)
  redis.call('ZREM', mobile, entry)
  local body = redis.call('HGET', plan, entry)
  if body then
    redis.call('HSET', taken, entry, me)
    given[#given + 1] = entry
    given[#given + 1] = body
    given[#given + 1] = string.match(redis.call('HGET', anew, entry) or '', '^%S+ (.*)$') or ''
  end
end
if #given > 0 then redis.call('SREM', idle, me) end
return given
"""
# 6...: ranks
KEEP: Final = """
local kept = {}
for i = 6, #ARGV do kept[ARGV[i]] = true end
each(taken, function(entry, owner)
  if owner == me and not kept[string.match(entry, '%d+$')] then give_back(entry) end
end)
return 1
"""
# 6: round; 7...: entries
DONE: Final = """
if facts.round ~= tonumber(ARGV[6]) or phase ~= 'open' then return 0 end
local gone, repeats = 0, 0
for i = 7, #ARGV do
  redis.call('ZREM', waiting, ARGV[i])
  redis.call('ZREM', mobile, ARGV[i])
  redis.call('HDEL', taken, ARGV[i])
  redis.call('HDEL', anew, ARGV[i])
  local was_left_out = redis.call('SREM', spares, ARGV[i]) == 1
  if redis.call('HDEL', plan, ARGV[i]) == 1 and not was_left_out then
    gone = gone + 1
  else
    repeats = repeats + 1
  end
end
if gone > 0 then add('done', gone) end
if repeats > 0 then add('repeats', repeats) end
return 1
"""
# 6: round; 7...: entry, position ('' to leave it out) and note of each
RANK_ANEW: Final = """
if facts.round ~= tonumber(ARGV[6]) or phase ~= 'open' or facts.over == 1 then
  return {0, 0, 0, 0}
end
local moved, came_in, left_out, replaced = 0, 0, 0, 0
local function leave_out(entry)
  redis.call('ZREM', waiting, entry)
  redis.call('ZREM', mobile, entry)
  redis.call('HDEL', anew, entry)
  redis.call('SADD', spares, entry)
  add('total', -1)
end
local function has_room(position)
  if facts.room < 0 then return true end
  if facts.room > 0 then
    add('room', -1)
    return true
  end
  while true do
    local last = redis.call('ZREVRANGE', mobile, 0, 0, 'WITHSCORES')
    if not last[1] or tonumber(last[2]) <= position then return false end
    if redis.call('ZSCORE', waiting, last[1]) then
      leave_out(last[1])
      replaced = replaced + 1
      return true
    end
    redis.call('ZREM', mobile, last[1])  -- not of this program
  end
end
for i = 7, #ARGV, 3 do
  local entry, position, note = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local is_mine = redis.call('HGET', owners, string.match(entry, '^%d+')) == me
  if is_mine and redis.call('ZSCORE', waiting, entry) then
    if position then
      redis.call('HSET', anew, entry, ARGV[i + 1] .. ' ' .. note)
      redis.call('ZADD', mobile, 'XX', wait(entry), entry)
      moved = moved + 1
    else
      leave_out(entry)
      if facts.room >= 0 then add('room', 1) end
      left_out = left_out + 1
    end
  elseif is_mine and position and redis.call('SISMEMBER', spares, entry) == 1
      and has_room(position) then
    redis.call('SREM', spares, entry)
    redis.call('HSET', anew, entry, ARGV[i + 1] .. ' ' .. note)
    redis.call('ZADD', mobile, wait(entry), entry)
    add('total', 1)
    came_in = came_in + 1
  end
end
return {moved, came_in, left_out, replaced}
"""
LEAVE: Final = """
free(me)
return 1
"""
