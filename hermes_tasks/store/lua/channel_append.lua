-- channel_append: add entries to a session's channel, in order, from outside a turn's commit. All of them or none.
-- ARGV[2] session  [3…] groups of four: kind, turn (0 = none), turn id (without a turn an id of the entry), data JSON
-- Answers ok {positions, pos} | repeated | conflict {turn, known} | no_session | no_user. A position of 0 is a repeat:
-- same turn number and turn id again, or same entry id. Same number with another id: conflict, nothing is added.
if not live_user() then return answer('no_user') end
local session = ARGV[2]
if redis.call('EXISTS', key('sess:' .. session)) == 0 then return answer('no_session') end
local known, before = {}, {}
for i = 3, #ARGV, 4 do
  local turn, id = int(ARGV[i + 1]), ARGV[i + 2]
  if turn > 0 then
    local was = known[turn] or redis.call('HGET', key('chanturns:' .. session), turn)
    if was and was ~= id then return answer('conflict', { turn = turn, known = was }) end
    before[i], known[turn] = was, id
  end
end
local positions, pos = {}, 0
for i = 3, #ARGV, 4 do
  local turn, id, there = int(ARGV[i + 1]), ARGV[i + 2], before[i]
  -- '~' cannot begin an idempotency key that a client chose.
  if turn == 0 then there = not redis.call('SET', key('idem:' .. session .. ':~' .. id), 1, 'NX', 'EX', 86400) end
  if there then positions[#positions + 1] = 0
  else
    pos = append(session, ARGV[i], turn, id, ARGV[i + 3])
    positions[#positions + 1] = pos
  end
end
return answer(pos > 0 and 'ok' or 'repeated', { positions = positions, pos = pos })
