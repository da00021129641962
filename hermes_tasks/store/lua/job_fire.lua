-- job_fire: claim one planned time of a job: its run, its ledger slot and its next time, in one script.
-- Any number of schedulers may call it: only the first that names the present version and planned time fires.
-- ARGV[2] job id  [3] version read  [4] planned time (ms)  [5] next planned time (ms, 0 = none)  [6] run id, derived
-- ARGV[7] '1' = run it, '0' = only record it as missed  [8] planned times skipped since (a count)
-- Answers fired | skipped (the run before is still at work) | missed | stale | no_user.
if redis.call('HGET', USER, 'state') ~= 'active' then return answer('no_user') end
local record = key('job:' .. ARGV[2])
local job = {}
local flat = redis.call('HGETALL', record)
for i = 1, #flat, 2 do job[flat[i]] = flat[i + 1] end
if job.state ~= 'active' or job.version ~= ARGV[3] or int(job.next) ~= int(ARGV[4]) then return answer('stale') end
local planned, coming = int(ARGV[4]), int(ARGV[5])
if coming > 0 then
  redis.call('HSET', record, 'next', ARGV[5])
  redis.call('ZADD', key('jobsdue'), ARGV[5], ARGV[2])
else
  redis.call('HSET', record, 'next', 0, 'state', 'done')
  redis.call('ZREM', key('jobsdue'), ARGV[2])
end
local slot = { slot = planned, at = NOW, skipped = int(ARGV[8]) }
local result
if ARGV[7] ~= '1' then
  slot.state, result = 'missed', 'missed'
  redis.call('RPUSH', key('mail'), cjson.encode({ id = ARGV[6], job = ARGV[2], name = job.name, slot = planned, at = NOW,
    status = 'missed', text = '', error = 'the system was not running at its time' }))
  redis.call('LTRIM', key('mail'), -1000, -1)
elseif (job.run or '') ~= '' and not TERMINAL[redis.call('HGET', key('run:' .. job.run), 'state') or 'lost'] then
  slot.state, slot.reason, result = 'skipped', 'overlap', 'skipped'
else
  slot.state, slot.run, result = 'running', ARGV[6], 'fired'
  redis.call('HSET', record, 'run', ARGV[6])
end
redis.call('LPUSH', key('ledger:' .. ARGV[2]), cjson.encode(slot))
redis.call('LTRIM', key('ledger:' .. ARGV[2]), 0, 99)
if result == 'fired' then
  create_run({ id = ARGV[6], kind = 'cron', policy = C.policies.cron,
    spec = cjson.encode({ job = ARGV[2], name = job.name, prompt = job.prompt, slot = planned }) })
end
return answer(result)
