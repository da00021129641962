-- session_cancel: stop a session: batches that work for it in the background, its open turn, and the messages that wait.
-- Each of those turns is in the history as cancelled; nothing is dropped unseen, and no results turn begins afterwards.
-- ARGV[2] session
-- Answers ok {turns, batches = how many were ended} | no_session | no_user. A second call changes nothing.
if not live_user() then return answer('no_user') end
local session = ARGV[2]
local record = key('sess:' .. session)
if redis.call('EXISTS', record) == 0 then return answer('no_session') end
local away = redis.call('SMEMBERS', key('away:' .. session))
for _, id in ipairs(away) do
  redis.call('HSET', key('batch:' .. id), 'road', 'stopped')
  cancel_batch(id)
  redis.call('SREM', key('away:' .. session), id)
end
-- The end of a turn opens the next one that waits, which ends as well.
local function open_turn()
  local open = redis.call('HGET', record, 'open') or ''
  return open ~= '' and run_get(open)
end
local turns = 0
while cancel_run(open_turn()) do turns = turns + 1 end
return answer('ok', { turns = turns, batches = #away })
