"""slotgate capacity: what it foretells is what a real Redis then holds."""
import json
import os
import subprocess
import time

import pytest

from harness.gateway import PROGRAM
from harness.redis import Client

IDENTITIES = 100000          # the figures of docs/operations.md

LIMITS = {
    "burst": "algorithm: token_bucket, capacity: 10, refill: 1/h, per: key",
    "odd": "algorithm: token_bucket, capacity: 10, refill: 7/d, per: key",
    "smooth": "algorithm: gcra, burst: 10, rate: 1/h, per: ip",
    "month": "algorithm: fixed_window, limit: 10, window: 366d, per: tenant",
    "hour": "algorithm: sliding_window, limit: 10, window: 1h, per: key",
    "exact": "algorithm: sliding_log, limit: 10, window: 1h, per: key",
}

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 2, trusted_proxies: ["127.0.0.1"]}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: off}}
store: {{type: redis, url: "unix://{path}", timeout: 5s}}
classes:
  c:
{limits}
routes: [{{name: all, match: {{path: /*}}, auth: optional, cost: {cost}, classes: [c], respond: {{status: 200}}}}]
"""


def config(path, limits, cost=1):
    return CONFIG.format(path=path, cost=cost, limits="".join("    - {name: %s, %s}\n" % e for e in limits.items()))


def capacity(path, *args):
    done = subprocess.run([PROGRAM, "capacity", "-c", path, *args, "--json"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def used_memory(redis):
    # Buffers of clients that have just gone are not counters.
    time.sleep(0.2)
    return int(redis("INFO", "memory").split("\nused_memory:")[1].split("\r")[0])


def visit(gateway, count):
    """One request from each of so many addresses."""
    with gateway.connect(timeout=120) as c:
        for start in range(0, count, 200):
            n = min(200, count - start)
            c.send("".join("GET /x HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.%d.%d.%d\r\n\r\n" % (i >> 16, i >> 8 & 255, i & 255)
                           for i in range(start, start + n)))
            for _ in range(n):
                assert c.answer().status == 200


def near(foretold, real):
    return abs(foretold - real) <= 0.15 * real


def test_many_identities(gateway, redis, record_property):
    g = gateway(config(redis.path, LIMITS))
    visit(g, 10)                    # the script, connections
    redis("FLUSHDB")
    before = used_memory(redis)
    visit(g, IDENTITIES)
    keys, real = redis("DBSIZE"), used_memory(redis) - before
    told = capacity(g.config_path, "--identities", str(IDENTITIES), "--active", "100", "--used", "10")
    record_property("real_bytes", real)
    record_property("foretold_bytes", told["bytes"])
    print("%d keys, %d bytes; foretold %d, %d" % (keys, real, told["keys"], told["bytes"]))
    assert told["keys"] == keys == IDENTITIES * len(LIMITS)
    assert near(told["bytes"], real), (told["bytes"], real)
    # Each for itself: no error hides behind another one.
    for limit in told["limits"]:
        name = [k for k in redis("SCAN", 0, "MATCH", "*:%s*" % limit["limit"], "COUNT", 1000)[1]][0]
        own = redis("MEMORY", "USAGE", name)
        # Besides: the entry of its expiry.
        assert near(limit["bytes_each"], own + 32), (limit, own)


def direct(redis, folder, rule, count, used, write):
    """Keys as the script leaves them, of one limit."""
    path = os.path.join(folder, "capacity.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(config(redis.path, {"l": rule}))
    client = Client(redis.path)
    client("FLUSHDB")
    before = used_memory(redis)
    for i in range(count):
        for command in write("%022d" % i):
            client.send(*command)
            client.read()
    real = used_memory(redis) - before
    client.close()
    told = capacity(path, "--identities", str(count), "--used", str(used))
    assert told["keys"] == count == redis("DBSIZE")
    assert near(told["bytes"], real), (rule, told["bytes"], real)


def members(key, count):
    now = int(time.time() * 1e6)
    args = []
    for k in range(count):
        args += [now + k, "%032x" % k]
    return [("ZADD", key, *args), ("PEXPIRE", key, 600000)]


@pytest.mark.parametrize("entries", [20, 128, 129, 600])
def test_logs_and_slots_by_their_length(redis, folder, entries):
    """Up to 128 members a sorted set is compact."""
    count = 1000 if entries < 200 else 300
    direct(redis, folder, "algorithm: sliding_log, limit: %d, window: 1h, per: key" % entries, count, 100,
           lambda t: members("rl:sl:v1:{%s}:i.%s:c.l:3600" % (t, t), entries))
    direct(redis, folder, "algorithm: concurrency, limit: %d, lease: 1h, per: tenant" % (2 * entries), count, 50,
           lambda t: members("rl:cc:v1:{%s}:c.l" % t, entries))


@pytest.mark.parametrize("precision,fields", [(10, 11), (100, 101), (100, 5)])
def test_sliding_windows_by_their_precision(redis, folder, precision, fields):
    width = 3600000000 // precision
    index = int(time.time() * 1e6) // width
    # Full; or as many units as fields.
    limit, used, each = (1000, 100, 1000 // fields) if fields > precision else (fields * 100, 1, 1)

    def write(t):
        key, args = "rl:sw:v1:{%s}:k.%s:c.l:3600" % (t, t), []
        for k in range(fields):
            args += [index - k, each]
        return [("HSET", key, *args, "w", width), ("PEXPIRE", key, 600000)]
    direct(redis, folder, "algorithm: sliding_window, limit: %d, window: 1h, precision: %d, per: key" % (limit, precision), 2000, used,
           write)


def test_scopes_and_shares(folder):
    path = os.path.join(folder, "scopes.yaml")
    limits = {"t": "algorithm: gcra, burst: 9, rate: 1/h, per: tenant", "k": "algorithm: gcra, burst: 9, rate: 1/h, per: key",
              "i": "algorithm: gcra, burst: 9, rate: 1/h, per: ip", "zero": "algorithm: gcra, burst: 0, rate: 1/h, per: key"}
    text = config("/nowhere", limits) + "  # \n"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("classes:\n", "classes:\n  unused: [{name: u, algorithm: fixed_window, limit: 1, window: 1h, per: key}]\n"))

    def keys(*args):
        told = capacity(path, *args)
        assert told["keys"] == sum(e["keys"] for e in told["limits"])
        return {e["limit"]: e["keys"] for e in told["limits"]}
    assert keys("--identities", "1000") == {"unused.u": 0, "c.t": 1000, "c.k": 1000, "c.i": 1000, "c.zero": 0}
    assert keys("--identities", "1000", "--tenants", "30", "--active", "10") == \
        {"unused.u": 0, "c.t": 3, "c.k": 100, "c.i": 100, "c.zero": 0}
    assert keys("--identities", "7", "--tenants", "30", "--active", "0.5")["c.t"] == 1
    done = subprocess.run([PROGRAM, "capacity", "-c", path, "--identities", "1000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("total ")


@pytest.mark.parametrize("args,text", [
    ([], "usage"), (["--identities", "0"], "--identities: expected a number from 1"), (["--identities", "many"], "--identities"),
    (["--identities", "5", "--active", "0"], "--active: expected a number above 0"), (["--identities", "5", "--active", "101"], "--active"),
    (["--identities", "5", "--active", "5%"], "--active"), (["--identities", "5", "--used", "nan"], "--used"),
    (["--identities", "5", "--tenants", "-1"], "--tenants"), (["--identities", "5", "more"], "usage")])
def test_usage(folder, args, text):
    done = subprocess.run([PROGRAM, "capacity", "-c", os.path.join(folder, "x.yaml"), *args], capture_output=True, text=True, check=False)
    assert done.returncode == 64 and text in done.stderr and "usage: slotgate capacity" in done.stderr and done.stdout == ""
    done = subprocess.run([PROGRAM, "capacity", "-c", os.path.join(folder, "x.yaml"), "--identities", "5"], capture_output=True,
                          check=False)
    assert done.returncode == 78
