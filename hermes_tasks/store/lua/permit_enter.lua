-- permit_enter: take a permit for one call, or stand in line for it.
-- ARGV[3] model  [4] member  [5] '1' = stand in line when there is no permit
-- Answers ok | full (all permits are in use) | paused (the model may not be asked now, or only few may at a time)
-- {left = ms until its pause ends}. A second call finds the member's permit, or its place in the line.
local model, member, stands = ARGV[3], ARGV[4], ARGV[5] == '1'
settle()
local mine = holds(member)
if mine and pause_left(model) == 0 then
  renew(member)
  redis.call('ZREM', key('granted'), member)
  return answer('ok')
end
if open(model) and room(share_of(member)) and not next_in_line() then
  hold(member, model)
  return answer('ok')
end
if stands then
  give_back(member)
  stand(member, model, mine)
  fill()
  for i = #woken, 1, -1 do
    if woken[i] == member then
      table.remove(woken, i)
      redis.call('ZREM', key('granted'), member)
      return answer('ok')
    end
  end
end
return answer(pause_left(model) == 0 and not of(model, 'credit') and 'full' or 'paused', { left = pause_left(model) })
