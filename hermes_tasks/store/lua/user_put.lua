-- user_put: make a user, or change fields of one.
-- ARGV[2] 'add' or 'set'  [3] an id of this call  [4…] field, value pairs
-- Answers ok | exists | no_user. A second call changes nothing and answers ok.
local there = redis.call('EXISTS', USER) == 1
if ARGV[2] == 'add' and there then
  return answer(redis.call('HGET', USER, 'made_by') == ARGV[3] and 'ok' or 'exists')
end
if ARGV[2] == 'set' and not live_user() then return answer('no_user') end
if not there then redis.call('HSET', USER, 'v', 1, 'state', 'active', 'created', ms(NOW), 'made_by', ARGV[3]) end
for i = 4, #ARGV, 2 do redis.call('HSET', USER, ARGV[i], ARGV[i + 1]) end
return answer('ok')
