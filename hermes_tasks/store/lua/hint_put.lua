-- hint_put: this user is looked at by then. On a global shard, without the library of the users' scripts.
-- KEYS[1] shard  ARGV[1] user  [2] moment (ms)  [3] '1' if the moment counts from now
-- A second call costs a spare look at most. The score always changes: a sweeper that read the old one, and looked before
-- the caller's record was written, can then not move the hint past it.
local at = tonumber(ARGV[2])
if ARGV[3] == '1' then
  local t = redis.call('TIME')
  at = at + t[1] * 1000 + math.floor(t[2] / 1000)
end
local score = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]))
if score and score <= at then at = score - 0.001 end
return redis.call('ZADD', KEYS[1], string.format('%.3f', at), ARGV[1])
