-- slotgate: all limits of one request, decided in one step: read all, decide, write all or nothing.
--
-- KEYS   one for each limit, in one cluster slot.
-- ARGV   cost, lease, then for each limit a group that its algorithm reads:
--          token_bucket    1  capacity  count  us  rule  ttl_ms
--          gcra            2  burst     count  us  rule  ttl_ms
--          fixed_window    3  limit  window_us  bucket  extra_ms
--          sliding_window  4  limit  width_us  precision  ttl_ms
--          sliding_log     5  limit  window_us  ttl_ms
--          concurrency     6  limit  lease_us  ttl_ms
--        A negative number of the algorithm marks a dry run. count units come back in us µs, in lowest
--        terms; rule is capacity/count/us or count/us, as it is stored. A fixed window's key lives to the
--        end of the window and extra_ms on. A sub-window of a sliding window is width_us long.
-- reply  time in µs, then 2: the bucket of a fixed window is not that of this time, and nothing was written;
--        or 1 (allowed) or 0 (denied), and for each limit: allowed (1; 0; 2: no waiting helps), remaining,
--        and in ms, rounded up: reset, retry-after, time until one more unit. In place of the retry-after of
--        a token bucket or GCRA that allows: units that settlements have given back since it was last full.
--
-- Settles what turned out to cost more or less than was taken (settle.lua):
-- KEYS   one for each limit that took units; a fixed window's is that of the decision when units go back,
--        else that of now.
-- ARGV   settle, lease, units that were taken, what the cost was more than that (less: negative), time of
--        the decision in µs, then for each limit its group, followed by two numbers that token bucket and
--        GCRA read: units that were owed right after the decision, at least, and its number of units that had
--        been given back.
-- reply  time in µs, then 1, or 2: as above.
--
-- Cost 0 is a peek and writes nothing. A denied request consumes nothing; it renews the expiry of what is
-- there, and puts right what a clock that went back or a changed limit left behind.
--
-- All numbers are integers below 2^53. redis.call is given numbers, which Redis writes out exactly; `..`
-- and tostring would not.

local call = redis.call
local floor, ceil = math.floor, math.ceil
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local cost, lease = tonumber(ARGV[1]), ARGV[2]

-- size[n]: how many values the group of algorithm n has. define[n](), called if a limit needs it, sets for
-- it:
--   look[n](key, p)      reads; p is where the group starts in ARGV. Returns a state: [1] units left, [2]
--   the limit take[n](s, key, p)   records `cost` units, in the state as well
--   keep[n](s, key, p)   renews the expiry of what is there
--   show[n](s, lacking)  in µs: reset, time until one more unit, and time until `lacking` units pass, if it
--   is not nil
local size, define, look, take, keep, show = {}, {}, {}, {}, {}, {}

-- floor(a * b / c) and what remains, exactly: a, b and the quotient below 2^53, c below 2^45.
local function muldiv(a, b, c)
    local product = a * b
    if product < 9007199254740992 then
        local rest = product % c
        return (product - rest) / c, rest
    end
    local a_rest, rest, sum, unit = a % c, 0, 0, 562949953421312
    local quotient = (a - a_rest) / c * b
    -- Seven bits of b at a time, from the top.
    while unit >= 1 do
        local digit = floor(b / unit)
        b = b - digit * unit
        local part = rest * 128 + a_rest * digit
        rest = part % c
        sum = sum * 128 + (part - rest) / c
        unit = unit / 128
    end
    return quotient + sum, rest
end

-- Refill, for token bucket and GCRA. What is owed is used * us - part, in units of 1/us: whole units, less
-- the part (0 <= part < us) of the next one that is back already.

-- What is owed now, when exactly `used` units were at the time at + frac / count. A time that is still to
-- come makes it more; the caller holds it to the limit.
local function refill(used, at, frac, count, us)
    local elapsed = now - at
    local units, gained
    local estimate = elapsed / us * count
    if estimate > 9000001000000000 then
        return 0, 0
    elseif estimate < -9000001000000000 then
        return 9000000000000001, 0
    elseif elapsed >= 0 then
        units, gained = muldiv(elapsed, count, us)
    else
        units, gained = muldiv(-elapsed, count, us)
        units, gained = -units, -gained
    end
    gained = gained - frac
    used = used - units - floor(gained / us)
    if used <= 0 then
        return 0, 0
    end
    return used, gained % us
