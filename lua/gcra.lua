
-- GCRA. STRING: the theoretical arrival time in µs, /r for r/count of the next µs, @ and the rate that it was
-- written under: 1780000000000000/3@7/3600000000. In debt, ! and the units that were owed
-- when it was written. Behind < what settlements have given back (refill_given).

size[2] = 6

define[2] = function()
    -- The time when what is owed is back.
    local function save(s, key, p)
        local used, part, count, us, rule, ttl = s[3], s[4], s[5], s[6], ARGV[p + 4], ARGV[p + 5]
        if used > s[2] then
            rule, ttl = string.format('%s!%.0f', rule, used), refill_ttl(s, ttl)
        end
        if s[9] > 0 or s[10] > 0 then
            rule = string.format('%s<%.0f/%.0f', rule, s[9], s[10])
        end
        if count == 1 then
            call('SET', key, string.format('%.0f@%s', now + used * us - part, rule), 'PX', ttl)
            return
        end
        local whole, rest = muldiv(used, us, count)
        rest = rest - part
        whole = now + whole + floor(rest / count)
        rest = rest % count
        if rest == 0 then
            call('SET', key, string.format('%.0f@%s', whole, rule), 'PX', ttl)
        else
            call('SET', key, string.format('%.0f/%.0f@%s', whole, rest, rule), 'PX', ttl)
        end
    end

    look[2] = function(key, p)
        local limit, count, us = tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
        local stored = call('GET', key)
        if not stored then
            return {limit, limit, 0, 0, count, us, false, false, 0, 0}
        end
        local at, frac, old_count, old_us, debt, back =
            string.match(stored, '^(%d+)/?(%d*)@(%d+)/(%d+)!?(%d*)<?(.*)$')
        old_count, old_us, debt = tonumber(old_count), tonumber(old_us), tonumber(debt)
        local dirty = old_count ~= count or old_us ~= us
        local used, part = refill(0, tonumber(at), tonumber(frac) or 0, old_count, old_us)
        local most = debt and debt > limit and debt or limit
        if used > most then
            used, part, dirty = most, 0, true
        end
        if used > limit and used / count * us > 4000000000000000 then
            used, part = limit, 0
        elseif old_us ~= us then
            part = muldiv(part, us, old_us)
        end
        local given, since = 0, 0
        if back ~= '' then
            given, since = refill_given(back)
        end
        return {used < limit and limit - used or 0, limit, used, part, count, us, dirty, stored, given, since}
    end

    take[2] = function(s, key, p)
        if cost > 0 then
            refill_begin(s)
        end
        s[1], s[3] = s[1] - cost, s[3] + cost
        save(s, key, p)
    end

    keep[2] = function(s, key, p)
        if s[7] then
            save(s, key, p)
        elseif s[8] then
            call('PEXPIRE', key, refill_ttl(s, ARGV[p + 5]))
        end
    end

    show[2] = refill_show
end
