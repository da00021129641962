-- job_add: store a job and when it fires first.
-- ARGV[2] job id  [3] name  [4] prompt  [5] schedule JSON  [6] first planned time (ms)  [7] most jobs
-- Answers ok | full {jobs} | past | no_user. A second call with the same id changes nothing and answers ok.
if redis.call('HGET', USER, 'state') ~= 'active' then return answer('no_user') end
local job = key('job:' .. ARGV[2])
if redis.call('EXISTS', job) == 1 then return answer('ok') end
if redis.call('SCARD', key('jobs')) >= int(ARGV[7]) then return answer('full', { jobs = redis.call('SCARD', key('jobs')) }) end
if int(ARGV[6]) <= NOW then return answer('past') end
redis.call('HSET', job, 'v', 1, 'id', ARGV[2], 'name', ARGV[3], 'prompt', ARGV[4], 'schedule', ARGV[5], 'version', 1,
  'state', 'active', 'next', ARGV[6], 'created', ms(NOW), 'run', '')
redis.call('SADD', key('jobs'), ARGV[2])
redis.call('ZADD', key('jobsdue'), ARGV[6], ARGV[2])
return answer('ok')
