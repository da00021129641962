-- batch_cancel: end every child of a batch that is still open; the parent, or the session, gets what there is.
-- ARGV[2] batch id
-- Answers ok {cancelled = how many} | gone. A second call changes nothing.
local batch, cancelled = key('batch:' .. ARGV[2]), 0
local size = redis.call('HGET', batch, 'size')
if not size or not live_user() then return answer('gone') end
for i = 0, int(size) - 1 do
  local run = run_get(redis.call('HGET', batch, 'child:' .. i))
  if run and not TERMINAL[run.state] then
    end_from_outside(run, 'cancelled', 'cancelled')
    end_tree(run.id, true)
    cancelled = cancelled + 1
  end
end
return answer('ok', { cancelled = cancelled })
