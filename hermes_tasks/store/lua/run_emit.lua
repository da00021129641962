-- run_emit: append events to the session's stream under the lease.
-- ARGV[2] run id  [3] fence  [4] holder  [5] session  [6…] type, data JSON, type, data JSON …
-- Answers ok | lost | ended | gone. A repeated call repeats the events: clients drop a text piece they have seen.
local refused = not_holder(run_get(ARGV[2]), int(ARGV[3]), ARGV[4], nil)
if refused then return answer(refused) end
for i = 6, #ARGV, 2 do emit(ARGV[5], ARGV[i], ARGV[i + 1]) end
return answer('ok')
