-- doc_write: replace a memory document if it is still the version that was read; with a guard, the tool step as well.
-- ARGV[2] document  [3] version read  [4] entries as JSON list
-- ARGV[5] run id ('' = no step)  [6] fence  [7] holder  [8] expected index  [9] step JSON
-- Answers ok {version} | stale {version, entries} | lost | ended | gone | rolled_back | no_user.
-- With a guard a second call changes nothing and answers ok.
local run
if ARGV[5] ~= '' then
  run = run_get(ARGV[5])
  if already_added(run, int(ARGV[8]), int(ARGV[6]), ARGV[7], ARGV[9]) then return answer('ok') end
  local refused = not_holder(run, int(ARGV[6]), ARGV[7], int(ARGV[8]))
  if refused then return answer(refused) end
elseif not live_user() then
  return answer('no_user')
end
local doc = key('doc:' .. ARGV[2])
local version = int(redis.call('HGET', doc, 'version'))
if version ~= int(ARGV[3]) then
  return answer('stale', { version = version, entries = redis.call('HGET', doc, 'entries') or '[]' })
end
redis.call('HSET', doc, 'version', version + 1, 'entries', ARGV[4], 'at', ms(NOW))
if run then add_step(run, ARGV[9]) end
return answer('ok', { version = version + 1 })
