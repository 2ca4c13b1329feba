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
-- reply  time in ms, then 2: the bucket of a fixed window is not that of this time, and nothing was written;
--        or 1 (allowed) or 0 (denied), and for each limit: allowed (1; 0; 2: no waiting helps), remaining,
--        and in ms, rounded up: reset, retry-after, time until one more unit.
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

-- Of limit i, as long as the request lasts.
local flags, remaining, reset, retry, more = {}, {}, {}, {}, {}
-- What `look` found, for `take` and `keep`.
local found = {}

-- For each number of an algorithm: look(i, key, p) decides, take(i, key, p) records, keep(i, key, p)
-- renews; its group of ARGV starts at p. size is how many values the group has.
local look, take, keep, size = {}, {}, {}, {}

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

-- May `units` pass when `left` of `limit` are left?
local function decide(i, limit, units, left)
    remaining[i], reset[i], retry[i], more[i] = left, 0, 0, 0
    if limit == 0 or units > limit then
        flags[i] = 2
    elseif units <= left then
        flags[i] = 1
    else
        flags[i] = 0
    end
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

local function refill_result(i, limit, units, used, part, count, us)
    local left = limit - used
    decide(i, limit, units, left)
    if used > 0 then
        reset[i] = refill_wait(used, part, count, us)
        more[i] = refill_wait(1, part, count, us)
        if flags[i] == 0 then
            retry[i] = refill_wait(units - left, part, count, us)
        end
    end
end

-- Sorted sets, for log and leases. A member is out when its score is `span` ago (log: the window; leases,
-- whose score is their expiry: 0). No score may be greater than `top`: one that is was written by a clock
-- that was ahead, or for a longer lease, and counts as `top`.

-- When the member at `rank` is out.
local function zset_wait(key, rank, span, top)
    local score = tonumber(call('ZRANGE', key, rank, rank, 'WITHSCORES')[2])
    return (score < top and score or top) + span - now
end

local function zset_look(i, key, limit, units, span, top)
    local used = call('ZCOUNT', key, now - span + 1, '+inf')
    local over = used - limit
    decide(i, limit, units, over < 0 and -over or 0)
    if used == 0 then
        return
    end
    local newest = tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
    local out = call('ZCARD', key) - used
    found[i] = {newest > top, out}
    reset[i] = (newest < top and newest or top) + span - now
    more[i] = zset_wait(key, out + (over > 0 and over or 0), span, top)
    if flags[i] == 0 then
        retry[i] = zset_wait(key, out + over + units - 1, span, top)
    end
end

-- Scores above `top` become `top`.
local function zset_lower(key, top)
    for _, member in ipairs(call('ZRANGEBYSCORE', key, top + 1, '+inf')) do
        call('ZADD', key, top, member)
    end
end

local function zset_keep(i, key, top, ttl)
    local state = found[i]
    if state then
        if state[1] then
            zset_lower(key, top)
        end
        call('PEXPIRE', key, ttl)
    end
end
