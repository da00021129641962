-- batch_create: the started step of a delegate call, its batch and its children, in one script under the parent's lease.
-- ARGV[2] parent id  [3] fence  [4] holder  [5] expected index  [6] started step JSON  [7] batch id  [8] call index
-- ARGV[9] children as JSON list of NewRun (spec and policy as text)
-- ARGV[10] 'mailbox': nobody waits, the results come as a turn of their own, and [6] is the call's result (the handle);
-- '' = the parent waits  ARGV[11] after so many ms it does not wait any longer, 0 = it waits for the end
-- Answers ok | lost | ended | gone | rolled_back. A second call changes nothing and answers ok.
local run = run_get(ARGV[2])
local fence, index = int(ARGV[3]), int(ARGV[5])
if already_added(run, index, fence, ARGV[4], ARGV[6]) then return answer('ok') end
local refused = not_holder(run, fence, ARGV[4], index)
if refused then return answer(refused) end
add_step(run, ARGV[6])
local children = cjson.decode(ARGV[9])
redis.call('HSET', key('batch:' .. ARGV[7]), 'id', ARGV[7], 'parent', run.id, 'session', run.session, 'call', ARGV[8],
  'size', #children, 'left', #children, 'created', ms(NOW))
redis.call('SADD', key('batches:' .. run.id), ARGV[7])
if ARGV[10] == 'mailbox' then
  redis.call('HSET', key('batch:' .. ARGV[7]), 'road', 'mailbox')
  redis.call('SADD', key('away:' .. run.session), ARGV[7])
else
  redis.call('HINCRBY', key('run:' .. run.id), 'pending', 1)
  if int(ARGV[11]) > 0 then look_at('wait:' .. ARGV[7], NOW + int(ARGV[11])) end
end
local shown = {}
for i, child in ipairs(children) do shown[i] = { run = child.id, index = child.index, goal = child.goal } end
emit(run.session, 'batch.started', { run = run.id, batch = ARGV[7], children = shown })
for i, child in ipairs(children) do
  redis.call('HSET', key('batch:' .. ARGV[7]), 'child:' .. (i - 1), child.id)
  create_run(child)
end
return answer('ok')
