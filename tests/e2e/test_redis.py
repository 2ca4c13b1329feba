"""The gateway and its Redis: names and lives of keys, what goes over the wire, and a Redis that fails in each way it can."""
import base64
import hashlib
import hmac
import json
import os
import re
import signal
import threading

import pytest

from harness.gateway import digest
from harness.redis import Client, Redis, ReplyError
from harness.sockets import free_port
from harness.wait import until

KEY = {"X-API-Key": "k-acme"}
OTHER = {"X-API-Key": "k-other"}

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: {workers}, trusted_proxies: [127.0.0.1]}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
store: {{type: redis, url: "{url}", timeout: {timeout}, {store}}}
identity: {{ {identity} }}
classes:
{classes}
tenants:
  acme: {{keys: [{{id: one, sha256: {acme}}}]}}
  other: {{keys: [{{id: one, sha256: {other}}}]}}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes:
{routes}
"""

DAILY = "  c: [{name: l, algorithm: fixed_window, limit: 100000, window: 366d, per: key}]\n"
ALL = "  - {name: all, match: {path: /*}, auth: optional, classes: [c], upstream: up}\n"


def config(upstream, redis, classes=DAILY, routes=ALL, store="", identity="", timeout="2s", workers=1, url=None):
    return CONFIG.format(workers=workers, url=url or "unix://" + redis.path, timeout=timeout, store=store, classes=classes,
                         identity=identity, routes=routes, upstream=upstream.url, acme=digest("k-acme"), other=digest("k-other"))


def tag(text, secret=None):
    """As product.md says: SHA-256 or HMAC-SHA-256, base64url, 22 characters."""
    raw = hmac.new(secret, text.encode(), hashlib.sha256).digest() if secret else hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(raw).decode()[:22]


ACME, ACME_KEY = tag("tenant:acme"), tag("key:" + digest("k-acme"))
LOOPBACK = tag("ip:127.0.0.1")


def source(gateway, name):
    return gateway.metric("slotgate_limit_decisions_total", source=name)


def errors(gateway, kind):
    return gateway.metric("slotgate_store_errors_total", kind=kind)


def connected(gateway):
    until("the store is connected", lambda: gateway.metric("slotgate_store_up") == 1)
    return gateway


def ask(gateway, n=1, headers=KEY, path="/x"):
    with gateway.connect() as c:
        return [c.request("GET", path, headers).status for _ in range(n)]


def decides_in_redis(gateway):
    """One request, and it is Redis that decides it."""
    before = source(gateway, "store")
    assert ask(gateway) == [200]
    return source(gateway, "store") > before


# --- names and lives of keys ---------------------------------------------------------------------------

EVERY = """  c:
    - {name: tb, algorithm: token_bucket, capacity: 20, refill: 10/m, per: key}
    - {name: gc, algorithm: gcra, burst: 10, rate: 5/m, per: ip}
    - {name: fw, algorithm: fixed_window, limit: 9, window: 1d, per: tenant}
    - {name: sw, algorithm: sliding_window, limit: 30, window: 1m, precision: 10, per: key}
    - {name: sl, algorithm: sliding_log, limit: 30, window: 2m, per: key}
    - {name: ms, algorithm: sliding_log, limit: 30, window: 1500ms, per: tenant}
    - {name: cc, algorithm: concurrency, limit: 8, lease: 5m, per: tenant}
