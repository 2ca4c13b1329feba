
-- The decision.

local count = #KEYS
local algo, enforced, place = {}, {}, {}
local p = 3
for i = 1, count do
    local number = tonumber(ARGV[p])
    enforced[i] = number > 0
    algo[i] = number > 0 and number or -number
    place[i] = p
    if algo[i] == 3 and floor(now / tonumber(ARGV[p + 2])) ~= tonumber(ARGV[p + 3]) then
        return {floor(now / 1000), 2}
    end
    p = p + size[algo[i]]
end

local allowed = 1
for i = 1, count do
    -- Limit 0 has no arithmetic, and leaves alone what is there.
    if ARGV[place[i] + 1] == '0' then
        decide(i, 0, cost, 0)
    else
        look[algo[i]](i, KEYS[i], place[i])
    end
    if enforced[i] and flags[i] ~= 1 then
        allowed = 0
    end
end

if cost > 0 then
    for i = 1, count do
        if allowed == 1 and flags[i] == 1 then
            take[algo[i]](i, KEYS[i], place[i])
            flags[i] = 1
        elseif ARGV[place[i] + 1] ~= '0' then
            keep[algo[i]](i, KEYS[i], place[i])
        end
    end
end

local reply = {floor(now / 1000), allowed}
for i = 1, count do
    local n = #reply
    reply[n + 1] = flags[i]
    reply[n + 2] = remaining[i]
    reply[n + 3] = ceil(reset[i] / 1000)
    reply[n + 4] = ceil(retry[i] / 1000)
    reply[n + 5] = ceil(more[i] / 1000)
end
return reply
