-- run_suspend: store a run as waiting for its batches and give lease and window place back.
-- ARGV[2] run id  [3] fence  [4] holder  [5] expected index
-- Answers ok | continue (nothing is pending any more: go on) | lost | ended | gone | rolled_back.
local run = run_get(ARGV[2])
if run and run.state == 'waiting' and run.suspender == ARGV[4] then return answer('ok') end
local refused = not_holder(run, int(ARGV[3]), ARGV[4], int(ARGV[5]))
if refused then return answer(refused) end
if int(run.pending) <= 0 then return answer('continue') end
redis.call('HSET', key('run:' .. run.id), 'state', 'waiting', 'holder', '', 'admitted', 0, 'suspender', ARGV[4],
  'attempts', 0, 'not_before', 0, 'wake', 0, 'why', '', 'since', ms(NOW))
forget('run:' .. run.id)
leave(run.kind, run.id, run.parent)
return answer('ok')
