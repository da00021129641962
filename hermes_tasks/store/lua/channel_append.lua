-- channel_append: add one entry to a session's channel, from outside a turn's commit.
-- ARGV[2] session  [3] kind  [4] turn (0 = none)  [5] turn id; without a turn an id of the entry  [6] data JSON
-- Answers ok {pos} | repeated | conflict | no_session | no_user.
-- Same turn number and turn id again, or same entry id: repeated, nothing added. Same number with another id: conflict.
if not live_user() then return answer('no_user') end
if redis.call('EXISTS', key('sess:' .. ARGV[2])) == 0 then return answer('no_session') end
local turn = int(ARGV[4])
if turn > 0 then
  local known = redis.call('HGET', key('chanturns:' .. ARGV[2]), turn)
  if known then return answer(known == ARGV[5] and 'repeated' or 'conflict', { known = known }) end
-- '~' cannot begin an idempotency key that a client chose.
elseif not redis.call('SET', key('idem:' .. ARGV[2] .. ':~' .. ARGV[5]), 1, 'NX', 'EX', 86400) then
  return answer('repeated')
end
return answer('ok', { pos = append(ARGV[2], ARGV[3], turn, ARGV[5], ARGV[6]) })
