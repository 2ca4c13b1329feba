
-- Token bucket. HASH: tokens; ts, frac: the time when exactly that many were there, in µs and in 1/count of
-- the next (frac is not there when it is 0); rule: the capacity and rate that it was written under,
-- capacity/count/us; given: what settlements have given back (refill_given). In debt tokens are below 0.

size[1] = 6

define[1] = function()
    local function save(s, key, p)
        local back, frac = s[4], 0
        if s[11] then
            call('HSET', key, 'given', string.format('%.0f/%.0f', s[9], s[10]))
        end
        if s[5] > 1 then
            back = ceil(s[4] / s[5])
            frac = back * s[5] - s[4]
        end
        if frac > 0 then
            call('HSET', key, 'tokens', s[2] - s[3], 'ts', now - back, 'rule', ARGV[p + 4], 'frac', frac)
            return
        end
        if s[7] or not s[8] then
            call('HSET', key, 'tokens', s[2] - s[3], 'ts', now - back, 'rule', ARGV[p + 4])
        else
            call('HSET', key, 'tokens', s[2] - s[3], 'ts', now - back)
        end
        if s[8] and s[8][4] then
            call('HDEL', key, 'frac')
        end
    end

    look[1] = function(key, p)
        local limit, count, us = tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
        local stored = call('HMGET', key, 'tokens', 'ts', 'rule', 'frac', 'given')
        local tokens, rule = tonumber(stored[1]), stored[3]
        if not tokens then
            return {limit, limit, 0, 0, count, us, false, false, 0, 0}
        end
        local dirty, old_limit, old_count, old_us = false, limit, count, us
        if rule ~= ARGV[p + 4] then
            old_limit, old_count, old_us = string.match(rule, '^(%d+)/(%d+)/(%d+)$')
            old_limit, old_count, old_us = tonumber(old_limit), tonumber(old_count), tonumber(old_us)
            dirty = true
        end
        local at, frac = tonumber(stored[2]), tonumber(stored[4] or 0)
        local used, part = refill(old_limit - tokens, at, frac, old_count, old_us)
        local most = tokens < 0 and old_limit - tokens or old_limit
        if used > most then
            used, part, dirty = most, 0, true
        end
        -- A debt stays owed, if it comes back in time.
        if used > limit and (tokens >= 0 or used / count * us > 4000000000000000) then
            used, part = limit, 0
        elseif old_us ~= us then
            part = muldiv(part, us, old_us)
        end
        local given, since = 0, 0
        if stored[5] then
            given, since = refill_given(stored[5])
        end
        return {used < limit and limit - used or 0, limit, used, part, count, us, dirty, stored, given, since}
    end

    take[1] = function(s, key, p)
        if cost > 0 then
            refill_begin(s)
        end
        s[1], s[3] = s[1] - cost, s[3] + cost
        save(s, key, p)
        call('PEXPIRE', key, ARGV[p + 5])
    end

    keep[1] = function(s, key, p)
        if s[8] then
            if s[7] then
                save(s, key, p)
            end
            call('PEXPIRE', key, refill_ttl(s, ARGV[p + 5]))
        end
    end

    show[1] = refill_show
end
