
-- Sliding window. HASH: number of the sub-window since the epoch -> count, and w: the width in µs that the
-- numbers are for.

size[4] = 5

define[4] = function()
    -- Of the oldest sub-window's count, the share that is still in the window, `left` µs of its width,
    -- rounded up.
    local function weighted(count, left, width)
        local whole, rest = muldiv(count, left, width)
        return rest > 0 and whole + 1 or whole
    end

    -- State: left and limit, as in all states; counts: [1] is the oldest sub-window, [last] the current
    -- one; width, offset into the current one, current number; inside: the sum of all counts but the
    -- oldest; drop: fields that are not to be kept; moved: counts stand elsewhere than in the hash.
    local function set_left(s)
        local used = s.inside
        if s.counts[1] > 0 then
            used = used + weighted(s.counts[1], s.width - s.offset, s.width)
        end
        s.used = used
        s[1] = used < s[2] and s[2] - used or 0
    end

    -- The longest part of the oldest sub-window that may still be in the window with `room` units, 0 <=
    -- room < count.
    local function longest_part(count, room, width)
        local part = floor(room / count * width)
        while part > 0 and weighted(count, part, width) > room do
            part = part - 1
        end
        while weighted(count, part + 1, width) <= room do
            part = part + 1
        end
        return part
    end

    -- Until no more than `room` units are used, nothing being added; 0 <= room < used.
    local function wait(s, room)
        local inside, k, width, counts = s.inside, 1, s.width, s.counts
        -- Each step makes the next sub-window the oldest.
        while inside > room do
            k = k + 1
            inside = inside - counts[k]
        end
        local oldest, part = counts[k], width
        if room - inside < oldest then
            part = longest_part(oldest, room - inside, width)
        end
        return k * width - part - s.offset
    end

    local function add(s, field, index, count)
        local current, place = s.current, index - s.current + s.last
        -- Written by a clock that was ahead: as if it had happened now.
        if index > current then
            place = s.last
            s.moved = true
        end
        if place < 1 or s.moved then
            s.drop[#s.drop + 1] = field
        end
        if place >= 1 then
            s.counts[place] = s.counts[place] + count
            s.inside = place > 1 and s.inside + count or s.inside
        end
    end

    look[4] = function(key, p)
        local limit, width, precision = tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
        local stored, counts, old_width = call('HGETALL', key), {}, width
        for k = 1, precision + 1 do
            counts[k] = 0
        end
        local s = {limit, limit, counts = counts, width = width, offset = now % width, last = precision + 1,
                   current = floor(now / width), inside = 0, drop = {}, exists = #stored > 0}
        for k = 1, #stored, 2 do
            if stored[k] == 'w' then
                old_width = tonumber(stored[k + 1])
            end
        end
        s.moved = old_width ~= width
        for k = 1, #stored, 2 do
            local field = stored[k]
            if field ~= 'w' then
                local index = tonumber(field)
                -- Another precision: a count moves to where its old sub-window ends, so that nothing leaves
                -- early.
                if old_width ~= width then
                    index = floor(((index + 1) * old_width - 1) / width)
                end
                add(s, field, index, tonumber(stored[k + 1]))
            end
        end
        set_left(s)
        return s
    end

    -- Counts that moved are written anew, one by one.
    local function save(s, key, p)
        if #s.drop > 0 then
            call('HDEL', key, unpack(s.drop))
        end
        if s.moved or not s.exists then
            for k = 1, s.last do
                if s.counts[k] > 0 then
                    call('HSET', key, s.current + k - s.last, s.counts[k])
                end
            end
            call('HSET', key, 'w', ARGV[p + 2])
        else
            call('HSET', key, s.current, s.counts[s.last])
        end
    end

    take[4] = function(s, key, p)
        s.counts[s.last] = s.counts[s.last] + cost
        s.inside = s.inside + cost
        save(s, key, p)
        call('PEXPIRE', key, ARGV[p + 4])
        set_left(s)
    end

    keep[4] = function(s, key, p)
        if s.exists then
            if s.moved then
                save(s, key, p)
            end
            call('PEXPIRE', key, ARGV[p + 4])
        end
    end

    show[4] = function(s, lacking)
        if s.used == 0 then
            return 0, 0, 0
        end
        local newest = s.last
        while newest > 1 and s.counts[newest] == 0 do
            newest = newest - 1
        end
        return newest * s.width - s.offset, wait(s, s[2] - s[1] - 1), lacking and wait(s, s[2] - lacking) or 0
    end
end
