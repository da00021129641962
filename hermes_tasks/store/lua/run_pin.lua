-- run_pin: pin the bytes a run shows to the model, once: its opening message and its system prompt. A session's
-- prompt is pinned per generation, so the prefix never changes within one; a run without a session pins its own.
-- ARGV[2] run id  [3] fence  [4] holder  [5] opening  [6] session ('' = none)  [7] generation  [8] system prompt
-- Answers ok {opening, system}: what is pinned, whoever pinned it first. lost | ended | gone.
local run = run_get(ARGV[2])
local refused = not_holder(run, int(ARGV[3]), ARGV[4], nil)
if refused then return answer(refused) end
local record = key('run:' .. run.id)
redis.call('HSETNX', record, 'opening', ARGV[5])
local opening = redis.call('HGET', record, 'opening')
if ARGV[6] == '' then
  redis.call('HSETNX', record, 'system', ARGV[8])
  return answer('ok', { opening = opening, system = redis.call('HGET', record, 'system') })
end
local prompts = key('prompt:' .. ARGV[6])
if redis.call('HSETNX', prompts, ARGV[7], ARGV[8]) == 1 then
  for _, generation in ipairs(redis.call('HKEYS', prompts)) do
    if int(generation) < int(ARGV[7]) then redis.call('HDEL', prompts, generation) end
  end
end
return answer('ok', { opening = opening, system = redis.call('HGET', prompts, ARGV[7]) })
