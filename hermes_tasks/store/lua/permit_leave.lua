-- permit_leave: give a permit back; whoever is next has it.
-- ARGV[3] member  [4] '1' = only if it was granted and the member did not come
-- Answers ok. A second call changes nothing.
if ARGV[4] ~= '1' or redis.call('ZSCORE', key('granted'), ARGV[3]) then give_back(ARGV[3]) end
settle()
fill()
return answer('ok')
