-- run_open: pin the bytes a run shows to the model, once: its opening message and, per generation, the system prompt.
-- ARGV[2] run id  [3] fence  [4] holder  [5] opening ('' = none)  [6] session  [7] generation  [8] system prompt
-- Answers ok {opening, system}: what is pinned, whoever pinned it first. lost | ended | gone.
local run = run_get(ARGV[2])
local refused = not_holder(run, int(ARGV[3]), ARGV[4], nil)
if refused then return answer(refused) end
redis.call('HSETNX', key('run:' .. run.id), 'opening', ARGV[5])
local prompts = key('prompt:' .. ARGV[6])
if redis.call('HSETNX', prompts, ARGV[7], ARGV[8]) == 1 then
  for _, generation in ipairs(redis.call('HKEYS', prompts)) do
    if int(generation) < int(ARGV[7]) then redis.call('HDEL', prompts, generation) end
  end
end
return answer('ok', { opening = redis.call('HGET', key('run:' .. run.id), 'opening'),
  system = redis.call('HGET', prompts, ARGV[7]) })
