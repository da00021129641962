-- windows.lua: admission. A window is a set of members in flight; what is over it waits, parents taking turns.
-- Only a script that ends a member, or stores it as waiting, removes it; a takeover keeps its place.

-- What being admitted means: the record is rung, and rung again until somebody claims it.
local function on_admit(class, member)
  if class == 'drain' then
    local cursor = key('cur:' .. member)
    redis.call('HSET', cursor, 'admitted', 1, 'rung', 0)
    look_at('cur:' .. member, NOW + C.ring_ms)
    local session, consumer = string.match(member, '^(.*)|(.*)$')
    ring('drain', session, consumer)
  else
    local run = key('run:' .. member)
    redis.call('HSET', run, 'admitted', 1, 'rung', 0, 'queued', ms(NOW))
    look_at('run:' .. member, NOW + C.ring_ms)
    ring(TASK[redis.call('HGET', run, 'kind')], member)
  end
end

local function parent_full(parent)
  return parent ~= '' and redis.call('SCARD', key('winp:' .. parent)) >= C.per_parent
end

local function take_place(class, member, parent)
  redis.call('SADD', key('win:' .. class), member)
  if parent ~= '' then redis.call('SADD', key('winp:' .. parent), member) end
  on_admit(class, member)
end

local function window_open(class) return redis.call('SCARD', key('win:' .. class)) < C.windows[class] end

local fill

-- Ask for a place. Already in flight: rung again. No room: to the end of its parent's queue, or first if resumed;
-- and places that are free for it go to whoever is next, since those before it may only wait for their own parent.
local function enter(class, member, parent, resumed)
  if redis.call('SISMEMBER', key('win:' .. class), member) == 1 then return on_admit(class, member) end
  if window_open(class) and not parent_full(parent)
    and (resumed or redis.call('LLEN', key('back:' .. class)) == 0) then
    return take_place(class, member, parent)
  end
  if resumed then
    redis.call('RPUSH', key('first:' .. class), member)
  else
    local queue = parent == '' and '-' or parent
    if redis.call('RPUSH', key('back:' .. class .. ':' .. queue), member) == 1 then
      redis.call('RPUSH', key('back:' .. class), queue)
    end
  end
  fill(class)
end

-- Is this member still waiting to be admitted? Ended ones are dropped here instead of being searched for in lists.
local function wants_place(class, member)
  if class == 'drain' then return redis.call('EXISTS', key('cur:' .. member)) == 1 end
  return redis.call('HGET', key('run:' .. member), 'state') == 'queued'
end

-- Fill the window from those who were resumed, then from the parents in turn.
fill = function(class)
  local first = key('first:' .. class)
  for _ = 1, redis.call('LLEN', first) do
    if not window_open(class) then return end
    local member = redis.call('LPOP', first)
    local parent = class == 'drain' and '' or redis.call('HGET', key('run:' .. member), 'parent') or ''
    if wants_place(class, member) then
      if parent_full(parent) then redis.call('RPUSH', first, member) else take_place(class, member, parent) end
    end
  end
  local turns, skipped = key('back:' .. class), 0
  while window_open(class) and skipped < redis.call('LLEN', turns) do
    local queue = redis.call('LPOP', turns)
    local parent = queue == '-' and '' or queue
    if parent_full(parent) then
      skipped = skipped + 1
    else
      local member = redis.call('LPOP', key('back:' .. class .. ':' .. queue))
      if member and wants_place(class, member) then
        take_place(class, member, parent)
        skipped = 0
      end
    end
    if redis.call('LLEN', key('back:' .. class .. ':' .. queue)) > 0 then redis.call('RPUSH', turns, queue) end
  end
end

local function leave(class, member, parent)
  redis.call('SREM', key('win:' .. class), member)
  if parent ~= '' then redis.call('SREM', key('winp:' .. parent), member) end
  fill(class)
end
