-- run_wake: end a run's pause before its time, since what it waited for is there.
-- ARGV[2] run id  [3…] the reasons for which it may be paused
-- Answers ok | settled (it does not wait for that any more) | gone. A second call changes nothing.
local run = run_get(ARGV[2])
if not run or not live_user() then return answer('gone') end
for i = 3, #ARGV do
  if run.state == 'waiting' and int(run.wake) > 0 and run.why == ARGV[i] then
    resume(run)
    return answer('ok')
  end
end
return answer('settled')
