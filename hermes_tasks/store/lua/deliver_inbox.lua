-- deliver_inbox: hand an owed delivery to the user's inbox. Effect and mark are one script, so it arrives once.
-- ARGV[2] delivery id
-- Answers ok | settled | gone. A second call changes nothing.
if not live_user() then return answer('gone') end
local record = key('out:' .. ARGV[2])
local flat = redis.call('HGETALL', record)
if #flat == 0 then return answer('gone') end
local out = {}
for i = 1, #flat, 2 do out[flat[i]] = flat[i + 1] end
if out.state ~= 'pending' then return answer('settled') end
redis.call('RPUSH', key('mail'), cjson.encode({ id = out.id, job = out.job, name = out.name, slot = int(out.slot), at = NOW,
  status = out.status, reason = out.reason, text = out.text, error = out.error }))
redis.call('LTRIM', key('mail'), -1000, -1)
redis.call('HSET', record, 'state', 'delivered', 'delivered', ms(NOW))
redis.call('EXPIRE', record, C.keep_s)
forget('out:' .. out.id)
return answer('ok')
