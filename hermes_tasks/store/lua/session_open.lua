-- session_open: make a session.
-- ARGV[2] session id
-- Answers created | exists | no_user. A second call changes nothing.
if not live_user() then return answer('no_user') end
local record = key('sess:' .. ARGV[2])
if redis.call('EXISTS', record) == 1 then return answer('exists') end
redis.call('HSET', record, 'v', 1, 'id', ARGV[2], 'generation', 1, 'turns', 0, 'open', '', 'created', ms(NOW), 'active', ms(NOW))
redis.call('ZADD', key('sessions'), ms(NOW), ARGV[2])
return answer('created')
