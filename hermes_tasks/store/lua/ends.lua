-- ends.lua: what the end of a run means beyond its record, by kind; and how a session's next turn begins.

-- One turn at a time: the session names its open turn, and only the end of that turn opens the next.
local function begin_next_turn(session)
  local record = key('sess:' .. session)
  if (redis.call('HGET', record, 'open') or '') ~= '' then return nil end
  local id = redis.call('LPOP', key('inbox:' .. session))
  if not id then return nil end
  local turn = redis.call('HINCRBY', record, 'turns', 1)
  redis.call('HSET', record, 'open', id, 'active', ms(NOW))
  redis.call('ZADD', key('sessions'), ms(NOW), session)
  redis.call('PERSIST', key('ev:' .. session))
  local policy = C.policies.turn
  local model = redis.call('HGET', USER, 'model')
  if model and model ~= '' then policy = string.gsub(policy, '"model":"[^"]*"', function() return '"model":' .. cjson.encode(model) end) end
  create_run({ id = id, kind = 'turn', session = session, policy = policy,
    spec = redis.call('HGET', key('msg:' .. session), id) })
  redis.call('HSET', key('run:' .. id), 'turn', turn, 'generation', redis.call('HGET', record, 'generation'))
  emit(session, 'turn.started', { run = id, turn = turn, message = id })
  return id
end

-- A message whose turn never began ends as a run without a turn: it was seen by nobody, and has no place in the history.
local function withdraw(session, id, message)
  redis.call('HSET', key('run:' .. id), 'v', 1, 'id', id, 'kind', 'turn', 'session', session, 'state', 'cancelled',
    'exit_reason', 'cancelled', 'spec', message, 'policy', C.policies.turn, 'result', '{"text":"","error":"withdrawn"}',
    'created', ms(NOW), 'ended', ms(NOW))
  redis.call('ZADD', key('runs'), ms(NOW), id)
  redis.call('EXPIRE', key('run:' .. id), C.keep_s)
  emit(session, 'turn.ended', { turn = 0, run = id, state = 'cancelled', exit_reason = 'cancelled', text = '',
    error = 'withdrawn before its turn began', usage = usage_of({}) })
end

-- What children found, when nobody waits for it any more: a message that nobody wrote begins a turn of its own, after
-- whatever waits there. Its words are read from the batch when it begins. Nothing to tell when all were cancelled.
post_results = function(session, batch)
  local told = false
  local fields = redis.call('HGETALL', key('batch:' .. batch))
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 6) == 'child:' then
      told = told or redis.call('HGET', key('run:' .. fields[i + 1]), 'state') ~= 'cancelled'
    end
  end
  if not told then return end
  local id = 'results.' .. batch
  if redis.call('EXISTS', key('sess:' .. session)) == 0 then
    redis.call('RPUSH', key('mail'), cjson.encode({ id = id, name = 'delegation', at = NOW, status = 'completed', text = '',
      error = 'sub-agents finished after their session was gone; their answers are in the runs of batch ' .. batch }))
    return
  end
  if redis.call('HSETNX', key('msg:' .. session), id, cjson.encode({ text = '', origin = 'delegation', batch = batch })) == 1 then
    redis.call('RPUSH', key('inbox:' .. session), id)
    begin_next_turn(session)
  end
end

-- One review in flight per user. Owed ones are a map session → last turn; the end of a review queues the next.
local function next_review()
  if (redis.call('HGET', USER, 'review') or '') ~= '' then return end
  local session = redis.call('HKEYS', key('owed'))[1]
  if not session then return end
  local turn = redis.call('HGET', key('owed'), session)
  local id = 'review.' .. session .. '.' .. turn
  redis.call('HSET', USER, 'review', id)
  create_run({ id = id, kind = 'review', policy = C.policies.review,
    spec = cjson.encode({ session = session, turn = int(turn) }) })
end

on_end.turn = function(run)
  local session, completed = run.session, run.state == 'completed'
  local message = redis.call('HGET', key('msg:' .. session), run.id) or run.spec
  local said, result = cjson.decode(message), cjson.decode(run.result)
  local turn, text = int(run.turn), result.text or ''
  local usage = usage_of(run_get(run.id))
  redis.call('RPUSH', key('hist:' .. session), cjson.encode({ v = 1, turn = turn, run = run.id, state = run.state,
    reason = run.exit_reason, origin = said.origin or 'user', user = said.text, opening = run.opening or '',
    generation = int(run.generation), steps = redis.call('LRANGE', key('steps:' .. run.id), 0, -1), text = text,
    error = result.error, usage = usage, at = NOW }))
  redis.call('HDEL', key('msg:' .. session), run.id)
  redis.call('HSET', key('sess:' .. session), 'open', '', 'active', ms(NOW))
  -- Context that was condensed starts a generation: the prompt is pinned anew and recall of the old one is void.
  for _, step in ipairs(redis.call('LRANGE', key('steps:' .. run.id), 0, -1)) do
    if string.find(step, '^{"t":"summary"') then
      local generation = redis.call('HINCRBY', key('sess:' .. session), 'generation', 1)
      append(session, 'session_switch', 0, '', cjson.encode({ reason = 'compression', generation = generation }))
      break
    end
  end
  if completed then
    append(session, 'turn', turn, run.id, cjson.encode({ user = said.text, assistant = text, origin = said.origin or 'user' }))
    if (said.origin or 'user') == 'user' then
      redis.call('HSET', key('owed'), session, turn)
      next_review()
    end
  else
    append(session, 'skipped', turn, run.id, cjson.encode({ state = run.state, reason = run.exit_reason }))
  end
  emit(session, 'turn.ended', { turn = turn, run = run.id, state = run.state, exit_reason = run.exit_reason,
    text = text, error = result.error, usage = usage })
  redis.call('EXPIRE', key('ev:' .. session), 3600)
  begin_next_turn(session)
end

on_end.review = function(run)
  local spec = cjson.decode(run.spec)
  local owed = int(redis.call('HGET', key('owed'), spec.session))
  redis.call('HDEL', key('owed'), spec.session)
  -- A later turn is owed a review of its own; after the other sessions, so that a busy one does not keep them waiting.
  if owed > spec.turn then redis.call('HSET', key('owed'), spec.session, owed) end
  if redis.call('HGET', USER, 'review') == run.id then redis.call('HSET', USER, 'review', '') end
  next_review()
end

-- A fire's outcome goes to its slot in the ledger and, as a delivery, to the owner. The job record is not touched.
on_end.cron = function(run)
  local spec, result = cjson.decode(run.spec), cjson.decode(run.result)
  local ledger = key('ledger:' .. spec.job)
  for i, text in ipairs(redis.call('LRANGE', ledger, 0, -1)) do
    local slot = cjson.decode(text)
    if slot.run == run.id then
      slot.state, slot.reason, slot.ended = run.state, run.exit_reason, NOW
      redis.call('LSET', ledger, i - 1, cjson.encode(slot))
      break
    end
  end
  if redis.call('HGET', key('job:' .. spec.job), 'run') == run.id then redis.call('HSET', key('job:' .. spec.job), 'run', '') end
  redis.call('HSET', key('out:' .. run.id), 'v', 1, 'id', run.id, 'job', spec.job, 'name', spec.name or '',
    'slot', ms(spec.slot or 0), 'status', run.state, 'reason', run.exit_reason, 'text', result.text or '', 'error', result.error or '',
    'state', 'pending', 'target', 'inbox', 'created', ms(NOW), 'rung', 0)
  look_at('out:' .. run.id, NOW + C.ring_ms)
  ring('deliver', run.id)
end
