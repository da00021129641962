-- due: recovery of one user: every record whose time has come is put right, each by comparing its state first.
-- ARGV[2] moment (ms, server's clock) at which the sweeper knew that expired leases may be taken over, 0 = they may not
-- ARGV[3] most records to look at
-- Answers ok {next, takeovers, faults}: when this user must be looked at again (0 = never), the rings that are due, and
-- records that could not be put right: each keeps its place, and does not keep the others waiting.
local takeovers, faults = 0, {}
-- Not when we were held up on our way: the store may have been frozen, and whoever lives could not renew.
local may_take_over = int(ARGV[2]) > 0 and NOW - int(ARGV[2]) <= C.lease_ms / 2

local function ring_again(record, member, ...)
  local rung = redis.call('HINCRBY', record, 'rung', 1)
  look_at(member, NOW + math.min(C.ring_max_ms, C.ring_ms * 2 ^ math.min(rung - 1, 10)))
  ring(...)
end

-- A takeover counts as an attempt only when nothing was stored since the claim. From the second on: backoff.
local function take_over(run)
  local record, attempts = key('run:' .. run.id), int(run.attempts)
  attempts = int(run.steps) > int(run.claim_steps) and 0 or attempts + 1
  redis.call('HINCRBY', record, 'takeovers', 1)
  takeovers = takeovers + 1
  if attempts >= C.max_attempts then
    redis.call('HSET', record, 'attempts', attempts)
    return end_from_outside(run, 'lost', 'max_attempts', 'given up after ' .. attempts .. ' processes died while running it')
  end
  local wait = attempts >= 2 and 1000 * (attempts - 1) or 0
  redis.call('HSET', record, 'state', 'queued', 'holder', '', 'attempts', attempts, 'not_before', ms(NOW + wait),
    'rung', 0)
  if wait > 0 then return look_at('run:' .. run.id, NOW + wait) end
  on_admit(run.kind, run.id)
end

local look = {}
look.run = function(id, member)
  local run = run_get(id)
  if not run or TERMINAL[run.state] then return forget(member) end
  if run.state == 'running' then
    local until_ms = int(run.lease_until)
    if lease_live(until_ms) then return look_at(member, until_ms) end
    if may_take_over then return take_over(run) end
    return look_at(member, NOW + C.sweep_ms)
  end
  if run.state == 'queued' and int(run.admitted) == 1 then
    if int(run.not_before) > NOW then return look_at(member, int(run.not_before)) end
    return ring_again(key('run:' .. id), member, TASK[run.kind], id)
  end
  if run.state == 'waiting' and int(run.wake) > NOW then return look_at(member, int(run.wake)) end
  if run.state == 'waiting' and (int(run.wake) > 0 or int(run.pending) <= 0) then return resume(run) end
  forget(member)
end

-- A parent has waited long enough: it goes on with a handle, and the results come as a turn of their own.
look.wait = function(id, member)
  forget(member)
  local batch = key('batch:' .. id)
  if redis.call('HSETNX', batch, 'road', 'mailbox') == 0 then return end
  local at = redis.call('HMGET', batch, 'parent', 'session')
  local parent = at[1] and run_get(at[1])
  if not parent then return redis.call('DEL', batch) end
  redis.call('SADD', key('away:' .. at[2]), id)
  emit(at[2], 'batch.detached', { run = parent.id, batch = id })
  local pending = redis.call('HINCRBY', key('run:' .. parent.id), 'pending', -1)
  if parent.state == 'waiting' and int(parent.wake) == 0 and pending <= 0 then resume(parent) end
end

look['end'] = function(id, member)
  local run = run_get(id)
  if not run or TERMINAL[run.state] then return forget(member) end
  local started = int(run.started) > 0
  -- The holder ends its own run, with the work it has; only if it does not within 5 s is it ended from here.
  if run.state == 'running' and lease_live(int(run.lease_until)) and NOW < int(run.deadline) + 5000 then
    return look_at(member, int(run.deadline) + 5000)
  end
  end_from_outside(run, 'timed_out', started and not run.hold_left and 'deadline' or 'queue_deadline',
    run.hold_left and 'held for the daily token budget longer than it may stay in the queue'
      or started and ('not finished within ' .. run.deadline_s .. ' s') or 'not started in time')
end

look.cur = function(id, member)
  local cursor = key('cur:' .. id)
  local session, consumer = string.match(id, '^(.*)|(.*)$')
  local at = redis.call('HMGET', cursor, 'holder', 'lease_until')
  if at[1] and at[1] ~= '' then
    if lease_live(int(at[2])) then return look_at(member, int(at[2])) end
    if not may_take_over then return look_at(member, NOW + C.sweep_ms) end
    redis.call('HSET', cursor, 'holder', '', 'lease_until', 0)
    redis.call('HINCRBY', cursor, 'takeovers', 1)
    takeovers = takeovers + 1
  end
  if not session or not cursor_behind(session, consumer) then
    redis.call('HDEL', cursor, 'asked', 'admitted')
    forget(member)
    return leave('drain', id, '')
  end
  if redis.call('SISMEMBER', key('win:drain'), id) == 0 then return forget(member) end
  ring_again(cursor, member, 'drain', session, consumer)
end

look.out = function(id, member)
  if redis.call('HGET', key('out:' .. id), 'state') ~= 'pending' then return forget(member) end
  ring_again(key('out:' .. id), member, 'deliver', id)
end

if not live_user() then return answer('ok', { next = 0, takeovers = 0 }) end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', key('due'), '-inf', ms(NOW), 'LIMIT', 0, ARGV[3])) do
  local kind, id = string.match(member, '^(%a+):(.*)$')
  if look[kind] then
    local fine, fault = pcall(look[kind], id, member)
    if not fine then
      look_at(member, NOW + C.ring_max_ms)
      faults[#faults + 1] = { member, type(fault) == 'table' and fault.err or tostring(fault) }
    end
  else
    forget(member)
  end
end
local first = redis.call('ZRANGE', key('due'), 0, 0, 'WITHSCORES')
return answer('ok', { next = int(first[2]), takeovers = takeovers, faults = faults })
