-- batch_cancel: end every child of a batch that is still open; the parent, or the session, gets what there is.
-- ARGV[2] batch id
-- Answers ok {cancelled = how many} | gone. A second call changes nothing.
if not live_user() or redis.call('EXISTS', key('batch:' .. ARGV[2])) == 0 then return answer('gone') end
return answer('ok', { cancelled = cancel_batch(ARGV[2]) })
