-- run_cancel: end a run and everything below it that is not terminal yet. A stored final answer completes instead.
-- ARGV[2] run id
-- Answers ok {state} | gone. A second call changes nothing and tells the state.
local run = run_get(ARGV[2])
if not run then return answer('gone') end
if not TERMINAL[run.state] then
  end_from_outside(run, 'cancelled', 'cancelled')
  end_tree(run.id)
end
return answer('ok', { state = run.state })
