-- run_cancel: end a run and everything below it that is not terminal yet. A stored final answer completes instead.
-- A message that still waits in its session's inbox is taken out; its record says that it was cancelled.
-- ARGV[2] run id
-- Answers ok {state} | gone. A second call changes nothing and tells the state.
local run = run_get(ARGV[2])
if not run and live_user() then
  for _, session in ipairs(redis.call('ZREVRANGE', key('sessions'), 0, -1)) do
    local message = redis.call('HGET', key('msg:' .. session), ARGV[2])
    if message and redis.call('LREM', key('inbox:' .. session), 1, ARGV[2]) > 0 then
      redis.call('HDEL', key('msg:' .. session), ARGV[2])
      withdraw(session, ARGV[2], message)
      return answer('ok', { state = 'cancelled' })
    end
  end
end
if not run then return answer('gone') end
cancel_run(run)
return answer('ok', { state = run.state })
