-- run_finish: the holder ends its run. Frees the window, joins its batch, and does what its kind means (a turn:
-- history, channel entry, owed review, next turn; a fire: ledger and delivery).
-- ARGV[2] run id  [3] fence  [4] holder  [5] state  [6] exit reason  [7] result JSON {text, error?}
-- Answers ok | lost | ended | gone | no_user. A second call answers ended and changes nothing.
if not live_user() then return answer('no_user') end
local run = run_get(ARGV[2])
if run and TERMINAL[run.state] and run.finisher == ARGV[4] then return answer('ok') end
local refused = not_holder(run, int(ARGV[3]), ARGV[4], nil)
if refused then return answer(refused) end
redis.call('HSET', key('run:' .. run.id), 'finisher', ARGV[4])
end_run(run, ARGV[5], ARGV[6], ARGV[7])
return answer('ok')
