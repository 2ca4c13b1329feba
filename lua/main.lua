
-- The decision.

local count = #KEYS
local algo, place, states, flags = {}, {}, {}, {}
local p = 3
for i = 1, count do
    local n = tonumber(ARGV[p])
    n = n < 0 and -n or n
    algo[i], place[i] = n, p
    if n == 3 and floor(now / tonumber(ARGV[p + 2])) ~= tonumber(ARGV[p + 3]) then
        return {now, 2}
    end
    p = p + size[n]
end

-- One slot of a concurrency limit, whatever the cost.
local function units_of(n)
    return n == 6 and cost > 1 and 1 or cost
end

local allowed = 1
for i = 1, count do
    local n, units, flag = algo[i], units_of(algo[i]), 2
    -- Limit 0 has no arithmetic, and leaves alone what is there.
    if ARGV[place[i] + 1] ~= '0' then
        if not look[n] then
            define[n]()
        end
        local s = look[n](KEYS[i], place[i])
        states[i] = s
        flag = units > s[2] and 2 or units <= s[1] and 1 or 0
    end
    flags[i] = flag
    -- A dry run never denies.
    if flag ~= 1 and tonumber(ARGV[place[i]]) > 0 then
        allowed = 0
    end
end

local reply = {now, allowed}
for i = 1, count do
    local n, s, flag, at = algo[i], states[i], flags[i], 5 * i - 2
    local left, reset, retry, more = 0, 0, 0, 0
    if s then
        if cost > 0 then
            if allowed == 1 and flag == 1 then
                take[n](s, KEYS[i], place[i])
            else
                keep[n](s, KEYS[i], place[i])
            end
        end
        left = s[1]
        reset, more, retry = show[n](s, flag == 0 and units_of(n) or nil)
        retry = ceil(retry / 1000)
        if flag == 1 and n < 3 and s[3] > 0 then
            retry = s[9]
        end
    end
    reply[at], reply[at + 1], reply[at + 2] = flag, left, ceil(reset / 1000)
    reply[at + 3], reply[at + 4] = retry, ceil(more / 1000)
end
return reply
