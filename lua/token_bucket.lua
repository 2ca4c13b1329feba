
-- Token bucket. HASH: tokens; ts, frac: the time when exactly that many were there, in µs and in 1/count of
-- the next (frac is not there when it is 0); rule: the capacity and rate that it was written under,
-- capacity/count/us.

size[1] = 6

local function bucket_save(key, p, state, used)
    local limit, count = tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2])
    local back = ceil(state[2] / count)
    local frac = back * count - state[2]
    if frac > 0 then
        call('HSET', key, 'tokens', limit - used, 'ts', now - back, 'frac', frac, 'rule', ARGV[p + 4])
    else
        call('HSET', key, 'tokens', limit - used, 'ts', now - back, 'rule', ARGV[p + 4])
        if state[4] then
            call('HDEL', key, 'frac')
        end
    end
end

look[1] = function(i, key, p)
    local limit, count, us = tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
    local stored = call('HMGET', key, 'tokens', 'ts', 'frac', 'rule')
    local used, part, dirty = 0, 0, false
    if stored[1] then
        local at, old_limit, old_count, old_us = tonumber(stored[2]), limit, count, us
        if stored[4] ~= ARGV[p + 4] then
            old_limit, old_count, old_us = string.match(stored[4], '^(%d+)/(%d+)/(%d+)$')
            old_limit, old_count, old_us = tonumber(old_limit), tonumber(old_count), tonumber(old_us)
            dirty = true
        end
        used, part = refill(old_limit - tonumber(stored[1]), at, tonumber(stored[3] or 0), old_count, old_us)
        if used > old_limit then
            used, part, dirty = old_limit, 0, true
        end
        if used > limit then
            used, part = limit, 0
        elseif old_us ~= us then
            part = muldiv(part, us, old_us)
        end
    end
    found[i] = {used, part, dirty, stored[3], stored[1]}
    refill_result(i, limit, cost, used, part, count, us)
end

take[1] = function(i, key, p)
    local state = found[i]
    local used = state[1] + cost
    bucket_save(key, p, state, used)
    call('PEXPIRE', key, ARGV[p + 5])
    refill_result(i, tonumber(ARGV[p + 1]), 0, used, state[2], tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3]))
end

keep[1] = function(i, key, p)
    local state = found[i]
    if state[5] then
        if state[3] then
            bucket_save(key, p, state, state[1])
        end
        call('PEXPIRE', key, ARGV[p + 5])
    end
end
