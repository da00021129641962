-- permit_tend: what is done once a second: keep the permits of calls that are on, let lines move, wake who did not come.
-- ARGV[3] how many calls the rates of each model allow now, as JSON {model = calls}; a model without rates is not in it
-- ARGV[4…] members whose calls are on: they have a permit, also when its lease ran out because nobody could renew it
-- Answers ok {models = those that are paused or waited for}. Called more often, it changes nothing more.
for i = 4, #ARGV do renew(ARGV[i]) end
settle()
local allowed = cjson.decode(ARGV[3])
for _, model in ipairs(models()) do
  local record, pace = key('model:' .. model), int(of(model, 'pace'))
  if of(model, 'credit') and pause_left(model) == 0 and int(of(model, 'step_at')) <= NOW then
    redis.call('HSET', record, 'credit', math.min(pace, allowed[model] or pace), 'pace', math.min(2 * pace, 4096),
      'step_at', ms(NOW + STEP_MS))
  end
end
fill()
for _, member in ipairs(redis.call('ZRANGEBYSCORE', key('granted'), '-inf', ms(NOW))) do
  if holds(member) then
    redis.call('ZADD', key('granted'), ms(NOW + STEP_MS), member)
    woken[#woken + 1] = member
  else
    redis.call('ZREM', key('granted'), member)
  end
end
local busy = models()
return answer('ok', { models = #busy > 0 and busy or nil })
