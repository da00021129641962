-- run_release: an orderly stop gives the lease back; the run is queued and rung, no attempt is counted.
-- ARGV[2] run id  [3] fence  [4] holder
-- Answers ok | lost | ended | gone. A second call changes nothing.
local run = run_get(ARGV[2])
local refused = not_holder(run, int(ARGV[3]), ARGV[4], nil)
if refused then return answer(refused) end
redis.call('HSET', key('run:' .. run.id), 'state', 'queued', 'holder', '')
on_admit(run.kind, run.id)
return answer('ok')
