-- run_claim: take the lease of a queued run. Expired leases are put back by run_due only, never taken here.
-- ARGV[2] run id  ARGV[3] holder id, new for each acquisition  ARGV[4] '1' if this process may take a suspect
-- ARGV[5] who claims, for operators: host:pid
-- Answers claimed {run, steps} | settled | held | waiting | backoff | suspect | gone | no_user.
-- A second call of the same holder gives the same answer again.
if not live_user() then return answer('no_user') end
local run = run_get(ARGV[2])
if not run then return answer('gone') end
if TERMINAL[run.state] then return answer('settled') end
if run.state == 'running' and run.holder ~= ARGV[3] then return answer('held') end
if run.state == 'waiting' then return answer('waiting') end
if run.state == 'queued' then
  if int(run.admitted) ~= 1 then return answer('waiting') end
  if int(run.not_before) > NOW then return answer('backoff') end
  -- Twice a process died with this run and nothing was stored: it runs alone among suspects from now on.
  if int(run.attempts) >= 2 and ARGV[4] ~= '1' then
    look_at('run:' .. run.id, NOW + C.lease_ms)
    return answer('suspect')
  end
  local record = key('run:' .. run.id)
  redis.call('HSET', record, 'state', 'running', 'holder', ARGV[3], 'lease_until', ms(NOW + C.lease_ms),
    'claim_steps', run.steps, 'wake', 0, 'zone', redis.call('HGET', USER, 'zone') or 'UTC', 'claimed', ms(NOW), 'worker', ARGV[5] or '')
  redis.call('HINCRBY', record, 'fence', 1)
  if int(run.started) == 0 then
    local deadline = NOW + int(run.deadline_s) * 1000
    redis.call('HSET', record, 'started', ms(NOW), 'deadline', ms(deadline))
    look_at('end:' .. run.id, math.max(deadline, NOW + C.lease_ms)) -- the holder looks at its deadline by itself
    if run.batch ~= '' then
      local policy, spec = cjson.decode(run.policy), cjson.decode(run.spec)
      emit(run.session, 'child.started', { run = run.id, batch = run.batch, index = int(run.index),
        count = int(redis.call('HGET', key('batch:' .. run.batch), 'size')), parent = run.parent, depth = int(run.depth),
        goal = spec.goal or '', model = policy.model, toolsets = policy.toolsets })
    end
  end
  look_at('run:' .. run.id, NOW + C.lease_ms)
  run = run_get(run.id)
end
return answer('claimed', { run = run, steps = redis.call('LRANGE', key('steps:' .. run.id), 0, -1) })
