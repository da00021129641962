-- message_post: accept a message into a session's inbox, and begin its turn if none is open.
-- ARGV[2] session  [3] message id (UUIDv7; also the turn's run id)  [4] message JSON {text, origin}
-- ARGV[5] idempotency key ('' = none)  [6] hash of the body  [7] most waiting messages
-- Answers accepted {message, begun} | repeated {message} | conflict | full {waiting} | no_session | no_user.
-- The same idempotency key and body again: repeated, with the first message's id; another body: conflict.
if redis.call('HGET', USER, 'state') ~= 'active' then return answer('no_user') end
local session = ARGV[2]
if redis.call('EXISTS', key('sess:' .. session)) == 0 then return answer('no_session') end
local once = ARGV[5] ~= '' and key('idem:' .. session .. ':' .. ARGV[5])
if once then
  local before = redis.call('GET', once)
  if before then
    local was = cjson.decode(before)
    if was.hash ~= ARGV[6] then return answer('conflict') end
    return answer('repeated', { message = was.message })
  end
end
if redis.call('HEXISTS', key('msg:' .. session), ARGV[3]) == 1 or redis.call('EXISTS', key('run:' .. ARGV[3])) == 1 then
  return answer('repeated', { message = ARGV[3] })
end
local waiting = redis.call('LLEN', key('inbox:' .. session))
if waiting >= int(ARGV[7]) then return answer('full', { waiting = waiting }) end
redis.call('HSET', key('msg:' .. session), ARGV[3], ARGV[4])
redis.call('RPUSH', key('inbox:' .. session), ARGV[3])
if once then redis.call('SET', once, cjson.encode({ hash = ARGV[6], message = ARGV[3] }), 'EX', 86400) end
return answer('accepted', { message = ARGV[3], begun = begin_next_turn(session) or '' })
