-- channel_claim: take the lease of a cursor and read its next entries.
-- ARGV[2] session  [3] consumer  [4] holder id, new for each acquisition  [5] most entries
-- Answers claimed {fence, pos, entries} | idle | held | no_user. A second call of the same holder reads again.
if not live_user() then return answer('no_user') end
local cursor = key('cur:' .. ARGV[2] .. '|' .. ARGV[3])
local at = redis.call('HMGET', cursor, 'holder', 'pos', 'admitted')
if at[1] and at[1] ~= '' and at[1] ~= ARGV[4] then return answer('held') end
if int(at[3]) ~= 1 then return answer('idle') end
if at[1] ~= ARGV[4] then
  if not cursor_behind(ARGV[2], ARGV[3]) then
    release_cursor(ARGV[2], ARGV[3])
    return answer('idle')
  end
  redis.call('HSET', cursor, 'holder', ARGV[4], 'lease_until', ms(NOW + C.lease_ms))
  redis.call('HINCRBY', cursor, 'fence', 1)
  look_at('cur:' .. ARGV[2] .. '|' .. ARGV[3], NOW + C.lease_ms)
end
local pos = int(at[2])
return answer('claimed', { fence = int(redis.call('HGET', cursor, 'fence')), pos = pos,
  entries = redis.call('XRANGE', key('log:' .. ARGV[2]), ms(pos + 1) .. '-0', '+', 'COUNT', ARGV[5]) })
