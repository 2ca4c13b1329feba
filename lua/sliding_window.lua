
-- Sliding window. HASH: number of the sub-window since the epoch -> count, and w: the width in µs that the
-- numbers are for.

size[4] = 5

-- Of the oldest sub-window's count, the share that is still in the window, `left` µs of its width, rounded
-- up.
local function sub_weighted(count, left, width)
    local whole, rest = muldiv(count, left, width)
    return rest > 0 and whole + 1 or whole
end

local function sub_used(state)
    local used = sub_weighted(state[1], state.width - state.offset, state.width)
    for k = 2, state.last do
        used = used + state[k]
    end
    return used
end

-- The longest part of the oldest sub-window that may still be in the window with `room` units, 0 <= room <
-- count.
local function sub_part(count, room, width)
    local part = floor(room / count * width)
    while part > 0 and sub_weighted(count, part, width) > room do
        part = part - 1
    end
    while sub_weighted(count, part + 1, width) <= room do
        part = part + 1
    end
    return part
end

-- Until no more than `room` units are used, nothing being added; 0 <= room < sub_used(state).
local function sub_wait(state, room)
    local inside, k, width = 0, 1, state.width
    for j = 2, state.last do
        inside = inside + state[j]
    end
    -- Each step makes the next sub-window the oldest.
    while inside > room do
        k = k + 1
        inside = inside - state[k]
    end
    local oldest, part = state[k], width
    if room - inside < oldest then
        part = sub_part(oldest, room - inside, width)
    end
    return k * width - part - state.offset
end

local function sub_result(i, limit, units, state)
    local used = sub_used(state)
    local left = used < limit and limit - used or 0
    decide(i, limit, units, left)
    if used > 0 then
        local newest = state.last
        while newest > 1 and state[newest] == 0 do
            newest = newest - 1
        end
        reset[i] = newest * state.width - state.offset
        more[i] = sub_wait(state, limit - left - 1)
        if flags[i] == 0 then
            retry[i] = sub_wait(state, limit - units)
        end
    end
end

-- state[1] is the oldest sub-window, state[last] the current one; drop has the fields that are not to be
-- kept.
look[4] = function(i, key, p)
    local limit, width, precision = tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
    local stored = call('HGETALL', key)
    local current, old_width = floor(now / width), width
    local state = {width = width, offset = now % width, last = precision + 1, current = current, drop = {},
                   exists = #stored > 0}
    for k = 1, precision + 1 do
        state[k] = 0
    end
    for k = 1, #stored, 2 do
        if stored[k] == 'w' then
            old_width = tonumber(stored[k + 1])
        end
    end
    state.moved = old_width ~= width
    for k = 1, #stored, 2 do
        local field = stored[k]
        if field ~= 'w' then
            local index, count = tonumber(field), tonumber(stored[k + 1])
            -- Another precision: a count moves to where its old sub-window ends, so that nothing leaves
            -- early.
            if old_width ~= width then
                index = floor(((index + 1) * old_width - 1) / width)
                state.drop[#state.drop + 1] = field
            elseif index > current or index < current - precision then
                state.drop[#state.drop + 1] = field
            end
            -- Written by a clock that was ahead: as if it had happened now.
            if index > current then
                index = current
                state.moved = true
            end
            local place = index - current + state.last
            if place >= 1 then
                state[place] = state[place] + count
            end
        end
    end
    found[i] = state
    sub_result(i, limit, cost, state)
end

-- Counts that moved are written anew, one by one.
local function sub_save(key, p, state)
    if #state.drop > 0 then
        call('HDEL', key, unpack(state.drop))
    end
    for k = 1, state.last do
        if state[k] > 0 then
            call('HSET', key, state.current + k - state.last, state[k])
        end
    end
    call('HSET', key, 'w', ARGV[p + 2])
end

take[4] = function(i, key, p)
    local state = found[i]
    state[state.last] = state[state.last] + cost
    if state.moved or not state.exists then
        sub_save(key, p, state)
    else
        if #state.drop > 0 then
            call('HDEL', key, unpack(state.drop))
        end
        call('HSET', key, state.current, state[state.last])
    end
    call('PEXPIRE', key, ARGV[p + 4])
    sub_result(i, tonumber(ARGV[p + 1]), 0, state)
end

keep[4] = function(i, key, p)
    local state = found[i]
    if state.exists then
        if state.moved then
            sub_save(key, p, state)
        end
        call('PEXPIRE', key, ARGV[p + 4])
    end
end
