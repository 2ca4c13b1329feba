-- run.lua SCRIPT...: joins the script's files, runs them under plain Lua 5.1 against a small stand-in for
-- Redis, and compares each answer with the one that `stream` (standard input) gives.

local db, expiry, now_us = {}, {}, 0

-- As Redis writes a number that a script hands to a command.
local function text(v)
    return type(v) == 'number' and string.format('%.17g', v) or v
end

local function has_expired(key)
    return expiry[key] and expiry[key] <= now_us
end

local function get(key, kind)
    if has_expired(key) then
        db[key], expiry[key] = nil, nil
    end
    local value = db[key]
    if value then
        assert(value.kind == kind, 'WRONGTYPE ' .. key)
    end
    return value
end

local function make(key, kind)
    local value = get(key, kind)
    if not value then
        value = {kind = kind, at = {}}
        db[key] = value
    end
    return value
end

local function drop_if_empty(key)
    if next(db[key].at) == nil then
        db[key], expiry[key] = nil, nil
    end
end

-- Members of a sorted set, in order.
local function sorted(value)
    local list = {}
    for member, score in pairs(value and value.at or {}) do
        list[#list + 1] = {member, score}
    end
    table.sort(list, function(a, b)
        if a[2] ~= b[2] then
            return a[2] < b[2]
        end
        return a[1] < b[1]
    end)
    return list
end

local function bound(v)
    local number = string.gsub(v, '^%(', '')
    return v == '-inf' and -math.huge or v == '+inf' and math.huge or assert(tonumber(number), v)
end

local function is_open(v)
    return string.sub(v, 1, 1) == '('
end

local function in_range(value, low, high)
    local list = {}
    for _, e in ipairs(sorted(value)) do
        local below = e[2] < bound(high) or e[2] == bound(high) and not is_open(high)
        if e[2] >= bound(low) and below then
            list[#list + 1] = e
        end
    end
    return list
end

local commands = {}

function commands.TIME()
    return {string.format('%d', math.floor(now_us / 1000000)), string.format('%d', now_us % 1000000)}
end

function commands.GET(key)
    local value = get(key, 'string')
    return value and value.at.value or false
end

function commands.SET(key, v, px, ms)
    assert(px == 'PX')
    db[key] = {kind = 'string', at = {value = v}}
    expiry[key] = now_us + assert(tonumber(ms)) * 1000
end

function commands.INCRBY(key, by)
    local value = make(key, 'string')
    assert(string.match(by, '^%d+$'), by)
    value.at.value = string.format('%.0f', tonumber(value.at.value or 0) + tonumber(by))
    return tonumber(value.at.value)
end

function commands.DECRBY(key, by)
    local value = make(key, 'string')
    assert(string.match(by, '^%d+$') and tonumber(by) <= tonumber(value.at.value), by)
    value.at.value = string.format('%.0f', tonumber(value.at.value) - tonumber(by))
    return tonumber(value.at.value)
end

function commands.PEXPIRE(key, ms)
    assert(string.match(ms, '^%d+$') and tonumber(ms) > 0, ms)
    if db[key] and not has_expired(key) then
        expiry[key] = now_us + tonumber(ms) * 1000
        return 1
    end
    return 0
end

function commands.HMGET(key, ...)
    local value, list = get(key, 'hash'), {}
    for i, field in ipairs({...}) do
        list[i] = value and value.at[field] or false
    end
    return list
end

function commands.HGET(key, field)
    local value = get(key, 'hash')
    return value and value.at[field] or false
end

function commands.HINCRBY(key, field, by)
    local value = make(key, 'hash')
    assert(string.match(by, '^-?%d+$'), by)
    value.at[field] = string.format('%.0f', tonumber(value.at[field] or 0) + tonumber(by))
end

function commands.HGETALL(key)
    local value, list = get(key, 'hash'), {}
    for field, v in pairs(value and value.at or {}) do
        list[#list + 1] = field
        list[#list + 1] = v
    end
    return list
end

function commands.HSET(key, ...)
    local value, args = make(key, 'hash'), {...}
    assert(#args > 0 and #args % 2 == 0)
    for i = 1, #args, 2 do
        assert(not string.find(args[i + 1], '[.e]'), args[i + 1])
        value.at[args[i]] = args[i + 1]
    end
end

function commands.HDEL(key, ...)
    local value = get(key, 'hash')
    for _, field in ipairs({...}) do
        value.at[field] = nil
    end
    drop_if_empty(key)
end

function commands.ZADD(key, ...)
    local value, args, added = make(key, 'zset'), {...}, 0
    for i = 1, #args, 2 do
        added = added + (value.at[args[i + 1]] and 0 or 1)
        value.at[args[i + 1]] = assert(tonumber(args[i]))
    end
    return added
end

function commands.ZREM(key, ...)
    local value = get(key, 'zset')
    if value then
        for _, member in ipairs({...}) do
            value.at[member] = nil
        end
        drop_if_empty(key)
    end
end

function commands.ZCARD(key)
    return #sorted(get(key, 'zset'))
end

function commands.ZCOUNT(key, low, high)
    return #in_range(get(key, 'zset'), low, high)
end

function commands.ZRANGE(key, from, to, with)
    local list, all = {}, sorted(get(key, 'zset'))
    assert(from == to and with == 'WITHSCORES')
    local e = all[tonumber(from) < 0 and #all or tonumber(from) + 1]
    if e then
        list = {e[1], string.format('%.17g', e[2])}
    end
    return list
end

function commands.ZRANGEBYSCORE(key, low, high)
    local list = {}
    for i, e in ipairs(in_range(get(key, 'zset'), low, high)) do
        list[i] = e[1]
    end
    return list
end

function commands.ZREMRANGEBYSCORE(key, low, high)
    local value = get(key, 'zset')
    for _, e in ipairs(in_range(value, low, high)) do
        value.at[e[1]] = nil
    end
    if value then
        drop_if_empty(key)
    end
end

-- What the script did in one run: how often it asked the time, and whether it wrote.
local times, writes
local reads = {TIME = true, GET = true, HGET = true, HMGET = true, HGETALL = true, ZCARD = true,
               ZCOUNT = true, ZRANGE = true, ZRANGEBYSCORE = true}

redis = {}

function redis.call(name, ...)
    local args = {...}
    for i = 1, #args do
        args[i] = text(args[i])
    end
    if name == 'TIME' then
        times = times + 1
    elseif not reads[name] then
        writes = writes + 1
    end
    return assert(commands[name], name)(unpack(args))
end

local function read_all(paths)
    local parts = {}
    for i, path in ipairs(paths) do
        local file = assert(io.open(path))
        parts[i] = file:read('*a')
        file:close()
    end
    return table.concat(parts)
end

-- As Redis turns what a script returns into integers: fractions are cut.
local function reply_text(reply)
    local list = {}
    for i, v in ipairs(reply) do
        list[i] = string.format('%.0f', v < 0 and math.ceil(v) or math.floor(v))
    end
    return table.concat(list, ' ')
end

local forget = true
local paths = {}
for _, a in ipairs(arg) do
    if a == '--expire' then
        forget = false
    else
        paths[#paths + 1] = a
    end
end
local script = assert(loadstring(read_all(paths), '=script'))
local trace, checks, failures = '', 0, 0

local function complain(line, what)
    failures = failures + 1
    if failures <= 10 then
        print(string.format('%s: %s\n  %s', trace, what, line))
    end
end

local function check(line)
    local words = {}
    local asked, expected = string.match(line, '^(.-) = (.*)$')
    for word in string.gmatch(asked, '%S+') do
        words[#words + 1] = word
    end
    local nkeys = tonumber(words[3])
    KEYS, ARGV = {}, {}
    for i = 4, #words do
        if i < 4 + nkeys then
            KEYS[#KEYS + 1] = words[i]
        else
            ARGV[#ARGV + 1] = words[i]
        end
    end
    now_us, times, writes = tonumber(words[2]), 0, 0
    local got = reply_text(script())
    checks = checks + 1
    if got ~= expected then
        complain(line, 'the script answers ' .. got)
    end
    if times ~= 1 then
        complain(line, 'TIME was called ' .. times .. ' times')
    end
    if ARGV[1] == '0' and writes > 0 then
        complain(line, 'a peek wrote')
    end
    for key in pairs(db) do
        if not expiry[key] then
            complain(line, 'no expiry: ' .. key)
        end
        if forget then
            expiry[key] = math.huge
        end
    end
end

for line in io.lines() do
    if string.find(line, '^new ') then
        trace, db, expiry = string.sub(line, 5), {}, {}
    elseif string.find(line, '^zrem ') then
        redis.call('ZREM', string.match(line, '^zrem (%S+) (%S+)$'))
    else
        check(line)
    end
end
print(string.format('%d decisions, %d differ', checks, failures))
os.exit(failures == 0 and checks > 0 and 0 or 1)