end

-- Until `units` more are back.
local function refill_wait(units, part, count, us)
    if count == 1 then
        return units * us - part
    end
    local whole, rest = muldiv(units, us, count)
    return whole + ceil((rest - part) / count)
end

-- State of token bucket and GCRA: 1 left, 2 limit, 3 used, 4 part, 5 count, 6 us, 7 must be written anew, 8
-- what was stored, 9 units that settlements have given back since it was last full, 10 when it was used
-- again, after it had been full in spite of them, 11 these two have changed. In debt, which only a settlement
-- makes, more is used than the limit.
local function refill_show(s, lacking)
    local used, part, count, us = s[3], s[4], s[5], s[6]
    if used == 0 then
        return 0, 0, 0
    end
    local over = used - s[2]
    return refill_wait(used, part, count, us), refill_wait(over > 0 and over + 1 or 1, part, count, us),
        lacking and refill_wait(lacking + over, part, count, us) or 0
end

-- Stored as "given/since", if there was ever any.
local function refill_given(stored)
    local given, since = string.match(stored, '^(%d+)/(%d+)$')
    return tonumber(given), tonumber(since)
end

-- Before anything is added to what is used. If that is nothing, the bucket is full, and decisions of before
-- have nothing to give back any more.
local function refill_begin(s)
    if s[3] == 0 and s[9] > 0 then
        s[9], s[10], s[11] = 0, now, true
    end
end

-- A debt matters until it is paid.
local function refill_ttl(s, ttl)
    return s[3] > s[2] and ceil(refill_wait(s[3], s[4], s[5], s[6]) / 1000) + ttl or ttl
end

-- Sorted sets, for log and leases. A member is out when its score is `span` ago (log: the window; leases,
-- whose score is their expiry: 0). No score may be greater than `top`: one that is was written by a clock
-- that was ahead, or for a longer lease, and counts as `top`.
-- State: 1 left, 2 limit, 3 used, 4 span, 5 top, 6 members that are out, 7 reset, 8 more, 9 the key, 10
-- some are above top.

-- When the member at `rank` is out, in µs from now.
local function zset_wait(s, rank)
    local score = tonumber(call('ZRANGE', s[9], rank, rank, 'WITHSCORES')[2])
    if score > s[5] then
        s[10] = true
        score = s[5]
    end
    return score + s[4] - now
end

local function zset_look(key, limit, span, top)
    local s = {limit, limit, 0, span, top, call('ZCARD', key), 0, 0, key, false}
    if s[6] == 0 then
        return s
    end
    local used = call('ZCOUNT', key, now - span + 1, '+inf')
    s[3], s[6] = used, s[6] - used
    s[1] = used < limit and limit - used or 0
    if used > 0 then
        s[7] = zset_wait(s, -1)
        s[8] = used == 1 and s[7] or zset_wait(s, s[6] + (used > limit and used - limit or 0))
    end
    return s
end

-- What is out goes, and scores above `top` become `top`.
local function zset_clean(s, key)
    if s[6] > 0 then
        call('ZREMRANGEBYSCORE', key, '-inf', now - s[4])
    end
    if s[10] then
        for _, member in ipairs(call('ZRANGEBYSCORE', key, s[5] + 1, '+inf')) do
            call('ZADD', key, s[5], member)
        end
    end
end

-- After `units` members were added at `top`.
local function zset_added(s, units)
    if s[3] == 0 then
        s[8] = s[5] + s[4] - now
    end
    s[1], s[3], s[7] = s[1] - units, s[3] + units, s[5] + s[4] - now
end

local function zset_keep(s, key, ttl)
    if s[10] then
        s[6] = 0
        zset_clean(s, key)
    end
    if s[3] > 0 then
        call('PEXPIRE', key, ttl)
    end
end

local function zset_show(s, lacking)
    local wait = 0
    if lacking then
        -- The member whose leaving makes room; the first one that matters is known already.
        local rank = s[3] - s[2] + lacking - 1
        wait = rank == (s[3] > s[2] and s[3] - s[2] or 0) and s[8] or zset_wait(s, s[6] + rank)
    end
    return s[7], s[8], wait
end
