-- Settles what turned out to cost more or less than was taken; the arguments stand at the top of head.lua.
-- More is taken now, also beyond the limit, so that the next requests wait. Less goes back where it was
-- taken, as far as it still counts there.

if not cost then
    local taken, delta, decided = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
    local back = -delta

    -- The most that token bucket and GCRA may owe.
    local function refill_most(rate, us)
        if 4000000000000000 / us * rate > 9000001000000000 then
            return 9000000000000000
        end
        return math.min(muldiv(4000000000000000, rate, us), 9000000000000000)
    end

    -- What is left of the request's units, at least, by two views that both hold, so the better one counts.
    -- They lie on top of all that was owed before, less what others have given back since (some of them may
    -- have taken later, and lie above; that is not known). And time has drained them at most, had they been
    -- alone.
    local function left_of_decision(s, level, given, rate, us)
        local own, own_part = refill(taken, decided, 0, rate, us)
        local others = s[9] - given
        -- A time that is still to come was written by a clock that was ahead.
        if (decided >= s[10] or s[10] > now) and others >= 0 and others < level then
            local all, part = refill(level - others, decided, 0, rate, us)
            if all > own or all == own and part < own_part then
                return all, part
            end
        end
        return own, own_part
    end

    -- Under the rule that is stored: a settlement changes no rule.
    local function settle_refill(n, key, p)
        local s, q = look[n](key, p), p + size[n]
        local used, part, rate, us = s[3], s[4], s[5], s[6]
        if delta > 0 then
            refill_begin(s)
            used = used + math.max(0, math.min(delta, refill_most(rate, us) - used))
        elseif s[8] then
            local units, rest = left_of_decision(s, tonumber(ARGV[q]), tonumber(ARGV[q + 1]), rate, us)
            if units > back or units == back and rest == 0 then
                units, rest = back, 0
            end
            s[9], s[11] = math.min(s[9] + units, 9007199254740991), true
            used, part = used - units, part - rest
            if part < 0 then
                used, part = used + 1, part + us
            end
            if used <= 0 then
                used, part = 0, 0
            end
        else
            return
        end
        s[3], s[4] = used, part
        cost = 0
        -- GCRA sees to a debt's life itself, as it writes.
        if n == 1 or used <= s[2] then
            ARGV[p + 5] = math.max(ARGV[p + 5], ceil(refill_wait(used, part, rate, us) / 1000) + 1000)
        end
        take[n](s, key, p)
    end

    local function charge(n, units, key, p)
        local s = look[n](key, p)
        local there = s.inside and s.inside + s.counts[1] or n == 3 and s[3] or 0
        cost = math.min(units, 9007199254740991 - there)
        ARGV[1] = cost
        if cost > 0 then
            take[n](s, key, p)
        end
    end

    local settle = {}

    settle[1] = function(key, p)
        local rule = call('HGET', key, 'rule')
        if rule then
            ARGV[p + 1], ARGV[p + 2], ARGV[p + 3] = string.match(rule, '^(%d+)/(%d+)/(%d+)$')
            ARGV[p + 4] = rule
        end
        settle_refill(1, key, p)
    end

    settle[2] = function(key, p)
        local stored = call('GET', key)
        if stored then
            ARGV[p + 4], ARGV[p + 2], ARGV[p + 3] = string.match(stored, '@((%d+)/(%d+))')
            -- A burst that was raised since the decision is not known here, so a refund cuts nothing down.
            if delta < 0 and not string.find(stored, '!', 1, true) then
                ARGV[p + 1] = 9000000000000000
            end
        end
        settle_refill(2, key, p)
    end

    settle[3] = function(key, p)
        if delta > 0 then
            charge(3, delta, key, p)
            return
        end
        local used = tonumber(call('GET', key) or 0)
        if used > 0 then
            call('DECRBY', key, math.min(back, used))
        end
    end

    -- From the sub-window that it was counted in, wherever that one's count stands by now.
    settle[4] = function(key, p)
        if delta > 0 then
            charge(4, delta, key, p)
            return
        end
        local own, width = tonumber(ARGV[p + 2]), tonumber(call('HGET', key, 'w') or 0)
        if width == 0 then
            return
        end
        local index = floor(decided / own)
        if width ~= own then
            index = floor(((index + 1) * own - 1) / width)
        end
        index = math.min(index, floor(now / width))
        local count = tonumber(call('HGET', key, index) or 0)
        if count > 0 then
            call('HINCRBY', key, index, -math.min(back, count))
        end
    end

    settle[5] = function(key, p)
        if delta > 0 then
            local limit = tonumber(ARGV[p + 1])
            lease = lease .. ':+'
            charge(5, math.min(delta, limit), key, p)
            -- Nothing passes before the newest `limit` units are fewer: what is older than all of them has
            -- no say.
            local over = call('ZCARD', key) - limit
            if over > 0 then
                local score = call('ZRANGE', key, over - 1, over - 1, 'WITHSCORES')[2]
                call('ZREMRANGEBYSCORE', key, '-inf', '(' .. score)
            end
            return
        end
        local members = {}
        for k = taken, taken - back + 1, -1 do
            members[#members + 1] = k == 1 and lease or lease .. ':' .. k
            if #members == 200 or k == taken - back + 1 then
                call('ZREM', key, unpack(members))
                members = {}
            end
        end
    end

    local p = 6
    for _ = 1, #KEYS do
        local n = math.abs(tonumber(ARGV[p]))
        if n == 3 and delta > 0 and floor(now / tonumber(ARGV[p + 2])) ~= tonumber(ARGV[p + 3]) then
            return {now, 2}
        end
        p = p + size[n] + 2
    end
    p = 6
    for i = 1, #KEYS do
        local n = math.abs(tonumber(ARGV[p]))
        if ARGV[p + 1] ~= '0' and settle[n] then
            define[n]()
            settle[n](KEYS[i], p)
        end
        p = p + size[n] + 2
    end
    return {now, 1}
end

