
-- Fixed window. STRING: the count. The window that it counts is part of the key.

size[3] = 5

local function window_result(i, limit, units, used, window)
    decide(i, limit, units, used < limit and limit - used or 0)
    if used > 0 then
        reset[i] = window - now % window
        more[i] = reset[i]
        if flags[i] == 0 then
            retry[i] = reset[i]
        end
    end
end

local function window_expire(key, p)
    local window = tonumber(ARGV[p + 2])
    call('PEXPIRE', key, ceil((window - now % window) / 1000) + tonumber(ARGV[p + 4]))
end

look[3] = function(i, key, p)
    found[i] = tonumber(call('GET', key) or 0)
    window_result(i, tonumber(ARGV[p + 1]), cost, found[i], tonumber(ARGV[p + 2]))
end

take[3] = function(i, key, p)
    call('INCRBY', key, ARGV[1])
    window_expire(key, p)
    window_result(i, tonumber(ARGV[p + 1]), 0, found[i] + cost, tonumber(ARGV[p + 2]))
end

keep[3] = function(i, key, p)
    if found[i] > 0 then
        window_expire(key, p)
    end
end
