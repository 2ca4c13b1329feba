
-- GCRA. STRING: the theoretical arrival time in µs, /r for r/count of the next µs, @ and the rate that it
-- was written under: 1780000000000000/3@7/3600000000.

size[2] = 6

-- The time when what is owed is back, from now on.
local function arrival(used, part, count, us, rule)
    if count == 1 then
        return string.format('%.0f@%s', now + used * us - part, rule)
    end
    local whole, rest = muldiv(used, us, count)
    rest = rest - part
    whole = now + whole + floor(rest / count)
    rest = rest % count
    if rest == 0 then
        return string.format('%.0f@%s', whole, rule)
    end
    return string.format('%.0f/%.0f@%s', whole, rest, rule)
end

look[2] = function(i, key, p)
    local limit, count, us = tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
    local stored = call('GET', key)
    local used, part, dirty = 0, 0, false
    if stored then
        local at, frac, old_count, old_us = string.match(stored, '^(%d+)/?(%d*)@(%d+)/(%d+)$')
        old_count, old_us = tonumber(old_count), tonumber(old_us)
        dirty = old_count ~= count or old_us ~= us
        used, part = refill(0, tonumber(at), tonumber(frac) or 0, old_count, old_us)
        if used > limit then
            used, part, dirty = limit, 0, true
        elseif old_us ~= us then
            part = muldiv(part, us, old_us)
        end
    end
    found[i] = {used, part, dirty, stored}
    refill_result(i, limit, cost, used, part, count, us)
end

take[2] = function(i, key, p)
    local limit, count, us = tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
    local used, part = found[i][1] + cost, found[i][2]
    call('SET', key, arrival(used, part, count, us, ARGV[p + 4]), 'PX', ARGV[p + 5])
    refill_result(i, limit, 0, used, part, count, us)
end

keep[2] = function(i, key, p)
    local state = found[i]
    if state[3] then
        local count, us = tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
        call('SET', key, arrival(state[1], state[2], count, us, ARGV[p + 4]), 'PX', ARGV[p + 5])
    elseif state[4] then
        call('PEXPIRE', key, ARGV[p + 5])
    end
end
