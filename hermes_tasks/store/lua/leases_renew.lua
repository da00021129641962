-- leases_renew: renew leases of one user. Renewing an expired lease that nobody took succeeds.
-- ARGV[2…] groups of four: 'run' or 'cur', id, fence, holder
-- Answers ok {states}: one word per lease: ok | lost | ended.
local states, live = {}, live_user()
for i = 2, #ARGV, 4 do
  local kind, id, fence, holder = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local record = key((kind == 'run' and 'run:' or 'cur:') .. id)
  local at = redis.call('HMGET', record, 'holder', 'fence', 'state')
  if live and at[1] == holder and at[2] == fence and (kind == 'cur' or at[3] == 'running') then
    redis.call('HSET', record, 'lease_until', ms(NOW + C.lease_ms))
    look_at(kind .. ':' .. id, NOW + C.lease_ms)
    states[#states + 1] = 'ok'
  else
    states[#states + 1] = (kind == 'run' and TERMINAL[at[3] or '']) and 'ended' or 'lost'
  end
end
return answer('ok', { states = states })
