-- hint_move: after a look at a user: when to look again. On a global shard, without the library of the users' scripts.
-- KEYS[1] shard  ARGV[1] user  [2] score that was read  [3] moment (ms, 0 = not again)
-- Does nothing when the score is another by now: somebody announced something since. A second call changes nothing.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
if tonumber(ARGV[3]) > 0 then redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1]) else redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1
