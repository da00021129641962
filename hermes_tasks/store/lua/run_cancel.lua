-- run_cancel: end a run and everything below it that is not terminal yet. A stored final answer completes instead.
-- ARGV[2] run id
-- Answers ok {state} | gone. A second call changes nothing and tells the state.
local run = run_get(ARGV[2])
if not run then return answer('gone') end
if not TERMINAL[run.state] then
  local text = stored_answer(run.id)
  if text then end_run(run, 'completed', 'completed', cjson.encode({ text = text }))
  else end_run(run, 'cancelled', 'cancelled', cjson.encode({ text = '' })) end
end
return answer('ok', { state = run.state })
