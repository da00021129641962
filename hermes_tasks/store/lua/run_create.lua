-- run_create: create a run of any kind except turn; it is admitted to its window or waits in the backlog.
-- ARGV[2] NewRun as JSON: id, kind, session, parent, batch, index, depth, spec (text), policy (text)
-- Answers created | exists | parent_ended | no_user. A second call with the same id changes nothing.
if not live_user() then return answer('no_user') end
local run = cjson.decode(ARGV[2])
if redis.call('EXISTS', key('run:' .. run.id)) == 1 then return answer('exists') end
if (run.parent or '') ~= '' then
  local parent = run_get(run.parent)
  if not parent or TERMINAL[parent.state] then return answer('parent_ended') end
end
create_run(run)
return answer('created')
