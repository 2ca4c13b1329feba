
-- Sliding log. ZSET: each unit of the last window, by its time in µs. A unit is out when it is one window
-- old.

size[5] = 4

look[5] = function(i, key, p)
    zset_look(i, key, tonumber(ARGV[p + 1]), cost, tonumber(ARGV[p + 2]), now)
end

-- Two units in one instant are two members.
local function log_add(key)
    local args = {}
    for k = 1, cost do
        args[#args + 1] = now
        args[#args + 1] = k == 1 and lease or lease .. ':' .. k
        if #args == 200 or k == cost then
            call('ZADD', key, unpack(args))
            args = {}
        end
    end
end

take[5] = function(i, key, p)
    local window, state = tonumber(ARGV[p + 2]), found[i]
    if state and state[1] then
        zset_lower(key, now)
    end
    call('ZREMRANGEBYSCORE', key, '-inf', now - window)
    log_add(key)
    call('PEXPIRE', key, ARGV[p + 3])
    if remaining[i] == tonumber(ARGV[p + 1]) then
        more[i] = window
    end
    remaining[i] = remaining[i] - cost
    reset[i] = window
end

keep[5] = function(i, key, p)
    zset_keep(i, key, now, ARGV[p + 3])
end
