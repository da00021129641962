-- jobs_due: a user's jobs whose planned time has come. Reads only; firing is job_fire.
-- ARGV[2] most jobs
-- Answers ok {jobs = [{id, version, next, schedule}], next = when the user's next job is due, 0 = none}.
local jobs = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', key('jobsdue'), '-inf', ms(NOW), 'LIMIT', 0, ARGV[2])) do
  local job = redis.call('HMGET', key('job:' .. id), 'version', 'next', 'schedule')
  if job[1] then jobs[#jobs + 1] = { id = id, version = job[1], next = int(job[2]), schedule = job[3] }
  else redis.call('ZREM', key('jobsdue'), id) end
end
local first = redis.call('ZRANGE', key('jobsdue'), 0, 0, 'WITHSCORES')
return answer('ok', { jobs = jobs, next = int(first[2]) })
