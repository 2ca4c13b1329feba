
-- Sliding log. ZSET: each unit of the last window, by its time in µs. A unit is out when it is one window
-- old.

size[5] = 4

define[5] = function()
    look[5] = function(key, p)
        return zset_look(key, tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), now)
    end

    -- Two units in one instant are two members.
    local function add(key)
        local args = {}
        for k = 1, cost do
            args[#args + 1] = now
            args[#args + 1] = k == 1 and lease or lease .. ':' .. k
            if #args == 200 or k == cost then
                call('ZADD', key, unpack(args))
                args = {}
            end
        end
    end

    take[5] = function(s, key, p)
        zset_clean(s, key)
        add(key)
        call('PEXPIRE', key, ARGV[p + 3])
        zset_added(s, cost)
    end

    keep[5] = function(s, key, p)
        zset_keep(s, key, ARGV[p + 3])
    end

    show[5] = zset_show
end
