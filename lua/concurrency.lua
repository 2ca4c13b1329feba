
-- Concurrency. ZSET: the lease of each request in flight, by its expiry in µs. One slot, whatever the cost.

size[6] = 4

look[6] = function(i, key, p)
    zset_look(i, key, tonumber(ARGV[p + 1]), cost > 0 and 1 or 0, 0, now + tonumber(ARGV[p + 2]))
end

take[6] = function(i, key, p)
    local span, state = tonumber(ARGV[p + 2]), found[i]
    if state and state[1] then
        zset_lower(key, now + span)
    end
    call('ZREMRANGEBYSCORE', key, '-inf', now)
    if call('ZADD', key, now + span, lease) == 1 then
        if remaining[i] == tonumber(ARGV[p + 1]) then
            more[i] = span
        end
        remaining[i] = remaining[i] - 1
    end
    reset[i] = span
    call('PEXPIRE', key, ARGV[p + 3])
end

keep[6] = function(i, key, p)
    zset_keep(i, key, now + tonumber(ARGV[p + 2]), ARGV[p + 3])
end
