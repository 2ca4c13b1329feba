-- What a gateway without a limiter of its own does: N token buckets in one script, floats, milliseconds.
-- KEYS: the buckets. ARGV: for each its tokens per millisecond and its capacity; then the cost.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local cost = tonumber(ARGV[2 * #KEYS + 1])
local tokens, allowed, wait_ms = {}, 1, 0
for i = 1, #KEYS do
    local rate, capacity = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
    local state = redis.call('HMGET', KEYS[i], 'tokens', 'at')
    local have = capacity
    if state[1] then
        have = math.min(capacity, tonumber(state[1]) + (now_ms - tonumber(state[2])) * rate)
    end
    if have < cost then
        allowed = 0
        wait_ms = math.max(wait_ms, math.ceil((cost - have) / rate))
    end
    tokens[i] = have
end
local reply = { allowed, wait_ms }
for i = 1, #KEYS do
    if allowed == 1 then
        local rate, capacity = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
        tokens[i] = tokens[i] - cost
        redis.call('HSET', KEYS[i], 'tokens', tokens[i], 'at', now_ms)
        redis.call('PEXPIRE', KEYS[i], math.ceil(capacity / rate) + 1000)
    end
    reply[i + 2] = math.floor(tokens[i])
end
return reply
