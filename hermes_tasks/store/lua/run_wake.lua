-- run_wake: end a run's pause before its time, since what it waited for is there.
-- ARGV[2] run id  [3] why it is paused
-- Answers ok | settled (it does not wait for that any more) | gone. A second call changes nothing.
local run = run_get(ARGV[2])
if not run or not live_user() then return answer('gone') end
if run.state ~= 'waiting' or int(run.wake) == 0 or run.why ~= ARGV[3] then return answer('settled') end
resume(run)
return answer('ok')
