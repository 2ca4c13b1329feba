
-- Concurrency. ZSET: the lease of each request in flight, by its expiry in µs. One slot, whatever the cost.

size[6] = 4

define[6] = function()
    look[6] = function(key, p)
        return zset_look(key, tonumber(ARGV[p + 1]), 0, now + tonumber(ARGV[p + 2]))
    end

    take[6] = function(s, key, p)
        zset_clean(s, key)
        call('ZADD', key, s[5], lease)
        call('PEXPIRE', key, ARGV[p + 3])
        zset_added(s, 1)
    end

    keep[6] = function(s, key, p)
        zset_keep(s, key, ARGV[p + 3])
    end

    show[6] = zset_show
end
