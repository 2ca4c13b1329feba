-- wrk's side. Arguments behind "--": keys NUMBER (requests of that many API keys), one PATH,
-- or addresses FIRST (in each request the next client address, from that number on).
local requests, kind, count = {}, nil, 0

local function get(path, fields)
    fields["Accept"] = "application/json"
    fields["User-Agent"] = "bench/1.0"
    return wrk.format("GET", path, fields)
end

local function with_keys(number)
    for i = 1, number do
        local key = { ["X-API-Key"] = ("key-%06d"):format(i) }
        requests[i] = get("/api/v1/widgets/" .. i .. "?q=abc%20def", key)
    end
end

function init(args)
    math.randomseed(42)
    kind = args[1]
    if kind == "keys" then
        with_keys(tonumber(args[2]))
    elseif kind == "one" then
        requests[1] = get(args[2], { ["X-API-Key"] = "key-000001" })
    else
        count = tonumber(args[2])
    end
end

function request()
    if kind ~= "addresses" then
        return requests[math.random(#requests)]
    end
    count = count + 1
    local high, middle, low = math.floor(count / 65536) % 256, math.floor(count / 256) % 256, count % 256
    return get("/", { ["X-Forwarded-For"] = ("10.%d.%d.%d"):format(high, middle, low) })
end

-- One line for the program that started wrk.
function done(summary, latency)
    local e = summary.errors
    print(("BENCH %d %d %d %d %d %d"):format(summary.requests, summary.duration, latency:percentile(50),
        latency:percentile(99), e.status, e.connect + e.read + e.write + e.timeout))
end
