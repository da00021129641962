-- runs.lua: creating, ending, joining and resuming runs. A terminal state is written once.
-- The hooks of each kind (what else its end means) are in ends.lua.
local on_end = {}

local function run_get(id)
  local flat = redis.call('HGETALL', key('run:' .. id))
  if #flat == 0 then return nil end
  local run = {}
  for i = 1, #flat, 2 do run[flat[i]] = flat[i + 1] end
  return run
end

-- run: id, kind, session, parent, batch, index, depth, spec (JSON text), policy (JSON text). Existing id: no change.
local function create_run(run)
  local record = key('run:' .. run.id)
  if redis.call('EXISTS', record) == 1 then return false end
  local policy = cjson.decode(run.policy)
  redis.call('HSET', record, 'v', 1, 'id', run.id, 'kind', run.kind, 'session', run.session or '',
    'parent', run.parent or '', 'batch', run.batch or '', 'index', run.index or 0, 'depth', run.depth or 0,
    'spec', run.spec, 'policy', run.policy, 'state', 'queued', 'fence', 0, 'holder', '', 'steps', 0,
    'created', ms(NOW), 'queue_deadline', ms(NOW + policy.queue_deadline_s * 1000), 'deadline_s', policy.deadline_s)
  redis.call('ZADD', key('runs'), ms(NOW), run.id)
  redis.call('ZREMRANGEBYSCORE', key('runs'), '-inf', ms(NOW - 30 * 86400000))
  if run.parent and run.parent ~= '' then redis.call('SADD', key('kids:' .. run.parent), run.id) end
  -- Not before what callers announce with their hint.
  look_at('end:' .. run.id, NOW + math.max(policy.queue_deadline_s * 1000, C.ring_ms))
  enter(run.kind, run.id, run.parent or '')
  return true
end

-- Back to the queue: its place in the window is asked for again, before anything that never ran.
-- What it was held for its budget does not count as its time.
local function resume(run)
  local record = key('run:' .. run.id)
  redis.call('HSET', record, 'state', 'queued', 'holder', '', 'admitted', 0, 'wake', 0)
  if run.hold_left then
    local deadline = NOW + math.max(0, int(run.hold_left))
    redis.call('HSET', record, 'deadline', ms(deadline))
    redis.call('HDEL', record, 'hold_left')
    look_at('end:' .. run.id, math.max(deadline, NOW + C.soon_ms))
  end
  enter(run.kind, run.id, run.parent, true)
end

-- What a run and all below it have used goes to its parent's account, once, when it ends.
local USED = { 'input_tokens', 'output_tokens', 'calls', 'cost_micro', 'unpriced_calls' }
local function roll_up(run)
  local parent = key('run:' .. run.parent)
  if run.parent == '' or redis.call('EXISTS', parent) == 0 then return end
  for _, name in ipairs(USED) do
    local used = int(run[name]) + int(run['below_' .. name])
    if used > 0 then redis.call('HINCRBY', parent, 'below_' .. name, used) end
  end
end

local function usage_of(run)
  local usage = { below = {} }
  for _, name in ipairs(USED) do
    usage[name], usage.below[name] = int(run[name]), int(run['below_' .. name])
  end
  return usage
end

-- Hands the results of a batch that nobody waits for to the session; in ends.lua.
local post_results

-- One child of a batch ended. The last one joins the batch and resumes a parent that waits for nothing else.
local function join_child(run)
  local batch = key('batch:' .. run.batch)
  local left = redis.call('HINCRBY', batch, 'left', -1)
  emit(run.session, 'child.ended', { run = run.id, batch = run.batch, index = int(run.index), status = run.state,
    exit_reason = run.exit_reason, duration_ms = int(run.started) > 0 and NOW - int(run.started) or 0,
    usage = usage_of(run_get(run.id)) })
  if left > 0 then return end
  redis.call('HSET', batch, 'joined', ms(NOW))
  redis.call('HSETNX', batch, 'road', 'inline')
  forget('wait:' .. run.batch)
  emit(run.session, 'batch.joined', { run = run.parent, batch = run.batch })
  local road = redis.call('HGET', batch, 'road')
  if road ~= 'inline' then
    redis.call('SREM', key('away:' .. run.session), run.batch)
    if road == 'mailbox' then post_results(run.session, run.batch) end
    return
  end
  local parent = run_get(run.parent)
  if not parent or TERMINAL[parent.state] then return end
  local pending = redis.call('HINCRBY', key('run:' .. run.parent), 'pending', -1)
  if parent.state == 'waiting' and pending <= 0 then resume(parent) end
end

local function keep_until_expiry(id)
  for _, name in ipairs({ 'run:', 'steps:', 'kids:', 'batches:' }) do redis.call('EXPIRE', key(name .. id), C.keep_s) end
  for _, batch in ipairs(redis.call('SMEMBERS', key('batches:' .. id))) do
    redis.call('EXPIRE', key('batch:' .. batch), C.keep_s)
  end
end

