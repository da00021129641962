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
  local batch = key('batch:' .. id)
  redis.call('HSET', batch, 'road', 'stopped')
  for i = 0, int(redis.call('HGET', batch, 'size')) - 1 do
    local run = run_get(redis.call('HGET', batch, 'child:' .. i))
    if run and not TERMINAL[run.state] then
      end_from_outside(run, 'cancelled', 'cancelled')
      end_tree(run.id, true)
    end
  end
  redis.call('SREM', key('away:' .. session), id)
end
local turns = 0
while true do
  local open = redis.call('HGET', record, 'open') or ''
  local run = open ~= '' and run_get(open)
  if not run or TERMINAL[run.state] then break end
  end_from_outside(run, 'cancelled', 'cancelled')
  end_tree(run.id, true)
  turns = turns + 1
end
return answer('ok', { turns = turns, batches = #away })
