-- channel.lua: a session's ordered log. A position is given when an entry is appended; cursors follow positions only.
local CONSUMERS = { 'builtin' }

local function cursor_behind(session, consumer)
  return int(redis.call('HGET', key('cur:' .. session .. '|' .. consumer), 'pos'))
    < int(redis.call('HGET', key('chan:' .. session), 'pos'))
end

-- Ask for a drain, unless one is already on its way or at work: at most one bell per cursor is outstanding.
local function wake_cursor(session, consumer)
  local member = session .. '|' .. consumer
  local cursor = key('cur:' .. member)
  if redis.call('HSETNX', cursor, 'asked', 1) == 1 then enter('drain', member, '') end
end

local function append(session, kind, turn, turn_id, data)
  local pos = redis.call('HINCRBY', key('chan:' .. session), 'pos', 1)
  redis.call('XADD', key('log:' .. session), ms(pos) .. '-0',
    'kind', kind, 'turn', turn, 'turn_id', turn_id, 'at', ms(NOW), 'data', data)
  if turn > 0 then
    redis.call('HSET', key('chanturns:' .. session), turn, turn_id)
    redis.call('HDEL', key('chanturns:' .. session), turn - 1000)
  end
  for _, consumer in ipairs(CONSUMERS) do wake_cursor(session, consumer) end
  return pos
end

-- Is this still what stands at that position? A store that came back from its log may have another entry there, or none.
local function entry_is(session, pos, stamp)
  local id = ms(pos) .. '-0'
  local found = redis.call('XRANGE', key('log:' .. session), id, id)[1]
  if not found then return false end
  local fields = {}
  for i = 1, #found[2], 2 do fields[found[2][i]] = found[2][i + 1] end
  return fields.at .. '|' .. fields.turn_id == stamp
end

-- Give the cursor's lease back. Looks again: entries that came meanwhile are asked for at once.
local function release_cursor(session, consumer)
  local member = session .. '|' .. consumer
  local cursor = key('cur:' .. member)
  redis.call('HSET', cursor, 'holder', '', 'lease_until', 0)
  redis.call('HDEL', cursor, 'asked', 'admitted')
  forget('cur:' .. member)
  leave('drain', member, '')
  if cursor_behind(session, consumer) then wake_cursor(session, consumer) end
end
