-- run_append: store one step under the lease.
-- ARGV[2] run id  [3] fence  [4] holder  [5] expected index  [6] step JSON
-- ARGV[7] what a model call used, as JSON ('' = no model was asked)  [8] the user's day, YYYY-MM-DD  [9] kind|model
-- ARGV[10] session  [11…] events to tell it: type, data JSON, type, data JSON …
-- Answers ok | lost | ended | gone | rolled_back. A second call with the same step changes nothing and answers ok.
local run = run_get(ARGV[2])
local fence, index = int(ARGV[3]), int(ARGV[5])
if already_added(run, index, fence, ARGV[4], ARGV[6]) then return answer('ok') end
local refused = not_holder(run, fence, ARGV[4], index)
if refused then return answer(refused) end
add_step(run, ARGV[6])
if ARGV[7] ~= '' then account(run, cjson.decode(ARGV[7]), ARGV[8], ARGV[9]) end
for i = 11, #ARGV, 2 do emit(ARGV[10], ARGV[i], ARGV[i + 1]) end
return answer('ok')