-- End a run that is not terminal yet: new fence, window freed, batch joined, hook of its kind. result is JSON text.
local end_tree
local function end_run(run, state, reason, result)
  run.state, run.exit_reason, run.result = state, reason, result
  redis.call('HSET', key('run:' .. run.id), 'state', state, 'exit_reason', reason, 'result', result,
    'ended', ms(NOW), 'holder', '', 'fence', int(run.fence) + 1)
  forget('run:' .. run.id)
  forget('end:' .. run.id)
  leave(run.kind, run.id, run.parent)
  keep_until_expiry(run.id)
  if run.spend_day then redis.call('HDEL', key('spend:' .. run.spend_day), 'r:' .. run.id) end
  if state ~= 'completed' then end_tree(run.id, state == 'cancelled') end
  roll_up(run_get(run.id)) -- read again: what ended below it just now is in its account
  if run.batch ~= '' then join_child(run) end
  if on_end[run.kind] then on_end[run.kind](run) end
end

-- A final answer that was stored before the end was asked for counts: such a run completes instead.
local function stored_answer(id)
  local last = redis.call('LINDEX', key('steps:' .. id), -1)
  if not last then return nil end
  local step = cjson.decode(last)
  if step.t == 'model' and #(step.calls or {}) == 0 and string.find(step.text or '', '%S') then return step.text end
end

-- End an open run that its holder does not end.
local function end_from_outside(run, state, reason, why)
  local text = stored_answer(run.id)
  if text then return end_run(run, 'completed', 'completed', cjson.encode({ text = text })) end
  end_run(run, state, reason, cjson.encode({ text = '', error = why }))
end

-- Cancel every run below this one that is still open, also what completed runs left at work. A batch that nobody waits
-- for any more is only ended by a cancel (all): its parent's own limits are not its limits.
end_tree = function(id, all)
  for _, child in ipairs(redis.call('SMEMBERS', key('kids:' .. id))) do
    local run = run_get(child)
    local away = run and redis.call('HGET', key('batch:' .. run.batch), 'road') == 'mailbox'
    if run and (all or not away) then
      if not TERMINAL[run.state] then end_from_outside(run, 'cancelled', 'cancelled') end
      if run.state == 'completed' then end_tree(child, all) end
    end
  end
end

-- End a run and everything below it; one that completes instead, by its stored answer, leaves nothing at work either.
-- Answers true if it was open.
local function cancel_run(run)
  if not run or TERMINAL[run.state] then return false end
  end_from_outside(run, 'cancelled', 'cancelled')
  end_tree(run.id, true)
  return true
end

-- The same for every child of a batch. Answers how many were open.
local function cancel_batch(id)
  local batch, cancelled = key('batch:' .. id), 0
  for i = 0, int(redis.call('HGET', batch, 'size')) - 1 do
    if cancel_run(run_get(redis.call('HGET', batch, 'child:' .. i))) then cancelled = cancelled + 1 end
  end
  return cancelled
end

-- Does the caller still hold the run? nil = yes; else the word to answer with.
-- ahead: the caller knows of more steps than the store has: the store came back without them.
local function not_holder(run, fence, holder, index)
  if not run or not live_user() then return 'gone' end
  if TERMINAL[run.state] then return 'ended' end
  if run.state ~= 'running' or run.holder ~= holder or int(run.fence) ~= fence then return 'lost' end
  if index and int(run.steps) < index then
    redis.call('HINCRBY', key('run:' .. run.id), 'rollbacks', 1)
    redis.call('HSET', key('run:' .. run.id), 'state', 'queued', 'holder', '')
    enter(run.kind, run.id, run.parent)
    return 'rolled_back'
  end
  if index and int(run.steps) ~= index then return 'lost' end
end

local function add_step(run, text)
  redis.call('RPUSH', key('steps:' .. run.id), text)
  redis.call('HINCRBY', key('run:' .. run.id), 'steps', 1)
end

-- What a model call used: in the run's record and in the user's account of the day, where it settles what was reserved.
-- used: the numbers of USED by name.  by: kind|model
local function account(run, used, day, by)
  local record, spent = key('run:' .. run.id), key('spend:' .. day)
  for _, name in ipairs(USED) do
    local count = int(used[name])
    if count > 0 then
      redis.call('HINCRBY', record, name, count)
      redis.call('HINCRBY', spent, by .. '|' .. name, count)
    end
  end
  redis.call('HINCRBY', spent, 'tokens', int(used.input_tokens) + int(used.output_tokens))
  redis.call('HDEL', spent, 'r:' .. run.id)
  redis.call('EXPIRE', spent, C.spend_keep_s)
  redis.call('HSET', record, 'failures', 0, 'why', '')
end

-- True when the last step already is this one: the reply of an earlier call was lost, nothing is left to do.
local function already_added(run, index, fence, holder, text)
  return run and int(run.steps) == index + 1 and int(run.fence) == fence and run.holder == holder
    and redis.call('LINDEX', key('steps:' .. run.id), -1) == text
end
