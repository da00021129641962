-- run_finish: the holder ends its run. Frees the window, joins its batch, and does what its kind means (a turn:
-- history, channel entry, owed review, next turn; a fire: ledger and delivery).
-- ARGV[2] run id  [3] fence  [4] holder  [5] steps known  [6] state  [7] exit reason  [8] result JSON {text, error?}
-- Answers ok | lost | ended | gone | rolled_back. A second call changes nothing and answers ok.
local run = run_get(ARGV[2])
if run and TERMINAL[run.state] and run.finisher == ARGV[4] then return answer('ok') end
local refused = not_holder(run, int(ARGV[3]), ARGV[4], int(ARGV[5]))
if refused then return answer(refused) end
redis.call('HSET', key('run:' .. run.id), 'finisher', ARGV[4])
end_run(run, ARGV[6], ARGV[7], ARGV[8])
return answer('ok')
