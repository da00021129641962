-- user_put: make a user, or change fields of one.
-- ARGV[2] 'add' or 'set'  [3…] field, value pairs
-- Answers ok | exists | no_user.
local there = redis.call('EXISTS', USER) == 1
if ARGV[2] == 'add' and there then return answer('exists') end
if ARGV[2] == 'set' and not live_user() then return answer('no_user') end
if not there then redis.call('HSET', USER, 'v', 1, 'state', 'active', 'created', ms(NOW)) end
for i = 3, #ARGV, 2 do redis.call('HSET', USER, ARGV[i], ARGV[i + 1]) end
return answer('ok')
