
-- Fixed window. STRING: the count. The window that it counts is part of the key.

size[3] = 5

define[3] = function()
    local function expire(s, key, p)
        call('PEXPIRE', key, ceil(s[4] / 1000) + tonumber(ARGV[p + 4]))
    end

    -- State: 1 left, 2 limit, 3 used, 4 µs to the end of the window.
    look[3] = function(key, p)
        local limit, window = tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2])
        local used = tonumber(call('GET', key) or 0)
        return {used < limit and limit - used or 0, limit, used, window - now % window}
    end

    take[3] = function(s, key, p)
        s[1], s[3] = s[1] - cost, s[3] + cost
        call('INCRBY', key, ARGV[1])
        expire(s, key, p)
    end

    keep[3] = function(s, key, p)
        if s[3] > 0 then
            expire(s, key, p)
        end
    end

    show[3] = function(s, lacking)
        if s[3] == 0 then
            return 0, 0, 0
        end
        return s[4], s[4], lacking and s[4] or 0
    end
end
