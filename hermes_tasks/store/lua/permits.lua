-- permits.lua: put in front of every script on one provider endpoint's slot: who calls it now, and who stands in line.
-- KEYS[1]  ht:{p:<endpoint>}:state ; every other key is derived from its prefix
-- ARGV[1]  most calls side by side, 0 = no limit  ARGV[2] a permit's lease (ms)
-- ARGV[3…] the script's own arguments, listed at its top. A member is <share>|<user>|<run>, its share turn or rest. A model
-- is one of the endpoint's: permits are shared by all of them, pauses and rates are each one's own.
-- Every script answers one JSON object: {r = result word, now = ms, waiting = length of the line, wake = [member, …] who
-- has a permit now and must be told, …}.
--
-- held:<share>   members with a permit, by the end of its lease.  line:<share>:<model>  members that wait, by round.
-- granted       members that got their permit while they waited and did not come yet, by when to wake them again.
-- rounds        the last round of each user and share in the line.  state  round (the last that was served), arrivals.
-- models        those that are paused or waited for.  model:<model>  until, strikes, and while its line moves slowly:
--               credit (grants left now), pace (grants of the next step), step_at.
local MOST, LEASE = tonumber(ARGV[1]), tonumber(ARGV[2])
local BASE = string.sub(KEYS[1], 1, -6)
local SHARES, STEP_MS, KEEP_S, STRIKES_MS = { 'turn', 'rest' }, 1000, 2 * 86400, 60000
local woken = {}

local function key(name) return BASE .. name end
local function int(value) return tonumber(value or 0) or 0 end
local function ms(value) return string.format('%.0f', value) end
local function keep(name) redis.call('EXPIRE', key(name), KEEP_S) end
local function share_of(member) return string.match(member, '^[^|]*') end
local function user_of(member) return string.match(member, '^[^|]*|[^|]*') end -- with the share

local NOW
do
  local t = redis.call('TIME')
  NOW = t[1] * 1000 + math.floor(t[2] / 1000)
end

local function models() return redis.call('SMEMBERS', key('models')) end
local function of(model, name) return redis.call('HGET', key('model:' .. model), name) end
local function pause_left(model) return math.max(0, int(of(model, 'until')) - NOW) end
local function open(model)
  local credit = of(model, 'credit')
  return pause_left(model) == 0 and (not credit or int(credit) > 0)
end

local function held(share) return redis.call('ZCARD', key('held:' .. share)) end
local function holds(member) return redis.call('ZSCORE', key('held:' .. share_of(member)), member) end
local function renew(member)
  local permits = 'held:' .. share_of(member)
  redis.call('ZADD', key(permits), ms(NOW + LEASE), member)
  keep(permits)
end
local function hold(member, model)
  renew(member)
  if of(model, 'credit') then redis.call('HINCRBY', key('model:' .. model), 'credit', -1) end
end
local function give_back(member)
  redis.call('ZREM', key('granted'), member)
  redis.call('ZREM', key('held:' .. share_of(member)), member)
end

local function in_line(model)
  return redis.call('ZCARD', key('line:turn:' .. model)) + redis.call('ZCARD', key('line:rest:' .. model))
end
local function waiting()
  local sum = 0
  for _, model in ipairs(models()) do sum = sum + in_line(model) end
  return sum
end

-- Permits whose holder is gone are free (one that ends more than a lease ahead was written by a clock that jumped), and
-- what is remembered of a line ends with it.
local function settle()
  for _, share in ipairs(SHARES) do
    redis.call('ZREMRANGEBYSCORE', key('held:' .. share), '-inf', ms(NOW))
    redis.call('ZREMRANGEBYSCORE', key('held:' .. share), ms(NOW + 2 * LEASE), '+inf')
  end
  for _, model in ipairs(models()) do
    if in_line(model) == 0 and pause_left(model) == 0 then
      redis.call('SREM', key('models'), model)
      redis.call('HDEL', key('model:' .. model), 'credit', 'pace', 'step_at')
    end
  end
  if redis.call('EXISTS', key('models')) == 0 then redis.call('DEL', key('rounds'), key('state')) end
end

-- A quarter of the permits, at least one of two, is for turns alone; the others are for whoever is next.
local RESERVED = MOST >= 2 and math.ceil(MOST / 4) or 0
local function room(share)
  if MOST == 0 then return true end
  local turns, rest = held('turn'), held('rest')
  if turns + rest >= MOST then return false end
  return share == 'turn' or rest + math.max(0, turns - RESERVED) < MOST - RESERVED
end

-- Users take turns: a user's n-th waiting run (of its share) is served n rounds from now, in the order of arrival.
-- first: it had its permit and comes before the next round.
local function stand(member, model, first)
  local line = 'line:' .. share_of(member) .. ':' .. model
  if redis.call('ZSCORE', key(line), member) then return end
  local score = int(redis.call('HGET', key('state'), 'round'))
  if not first then
    score = math.max(score, int(redis.call('HGET', key('rounds'), user_of(member)))) + 1
    redis.call('HSET', key('rounds'), user_of(member), score)
    score = score + redis.call('HINCRBY', key('state'), 'arrivals', 1) % 1000000 / 1000000
  end
  redis.call('ZADD', key(line), string.format('%.6f', score), member)
  redis.call('SADD', key('models'), model)
  for _, name in ipairs({ line, 'models', 'rounds', 'state' }) do keep(name) end
end

-- The first in the lines of one share, among models that may be asked now.
local function head(share)
  local first
  for _, model in ipairs(models()) do
    local at = open(model) and redis.call('ZRANGE', key('line:' .. share .. ':' .. model), 0, 0, 'WITHSCORES') or {}
    if at[1] and (not first or tonumber(at[2]) < first.score) then
      first = { model = model, member = at[1], score = tonumber(at[2]), round = math.floor(tonumber(at[2])) }
    end
  end
  return first
end

-- Who has the next permit: turns what is reserved; then the earliest round, a turn before the rest of its round.
local function next_in_line()
  local turn, rest = room('turn') and head('turn'), room('rest') and head('rest')
  if turn and (not rest or held('turn') < RESERVED or turn.round <= rest.round) then return turn end
  return rest or nil
end

-- Give free permits to those in line.
local function fill()
  local chosen, state, rounds = next_in_line(), key('state'), key('rounds')
  while chosen do
    local member, round = chosen.member, chosen.round
    redis.call('ZREM', key('line:' .. share_of(member) .. ':' .. chosen.model), member)
    if round > int(redis.call('HGET', state, 'round')) then redis.call('HSET', state, 'round', round) end
    if int(redis.call('HGET', rounds, user_of(member))) <= round then redis.call('HDEL', rounds, user_of(member)) end
    hold(member, chosen.model)
    redis.call('ZADD', key('granted'), ms(NOW + STEP_MS), member)
    keep('granted')
    woken[#woken + 1] = member
    chosen = next_in_line()
  end
end

local function answer(result, fields)
  local out = fields or {}
  out.r, out.now, out.waiting = result, NOW, waiting()
  if #woken > 0 then out.wake = woken end
  return cjson.encode(out)
end
