-- channel_apply: built-in memory: the effect of a batch and the cursor's advance, in one script; then more entries, or release.
-- ARGV[2] session  [3] consumer  [4] fence  [5] holder  [6] expected position  [7] new position  [8] most entries next
-- ARGV[9] most turns kept in memory  [10…] documents to remember, JSON, in order
-- Answers more {pos, entries} | done | lost. Nothing is written unless holder, fence and position all match.
local cursor = key('cur:' .. ARGV[2] .. '|' .. ARGV[3])
local at = redis.call('HMGET', cursor, 'holder', 'fence', 'pos')
if at[1] ~= ARGV[5] or at[2] ~= ARGV[4] or int(at[3]) ~= int(ARGV[6]) then return answer('lost') end
for i = 10, #ARGV do redis.call('RPUSH', key('mem:turns'), ARGV[i]) end
if #ARGV >= 10 then redis.call('LTRIM', key('mem:turns'), -int(ARGV[9]), -1) end
redis.call('HSET', cursor, 'pos', ARGV[7], 'lease_until', ms(NOW + C.lease_ms), 'rung', 0)
redis.call('XTRIM', key('log:' .. ARGV[2]), 'MINID', ms(int(ARGV[7]) + 1) .. '-0')
if not cursor_behind(ARGV[2], ARGV[3]) then
  release_cursor(ARGV[2], ARGV[3])
  return answer('done')
end
if int(ARGV[8]) == 0 then
  release_cursor(ARGV[2], ARGV[3])
  return answer('done')
end
return answer('more', { pos = int(ARGV[7]),
  entries = redis.call('XRANGE', key('log:' .. ARGV[2]), ms(int(ARGV[7]) + 1) .. '-0', '+', 'COUNT', ARGV[8]) })
