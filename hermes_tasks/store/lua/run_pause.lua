-- run_pause: store a run as waiting for a while: nothing is held, and it is queued again at its moment or when woken.
-- ARGV[2] run id  [3] fence  [4] holder  [5] expected index  [6] wait (ms)  [7] why  [8] detail  [9] failures in a row
-- Answers ok | lost | ended | gone | rolled_back. A second call changes nothing and answers ok.
local run = run_get(ARGV[2])
if run and run.state == 'waiting' and run.suspender == ARGV[4] then return answer('ok') end
local refused = not_holder(run, int(ARGV[3]), ARGV[4], int(ARGV[5]))
if refused then return answer(refused) end
local record, wake = key('run:' .. run.id), NOW + int(ARGV[6])
redis.call('HSET', record, 'state', 'waiting', 'holder', '', 'admitted', 0, 'suspender', ARGV[4], 'not_before', 0,
  'wake', ms(wake), 'why', ARGV[7], 'detail', ARGV[8], 'failures', ARGV[9])
if run.why ~= ARGV[7] or int(run.since) == 0 then redis.call('HSET', record, 'since', ms(NOW)) end
if ARGV[7] == 'budget' then
  -- Held, not at work: the time until the deadline stands still, and the limit of the queue counts instead.
  local last = NOW + cjson.decode(run.policy).queue_deadline_s * 1000
  redis.call('HSET', record, 'hold_left', ms(int(run.deadline) - NOW), 'deadline', ms(last))
  look_at('end:' .. run.id, last)
end
if run.spend_day then redis.call('HDEL', key('spend:' .. run.spend_day), 'r:' .. run.id) end
look_at('run:' .. run.id, wake)
leave(run.kind, run.id, run.parent)
return answer('ok')
