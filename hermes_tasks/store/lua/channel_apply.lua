-- channel_apply: built-in memory: the effect of a batch and the cursor's advance, in one script; then more entries, or release.
-- ARGV[2] session  [3] consumer  [4] fence  [5] holder  [6] expected position  [7] new position
-- ARGV[8] <at>|<turn id> of the entry at the new position, '' = nothing is applied  [9] most entries next
-- ARGV[10] most turns kept in memory  [11…] documents to remember, JSON, in order
-- Answers more {pos, entries} | done | lost. Nothing is written unless holder, fence, position and last entry all match.
-- A second call changes nothing and gives the same answer.
local session, consumer, holder, pos = ARGV[2], ARGV[3], ARGV[5], int(ARGV[7])
local cursor = key('cur:' .. session .. '|' .. consumer)
local function more()
  return answer('more', { pos = pos,
    entries = redis.call('XRANGE', key('log:' .. session), ms(pos + 1) .. '-0', '+', 'COUNT', ARGV[9]) })
end

local at = redis.call('HMGET', cursor, 'holder', 'fence', 'pos', 'last')
local this = table.concat({ holder, ARGV[6], ARGV[7] }, '|')
if at[4] == this then return at[1] == holder and more() or answer('done') end
if not live_user() or at[1] ~= holder or at[2] ~= ARGV[4] or int(at[3]) ~= int(ARGV[6]) then return answer('lost') end
if ARGV[8] ~= '' and not entry_is(session, pos, ARGV[8]) then
  release_cursor(session, consumer)
  return answer('lost')
end
for i = 11, #ARGV do redis.call('RPUSH', key('mem:turns'), ARGV[i]) end
if #ARGV >= 11 then redis.call('LTRIM', key('mem:turns'), -int(ARGV[10]), -1) end
redis.call('HSET', cursor, 'pos', pos, 'lease_until', ms(NOW + C.lease_ms), 'rung', 0, 'last', this)
redis.call('XTRIM', key('log:' .. session), 'MINID', ms(pos + 1) .. '-0')
if int(ARGV[9]) > 0 and cursor_behind(session, consumer) then return more() end
release_cursor(session, consumer)
return answer('done')
