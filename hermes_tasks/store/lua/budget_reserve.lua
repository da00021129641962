-- budget_reserve: set tokens of the user's day aside for a run's next model call.
-- ARGV[2] run id  [3] fence  [4] holder  [5] day, YYYY-MM-DD  [6] tokens of the day  [7] tokens wanted
-- Answers ok | over {used, reserved} | lost | ended | gone. A second call reserves the same anew, not more.
local run = run_get(ARGV[2])
local refused = not_holder(run, int(ARGV[3]), ARGV[4], nil)
if refused then return answer(refused) end
local spent, mine, reserved = key('spend:' .. ARGV[5]), 'r:' .. run.id, 0
local flat = redis.call('HGETALL', spent)
for i = 1, #flat, 2 do
  if string.sub(flat[i], 1, 2) == 'r:' and flat[i] ~= mine then reserved = reserved + int(flat[i + 1]) end
end
local used = int(redis.call('HGET', spent, 'tokens'))
if used + reserved + int(ARGV[7]) > int(ARGV[6]) then
  redis.call('HDEL', spent, mine)
  return answer('over', { used = used, reserved = reserved })
end
if run.spend_day and run.spend_day ~= ARGV[5] then redis.call('HDEL', key('spend:' .. run.spend_day), mine) end
redis.call('HSET', spent, mine, ARGV[7])
redis.call('EXPIRE', spent, C.spend_keep_s)
redis.call('HSET', key('run:' .. run.id), 'spend_day', ARGV[5])
return answer('ok')
