-- permit_pause: nobody may ask a model for a while; afterwards its line moves by 1, 2, 4 … in a second.
-- ARGV[3] model  [4] how long (ms), 0 = not known: it doubles with each refusal until none has come for a minute
-- ARGV[5] member that goes back to the line, before all others; '' = none
-- Answers ok {left = ms until the pause ends}. Many refusals at once count as one; a pause is never made shorter.
local model, wait = ARGV[3], int(ARGV[4])
local record = key('model:' .. model)
settle()
if wait == 0 and pause_left(model) == 0 then
  if NOW - int(of(model, 'until')) > STRIKES_MS then redis.call('HSET', record, 'strikes', 0) end
  wait = STEP_MS * 2 ^ math.min(redis.call('HINCRBY', record, 'strikes', 1) - 1, 6)
end
redis.call('HSET', record, 'until', ms(NOW + math.max(pause_left(model), wait)), 'credit', 0, 'pace', 1, 'step_at', 0)
redis.call('SADD', key('models'), model)
keep('models')
keep('model:' .. model)
if ARGV[5] ~= '' then
  give_back(ARGV[5])
  stand(ARGV[5], model, true)
end
return answer('ok', { left = pause_left(model) })