"""


def expected_keys(now_s, prefix="rl", version="v1", who=ACME, key="k." + ACME_KEY, ip=LOOPBACK):
    """Name -> (seconds that the algorithm needs from now on, longest jitter)."""
    def name(code, rest):
        return "%s:%s:%s:{%s}%s" % (prefix, code, version, who, rest)
    day = now_s // 86400
    return {
        name("tb", ":%s:c.tb" % key): (120, 12),
        name("gc", ":i.%s:c.gc" % ip): (120, 12),
        name("fw", ":c.fw:86400:%d" % day): ((day + 1) * 86400 - now_s, 300),
        name("sw", ":%s:c.sw:60" % key): (66, 6),
        name("sl", ":%s:c.sl:120" % key): (120, 12),
        name("sl", ":c.ms:1500ms"): (1.5, 0.15),
        name("cc", ":c.cc"): (300, 30),
    }


class Held:
    """An upstream's path whose requests stay open until `go`."""

    def __init__(self, upstream, path="/hold"):
        self.going = threading.Event()
        self.upstream, self.path = upstream, path
        upstream.on(path, self._handle)

    def _handle(self, request, peer):
        self.going.wait(30)
        peer.answer(200)
        return True

    def start(self, gateway, headers=KEY):
        n = self.upstream.count(self.path)
        c = gateway.connect()
        c.send("GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (self.path, "".join("%s: %s\r\n" % h for h in headers.items())))
        until("the request is at the upstream", lambda: self.upstream.count(self.path) > n)
        return c


def redis_now(redis):
    seconds, micros = redis("TIME")
    return int(seconds) + int(micros) / 1e6


@pytest.mark.parametrize("case", ["plain", "prefix", "secret", "anonymous"])
def test_names_and_expiry_of_keys(gateway, upstream, redis, folder, case):
    secret = b"a pepper" if case == "secret" else None
    if secret:
        with open(os.path.join(folder, "pepper"), "wb") as f:
            f.write(secret + b"\n")
    g = gateway(config(upstream, redis, EVERY, store="key_prefix: gw, key_version: v7" if case == "prefix" else "",
                       identity="secret_file: pepper" if secret else ""))
    held = Held(upstream)

    def names(now):
        ip = tag("ip:127.0.0.1", secret)
        if case == "anonymous":
            return expected_keys(now, who=ip, key="i." + ip, ip=ip)
        if case == "prefix":
            return expected_keys(now, "gw", "v7")
        return expected_keys(now, who=tag("tenant:acme", secret), key="k." + tag("key:" + digest("k-acme"), secret), ip=ip)

    def once():
        redis("FLUSHALL")
        before = redis_now(redis)
        c = held.start(g, {} if case == "anonymous" else KEY)
        expiry = {k: redis("PEXPIRETIME", k) / 1000 for k in redis.keys()}
        after = redis_now(redis)
        c.close()
        want = names(int(after))
        if set(expiry) != set(want):
            return False            # midnight, or the key of 1.5 s is gone on a machine that stalls
        for k, (life, jitter) in want.items():
            assert before + life - 1 <= expiry[k] <= after + life + 1 + jitter + 0.01, (k, expiry[k] - before, life)
            assert len(k) < 120
        return True
    until("all keys as expected: %s %s" % (redis.keys(), names(int(redis_now(redis)))), once)
    held.going.set()


def test_every_path_renews_the_expiry(gateway, upstream, redis):
    """Keys that lost their expiry get one again from the next request, allowed or denied."""
    classes = EVERY.replace("limit: 9", "limit: 2").replace("window: 1500ms", "window: 1h")
    g = gateway(config(upstream, redis, classes, store="deny_cache: false"))

    def persist():
        names = [k for k in redis.keys() if ":cc:" not in k]    # a finished request holds no slot
        assert len(names) == 6
        for k in names:
            redis("PERSIST", k)
        return names
    assert ask(g) == [200]
    for status in (200, 429, 429):
        names = persist()
        assert ask(g) == [status]
        assert all(redis("PTTL", k) > 1000 for k in names), {k: redis("PTTL", k) for k in names}
    assert all(redis("PTTL", k) > 0 for k in redis.keys())


def test_no_key_without_expiry_after_a_mix(gateway, upstream, redis):
    classes = EVERY.replace("limit: 9", "limit: 5") + "  d: [{name: n, algorithm: token_bucket, capacity: 3, refill: 1/h, per: key}]\n"
    routes = """  - {name: a, match: {path: /a}, auth: optional, classes: [c, d], cost: 2, upstream: up}
  - {name: b, match: {path: /b}, auth: optional, classes: [c], upstream: up}
  - {name: p, match: {path: /p}, auth: optional, classes: [c], cost: 0, upstream: up}
"""
    g = gateway(config(upstream, redis, classes, routes))
    for headers in (KEY, OTHER, {}, {"X-API-Key": "bad"}, {"X-Forwarded-For": "2001:db8::1"}):
        for path in ("/a", "/b", "/p", "/a", "/b", "/b", "/b", "/b"):
            assert g.get(path, headers).status in (200, 401, 429)
    assert len(redis.keys()) > 20
    assert all(redis("PTTL", k) > 0 for k in redis.keys())


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def test_all_keys_of_a_request_lie_in_one_slot(gateway, upstream, redis, folder):
    cluster = Redis(folder, name="cluster", options=["--cluster-enabled", "yes", "--cluster-port", str(free_port())]).start()
    try:
        g = gateway(config(upstream, redis, EVERY.replace("window: 1500ms", "window: 1h")))
        for headers in (KEY, OTHER, {}):
            redis("FLUSHALL")
            assert ask(g, headers=headers) == [200]
            names = redis.keys()
            slots = {cluster("CLUSTER", "KEYSLOT", k) for k in names}
            assert len(names) >= 6 and len(slots) == 1, names
            # The slot is that of the tag in braces, so that client libraries agree.
            assert slots == {crc16(names[0].split("{")[1].split("}")[0].encode()) % 16384}
    finally:
        cluster.stop()


# --- on the wire ---------------------------------------------------------------------------------------


class Monitor:
    """What a Redis executes, line by line. Ends with `stop`, which is marked by an ECHO."""

    def __init__(self, redis):
        self.redis, self.client = redis, Client(redis.path)
        assert self.client("MONITOR") == "OK"

    def lines(self):
        self.redis("ECHO", "end-of-test")
        seen = []
        while True:
            line = self.client.read()
            if '"ECHO" "end-of-test"' in line:
                return seen
            seen.append(line)


def test_one_evalsha_for_a_request_and_no_clear_identity(gateway, upstream, redis):
    g = connected(gateway(config(upstream, redis, EVERY.replace("    - {name: cc", "    # - {name: cc"))))
    assert ask(g) == [200]          # brings the script
    monitor = Monitor(redis)
    client = {"X-Forwarded-For": "198.51.100.23"}
    for _ in range(5):
        assert ask(g, headers=dict(KEY, **client)) == [200]
    for _ in range(3):
        assert ask(g, headers=client) == [200]
    assert ask(g, headers={"X-API-Key": "k-unknown", "X-Forwarded-For": "198.51.100.23"}) == [401]
    lines = monitor.lines()
    commands = [line.split("] ", 1)[1].split(" ")[0] for line in lines if "lua]" not in line]
    assert [c for c in commands if c not in ('"PING"', '"CLIENT"')] == ['"EVALSHA"'] * 9, commands
    everything = "\n".join(lines)
    for word in ("k-acme", "k-unknown", "198.51.100", "acme", digest("k-acme"), digest("k-unknown")):
        assert word not in everything, word
    monitor.client.close()


def test_routes_without_limits_do_not_ask(gateway, upstream, redis):
    routes = "  - {name: all, match: {path: /*}, auth: optional, upstream: up}\n"
    g = connected(gateway(config(upstream, redis, routes=routes)))
    assert ask(g, 5) == [200] * 5
    assert redis.evalsha_calls() == 0 and redis.keys() == []


def test_repeated_denials_are_answered_without_redis(gateway, upstream, redis):
    g = gateway(config(upstream, redis, "  c: [{name: l, algorithm: fixed_window, limit: 2, window: 366d, per: key}]\n"))
    assert ask(g, 3) == [200, 200, 429]
    calls = redis.evalsha_calls()
    assert ask(g, 20) == [429] * 20
    assert redis.evalsha_calls() == calls
    g.access_count(23)
    assert source(g, "deny_cache") == 20


def test_tcp_and_its_database(gateway, upstream, redis):
    g = gateway(config(upstream, redis, url="redis://127.0.0.1:%d/5" % redis.port))
    assert decides_in_redis(g)
    c = Client(redis.path)
    c("SELECT", 5)
    assert c("DBSIZE") == 1
    c.close()


def test_a_name_is_resolved(gateway, upstream, redis):
    assert decides_in_redis(gateway(config(upstream, redis, url="redis://localhost:%d" % redis.port)))


# --- scripts, restarts, lost data ----------------------------------------------------------------------


def burst(gateway, threads, each, collect, headers=KEY):
    """Starts threads that each ask `each` times on one connection; statuses go to `collect`."""
    def run():
        with gateway.connect() as c:
            for _ in range(each):
                collect.append(c.request("GET", "/x", headers).status)
    started = [threading.Thread(target=run) for _ in range(threads)]
    for t in started:
        t.start()
    return started


def test_script_flush_under_load_is_not_seen(gateway, upstream, redis):
    classes = "  c: [{name: l, algorithm: fixed_window, limit: 300, window: 366d, per: tenant}]\n"
    g = connected(gateway(config(upstream, redis, classes, workers=2, timeout="10s")))
    got = []
    running = burst(g, 8, 50, got)
    flushed = 0
    while any(t.is_alive() for t in running):
        redis("SCRIPT", "FLUSH")
        flushed += 1
    for t in running:
        t.join()
    assert flushed > 3 and sorted(set(got)) == [200, 429]
    assert got.count(200) == 300 and got.count(429) == 100
    g.access_count(400)
    assert source(g, "local") == 0 and g.metric("slotgate_store_errors_total") == 0


def test_flushall_gives_the_whole_budget_again(gateway, upstream, redis):
    g = gateway(config(upstream, redis, "  c: [{name: l, algorithm: fixed_window, limit: 3, window: 366d, per: key}]\n",
                       store="deny_cache: false"))
    assert ask(g, 4) == [200] * 3 + [429]
    redis("FLUSHALL")
    assert ask(g, 4) == [200] * 3 + [429]


def test_restart_of_redis(gateway, upstream, redis):
    """Nobody sees more than the policy: `local` answers until Redis is back, and then it is Redis that decides."""
    g = connected(gateway(config(upstream, redis)))
    assert ask(g, 3) == [200] * 3
    redis.stop()
    assert ask(g, 10) == [200] * 10
    g.access_count(13)
    assert source(g, "local") == 10
    until("store_up says so", lambda: g.metric("slotgate_store_up") == 0)
    assert g.events("store away")
    redis.start()
    until("Redis decides again", lambda: decides_in_redis(g))
    until("store_up says so", lambda: g.metric("slotgate_store_up") == 1 and g.metric("slotgate_store_breaker_open") == 0)
    assert g.events("store is back")


def test_store_that_comes_after_the_gateway(gateway, upstream, folder):
    redis = Redis(folder)
    g = gateway(config(upstream, redis))
    try:
        assert ask(g, 3) == [200] * 3
        assert g.metric("slotgate_store_up") == 0 and source(g, "store") == 0
        assert json.loads(g.admin("/status")[2])["store"]["up"] is False
        redis.start()
        until("Redis decides", lambda: decides_in_redis(g))
        until("/status says so", lambda: json.loads(g.admin("/status")[2])["store"]["up"])
    finally:
        redis.stop()


# --- what Redis refuses --------------------------------------------------------------------------------


def test_key_of_another_type(gateway, upstream, redis):
    classes = "  c: [{name: l, algorithm: token_bucket, capacity: 5, refill: 1/h, per: key}]\n"
    g = gateway(config(upstream, redis, classes))
    name = "rl:tb:v1:{%s}:k.%s:c.l" % (ACME, ACME_KEY)
    redis("RPUSH", name, "not a hash")
    assert ask(g, 6) == [200] * 5 + [429]       # this process's own counters
    g.access_count(6)
    assert source(g, "local") == 6 and errors(g, "wrongtype") >= 1
    assert "WRONGTYPE" in g.events("store refuses decisions")[0]["error"]
    assert ask(g, headers=OTHER) == [200]       # only that key is bad
    g.access_count(7)
    assert source(g, "store") == 1
    redis("DEL", name)
    until("Redis decides again", lambda: ask(g) == [200] and source(g, "store") >= 2)


def test_out_of_memory(gateway, upstream, redis):
    g = gateway(config(upstream, redis))
    assert decides_in_redis(g)
    redis("CONFIG", "SET", "maxmemory", "1")
    assert ask(g, 5) == [200] * 5
    g.access_count(6)
    assert source(g, "local") == 5 and errors(g, "oom") == 5
    redis("CONFIG", "SET", "maxmemory", "0")
    until("Redis decides again", lambda: decides_in_redis(g))


def test_read_only_replica(gateway, upstream, redis):
    g = gateway(config(upstream, redis))
    assert decides_in_redis(g)
    redis("REPLICAOF", "127.0.0.1", "1")
    assert ask(g, 5) == [200] * 5
    g.access_count(6)
    assert source(g, "local") == 5 and errors(g, "readonly") >= 1
    redis("REPLICAOF", "NO", "ONE")
    until("Redis decides again", lambda: decides_in_redis(g))


def password_file(folder, text):
    with open(os.path.join(folder, "password"), "w", encoding="ascii") as f:
        f.write(text + "\n")


SECRET, WRONG = "correct-horse-battery", "wrong-horse-battery"


@pytest.mark.parametrize("user", [None, "gw"])
def test_password(gateway, upstream, redis, folder, user):
    if user:
        redis("ACL", "SETUSER", user, "on", ">" + SECRET, "~rl:*", "+@all")
        redis("ACL", "SETUSER", "default", "off")
    else:
        redis("CONFIG", "SET", "requirepass", SECRET)
    store = "password_file: password" + (", username: %s" % user if user else "")
    password_file(folder, WRONG)
    g = gateway(config(upstream, redis, store=store))
    assert ask(g, 5) == [200] * 5
    until("the log says why", lambda: g.events("store away"))
    event = g.events("store away")[0]
    assert event["kind"] == "auth" and "AUTH" in event["error"], event
    until("it is counted", lambda: errors(g, "auth") >= 1)
    until("/status says why", lambda: "AUTH" in (json.loads(g.admin("/status")[2])["store"]["last_error"] or ""))
    g.access_count(5)
    assert source(g, "local") == 5

    password_file(folder, SECRET)
    assert g.reload()
    until("Redis decides", lambda: decides_in_redis(g))
    everything = g.log() + g.admin("/status")[2] + g.admin("/metrics")[2]
    assert SECRET not in everything and WRONG not in everything


def test_another_reason_to_be_away(gateway, upstream, redis):
    """Away because nobody listens, then because the password is missing: the log says both."""
    redis.stop()
    g = gateway(config(upstream, redis))
    assert ask(g, 1) == [200]
    until("the log says why", lambda: [e for e in g.events("store away") if e["kind"] == "connect"])
    redis.options += ["--requirepass", SECRET]
    redis.start()
    until("the log says what else", lambda: [e for e in g.events("store still away") if e["kind"] == "auth"])
    assert not g.events("store is back")


def test_no_password_where_one_is_needed(gateway, upstream, redis):
    redis("CONFIG", "SET", "requirepass", SECRET)
    g = gateway(config(upstream, redis))
    assert ask(g, 3) == [200] * 3
    until("the log names authentication", lambda: [e for e in g.events("store away") if e["kind"] == "auth"])


def test_user_of_the_manual(gateway, upstream, redis, folder):
    """What docs/operations.md allows the gateway is enough for all that it does, and nothing else is allowed."""
    with open(os.path.join(os.environ["SG_SRCDIR"], "docs", "operations.md"), encoding="utf-8") as f:
        rule = re.search(r"^ACL SETUSER (slotgate .*?)^```", f.read(), re.M | re.S).group(1)
    words = rule.replace("\\\n", " ").replace(">PASSWORD", ">" + SECRET).split()
    redis("ACL", "SETUSER", *words)
    redis("ACL", "SETUSER", "default", "nopass", "+@all")
    password_file(folder, SECRET)
    classes = EVERY.replace("limit: 9", "limit: 6")
    g = connected(gateway(config(upstream, redis, classes, store="password_file: password, username: slotgate, deny_cache: false")))
    assert ask(g, 8) == [200] * 6 + [429] * 2
    held = Held(upstream)
    c = held.start(g, OTHER)
    c.close()
    held.going.set()
    until("the slot is free", lambda: not [k for k in redis.keys() if ":cc:" in k])
    assert g.admin("/tenants/acme/usage")[0] == 200
    assert g.admin("/tenants/acme/reset", method="POST")[0] == 200
    assert ask(g) == [200]
    g.access_count(10)
    assert source(g, "local") == 0 and g.metric("slotgate_store_errors_total") == 0
    log = redis("ACL", "LOG")
    assert log == [], log


def test_user_that_may_not_run_scripts(gateway, upstream, redis, folder):
    redis("ACL", "SETUSER", "gw", "on", ">" + SECRET, "~rl:*", "+@all", "-@scripting")
    password_file(folder, SECRET)
    g = gateway(config(upstream, redis, store="password_file: password, username: gw"))
    assert ask(g, 3) == [200] * 3
    g.access_count(3)
    assert source(g, "local") == 3
    assert any("NOPERM" in e["error"] for e in g.events("store refuses decisions") + g.events("store away"))


# --- a Redis that hangs or is away ---------------------------------------------------------------------


def test_hung_redis_costs_nobody_an_answer(gateway, upstream, redis):
    g = connected(gateway(config(upstream, redis, timeout="100ms")))
    assert ask(g) == [200]
    g.access_count(1)
    before, had = redis.evalsha_calls(), source(g, "local")     # a busy machine may have missed 100 ms already
    redis.freeze()
    try:
        assert ask(g, 200) == [200] * 200
        g.access_count(201)
        assert source(g, "local") >= had + 200
        assert g.metric("slotgate_store_breaker_open") == 1 and g.metric("slotgate_store_up") == 0
        # The breaker is open: nobody waits for the store, and nothing is sent to it.
        failed = source(g, "local")
        timeouts = errors(g, "timeout")
        assert 1 <= timeouts < 50
        got = []
        for t in burst(g, 16, 10, got):
            t.join()
        assert got == [200] * 160
        g.access_count(361)
        assert source(g, "local") == failed + 160
    finally:
        redis.thaw()
    until("Redis decides again", lambda: decides_in_redis(g))
    assert redis.evalsha_calls() - before < 50


def test_hung_redis_hit_by_many_at_once(gateway, upstream, redis):
    g = connected(gateway(config(upstream, redis, timeout="100ms", workers=2)))
    redis.freeze()
    try:
        got = []
        for t in burst(g, 50, 4, got):
            t.join()
        assert got == [200] * 200
    finally:
        redis.thaw()
    g.access_count(200)
    assert g.metric("slotgate_tenant_requests_total", result="failed") == 0
    until("Redis decides again", lambda: decides_in_redis(g))


POLICIES = """  - {name: inherit, match: {path: /inherit}, classes: [c], upstream: up}
  - {name: local, match: {path: /local}, classes: [c], upstream: up, on_store_failure: local}
  - {name: open, match: {path: /open}, classes: [c], upstream: up, on_store_failure: open}
  - {name: closed, match: {path: /closed}, classes: [c], upstream: up, on_store_failure: closed}
  - {name: free, match: {path: /free}, auth: none, upstream: up}
"""


@pytest.mark.parametrize("policy", ["local", "open", "closed"])
def test_policies(gateway, upstream, folder, policy):
    redis = Redis(folder)
    classes = "  c: [{name: l, algorithm: fixed_window, limit: 1000, window: 366d, per: key}]\n"
    g = gateway(config(upstream, redis, classes, POLICIES, store="on_failure: " + policy))

    def check(path, kind):
        a = g.get(path, KEY)
        if kind == "closed":
            assert a.status == 503 and int(a.header("Retry-After")) >= 1
            assert json.loads(a.text)["type"].endswith("#temporary-reduced-capacity")
        else:
            assert a.status == 200 and a.header("Retry-After") is None
        # What is not known is not shown.
        assert (a.header("RateLimit") is not None) == (a.header("RateLimit-Policy") is not None) == (kind == "local")
    for path, kind in [("/inherit", policy), ("/local", "local"), ("/open", "open"), ("/closed", "closed")]:
        check(path, kind)
    assert g.get("/free").status == 200
    g.access_count(5)
    for kind in ("local", "open", "closed"):
        assert source(g, kind) == (2 if kind == policy else 1)
    assert g.metric("slotgate_limit_decisions_total", source="closed", outcome="denied") == source(g, "closed")
    assert g.metric("slotgate_tenant_requests_total", result="failed") == source(g, "closed")
    assert [e["slotgate.limit.source"] for e in g.access() if "slotgate.limit.source" in e][1:] == ["local", "open", "closed"]


@pytest.mark.parametrize("closed", [True, False])
def test_readyz(gateway, upstream, folder, closed):
    """Not ready only when a route would refuse requests for want of the store."""
    redis = Redis(folder)
    g = gateway(config(upstream, redis, store="on_failure: " + ("closed" if closed else "local")))
    status, _, text = g.admin("/readyz")
    assert status == (503 if closed else 200) and ("store" in text) == closed
    assert g.admin("/healthz")[0] == 200
    try:
        redis.start()
        until("ready", lambda: g.admin("/readyz")[0] == 200)
    finally:
        redis.stop()


def test_local_share(gateway, upstream, folder):
    redis = Redis(folder)
    classes = "  c: [{name: l, algorithm: fixed_window, limit: 10, window: 366d, per: key}]\n"
    g = gateway(config(upstream, redis, classes, store="local_share: 0.5"))
    assert ask(g, 7) == [200] * 5 + [429] * 2
    assert ask(g, 1, OTHER) == [200]


# --- concurrency ---------------------------------------------------------------------------------------

SLOTS = "  c: [{name: l, algorithm: concurrency, limit: 2, lease: %s, per: tenant}]\n"


def test_leases_of_a_killed_gateway_lapse(gateway, upstream, redis):
    text = config(upstream, redis, SLOTS % "3s", store="deny_cache: false")
    first, second = gateway(text), gateway(text)
    held = Held(upstream)
    open_ = [held.start(first) for _ in range(2)]
    assert ask(second) == [429]
    first.kill()
    until("the leases have lapsed", lambda: ask(second) == [200])
    held.going.set()
    for c in open_:
        c.close()


def test_a_slot_is_given_back_when_the_client_goes(gateway, upstream, redis):
    g = gateway(config(upstream, redis, SLOTS % "10m", store="deny_cache: false"))
    held = Held(upstream)
    clients = [held.start(g) for _ in range(2)]
    assert ask(g) == [429]
    assert g.metric("slotgate_concurrency_leases") == 2
    clients[0].abort()
    until("one slot is free", lambda: ask(g) == [200])
    clients[1].close()
    until("both are", lambda: redis.keys() == [] and g.metric("slotgate_concurrency_leases") == 0)
    held.going.set()


def test_slots_that_were_taken_while_redis_goes_and_comes(gateway, upstream, redis):
    """Slots from before, during and after an outage: in the end none is left, in Redis or here."""
    g = connected(gateway(config(upstream, redis, SLOTS % "10m", store="deny_cache: false")))
    held = Held(upstream)
    before = held.start(g)
    redis.stop()
    during = held.start(g)
    redis.start()
    connected(g)
    after = held.start(g)
    held.going.set()
    for c in (before, during, after):
        assert c.answer().status == 200
        c.close()
    until("all slots are free", lambda: redis.keys() == [] and g.metric("slotgate_concurrency_leases") == 0)
    assert ask(g, 3) == [200] * 3


def test_reload_to_another_redis(gateway, upstream, redis, folder):
    other = Redis(folder, name="other").start()
    try:
        g = connected(gateway(config(upstream, redis)))
        assert ask(g) == [200] and len(redis.keys()) == 1
        assert g.reload(config(upstream, other))
        until("the other one decides", lambda: ask(g) == [200] and len(other.keys()) == 1)
        used = int(redis("GET", redis.keys()[0]))
        assert ask(g, 3) == [200] * 3
        assert int(redis("GET", redis.keys()[0])) == used
    finally:
        other.stop()


def test_redis_that_refuses_connections(gateway, upstream, redis):
    """maxclients: the answer to a new connection is an error, and the policy applies."""
    redis("CONFIG", "SET", "maxclients", "1")
    hog = Client(redis.path)
    try:
        assert hog("PING") == "PONG"
    except ReplyError:
        pass
    g = gateway(config(upstream, redis))
    assert ask(g, 3) == [200] * 3
    g.access_count(3)
    assert source(g, "local") == 3
    hog("CONFIG", "SET", "maxclients", "1000")
    hog.close()
    until("Redis decides", lambda: decides_in_redis(g))


# --- reload and stop while Redis hangs -----------------------------------------------------------------


class Waiting:
    """Requests that wait for a frozen Redis, each on a connection of its own."""

    def __init__(self, gateway, n):
        self.clients = [gateway.connect() for _ in range(n)]
        for c in self.clients:
            c.send("GET /x HTTP/1.1\r\nHost: x\r\nX-API-Key: k-acme\r\n\r\n")
        until("they are in flight", lambda: gateway.metric("slotgate_requests_in_flight") == n)

    def statuses(self):
        got = [c.answer().status for c in self.clients]
        for c in self.clients:
            c.close()
        return got


@pytest.mark.parametrize("to", ["memory", "other", "same"])
def test_reload_while_redis_hangs(gateway, upstream, redis, folder, to):
    """Requests that wait get their answer by policy or late; new ones are decided by the new store."""
    other = Redis(folder, name="other").start()
    try:
        g = connected(gateway(config(upstream, redis, timeout="3s")))
        assert ask(g) == [200]
        redis.freeze()
        waiting = Waiting(g, 20)
        text = config(upstream, other if to == "other" else redis, timeout="3s" if to != "same" else "2500ms")
        assert g.reload(text.replace("type: redis", "type: memory") if to == "memory" else text)
        if to != "same":
            until("the new store decides", lambda: decides_in_redis(g))
        assert waiting.statuses() == [200] * 20
        redis.thaw()
        until("the store decides", lambda: decides_in_redis(g))
        until("nothing is in flight", lambda: g.metric("slotgate_requests_in_flight") == 0)
    finally:
        redis.thaw()
        other.stop()


@pytest.mark.parametrize("twice", [False, True])
def test_stop_while_redis_hangs(gateway, upstream, redis, twice):
    """A drain answers those who wait; a second signal does not wait for them."""
    g = connected(gateway(config(upstream, redis, timeout="2s")))
    assert ask(g) == [200]
    redis.freeze()
    waiting = Waiting(g, 20)
    g.signal(signal.SIGTERM)
    until("draining", lambda: g.events("draining"))
    if twice:
        g.signal(signal.SIGTERM)
    else:
        assert waiting.statuses() == [200] * 20
    assert g.process.wait(20) == 0
    redis.thaw()


def test_clients_that_leave_while_redis_hangs(gateway, upstream, redis):
    """Nobody waits for the answers that come late, and slots that were taken by them come back."""
    g = connected(gateway(config(upstream, redis, SLOTS % "10m", timeout="3s", store="deny_cache: false")))
    assert ask(g) == [200]
    redis.freeze()
    waiting = Waiting(g, 20)
    for c in waiting.clients:
        c.abort()
    until("nothing is in flight", lambda: g.metric("slotgate_requests_in_flight") == 0)
    redis.thaw()
    until("all slots are free", lambda: redis.keys() == [] and g.metric("slotgate_concurrency_leases") == 0)
    until("two pass again", lambda: ask(g, 2) == [200, 200])
