-- lib.lua: put in front of every script that works on one user's slot.
-- KEYS[1]  the user's record  ht:{u:<user>}:user ; every other key is derived from its prefix
-- ARGV[1]  settings as JSON: lease_ms, ring_ms, ring_max_ms, max_attempts, keep_s, windows{}, per_parent, policies{}
-- ARGV[2…] the script's own arguments, listed at its top
-- Every script answers one JSON object: {r = result word, rings = [[task, arg, …]], now = ms, …}.
local USER, C = KEYS[1], cjson.decode(ARGV[1])
local BASE = string.sub(USER, 1, -5)
local rings = {}

local function key(name) return BASE .. name end
local function int(value) return tonumber(value or 0) or 0 end

-- Server time, held back by the high-water mark: a small step back of the clock does not move stored times.
local NOW
do
  local t = redis.call('TIME')
  NOW = t[1] * 1000 + math.floor(t[2] / 1000)
  local mark = int(redis.call('HGET', USER, 'hw'))
  if NOW < mark and mark - NOW <= 2 * C.lease_ms then NOW = mark
  elseif (NOW > mark + 100 or NOW < mark) and redis.call('EXISTS', USER) == 1 then redis.call('HSET', USER, 'hw', NOW) end
end

local function ms(value) return string.format('%.0f', value) end
local function ring(task, ...) rings[#rings + 1] = { task, ... } end
local function answer(result, fields)
  local out = fields or {}
  out.r, out.now = result, NOW
  if #rings > 0 then out.rings = rings end
  return cjson.encode(out)
end
local function live_user()
  local state = redis.call('HGET', USER, 'state')
  return state and state ~= 'erased'
end
local function look_at(member, at) redis.call('ZADD', key('due'), ms(at), member) end
local function forget(member) redis.call('ZREM', key('due'), member) end

-- A lease is live when it ends in the future, and not so far ahead that a jumped clock must have written it.
local function lease_live(until_ms) return until_ms > NOW and until_ms <= NOW + 2 * C.lease_ms end

local TERMINAL = { completed = true, failed = true, cancelled = true, timed_out = true, exhausted = true, lost = true }
local TASK = { turn = 'turn', child = 'child', review = 'review', cron = 'cron', curation = 'curation' }

local function emit(session, kind, data)
  if session == nil or session == '' then return end
  local stream = key('ev:' .. session)
  redis.call('XADD', stream, 'MAXLEN', '~', 5000, '*', 'type', kind, 'data', type(data) == 'table' and cjson.encode(data) or data)
end
