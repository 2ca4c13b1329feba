"""What is left for a tenant, and a fresh budget for it: by the admin listener and by the command line, in a real Redis."""
import json
import os
import subprocess

import pytest

from harness.gateway import PROGRAM, digest
from harness.redis import Redis
from harness.sockets import free_port
from harness.wait import until

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 1, trusted_proxies: [127.0.0.1]}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: off}}
store: {{type: redis, {store}, timeout: 2s, on_failure: closed}}
classes:
  c:
    - {{name: day, algorithm: fixed_window, limit: 10, window: 366d, per: tenant}}
    - {{name: burst, algorithm: token_bucket, capacity: 5, refill: 1/h, per: key}}
    - {{name: smooth, algorithm: gcra, burst: 5, rate: 1/h, per: key}}
    - {{name: log, algorithm: sliding_log, limit: 9, window: 1h, per: ip}}
    - {{name: trial, algorithm: sliding_window, limit: 1, window: 1h, per: key, dry_run: true}}
plans: {{gold: {{c.day: {{limit: 100}}}}}}
tenants:
  acme: {{plan: gold, keys: [{{id: one, sha256: {one}}}, {{id: two, sha256: {two}}}]}}
  other: {{keys: [{{id: one, sha256: {other}}}]}}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes: [{{name: all, match: {{path: /*}}, auth: optional, classes: [c], upstream: up}}]
"""


def config(upstream, redis, store="", more=""):
    return CONFIG.format(upstream=upstream.url, one=digest("key-one"), two=digest("key-two"), other=digest("key-other"),
                         store=(store or 'url: "unix://%s"' % redis.path) + more)


def asked(gateway, key, n):
    with gateway.connect() as c:
        return [c.request("GET", "/x", {"X-API-Key": key} if key else ()).status for _ in range(n)]


def run(command, gateway, *args):
    return subprocess.run([PROGRAM, command, "-c", gateway.config_path] + list(args), capture_output=True, text=True, timeout=60,
                          check=False)


def reset_by_admin(gateway, tenant):
    status, _, text = gateway.admin("/tenants/%s/reset" % tenant, method="POST")
    assert status == 200, text
    return json.loads(text)["counters"]


def reset_by_command(gateway, tenant):
    r = run("reset", gateway, "--json", tenant)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)["counters"]


def usage(gateway, tenant):
    """(limit, key) -> remaining, as the command says; the admin listener must say the same."""
    r = run("usage", gateway, "--json", tenant)
    assert r.returncode == 0, r.stderr
    by_command, by_admin = (json.loads(text)["limits"] for text in (r.stdout, gateway.admin("/tenants/%s/usage" % tenant)[2]))
    for u in by_command + by_admin:
        u.pop("reset_ms", None)
    by_name = lambda u: (u["name"], u.get("key", ""))
    assert sorted(by_command, key=by_name) == sorted(by_admin, key=by_name)
    assert [(u["name"], u["limit"]) for u in by_command if "remaining" not in u] == [("c.log", 9)]
    return {(u["name"], u.get("key")): u["remaining"] for u in by_command if "remaining" in u}


FRESH = {("c.day", None): 100, ("c.burst", "one"): 5, ("c.smooth", "one"): 5, ("c.trial", "one"): 1,
         ("c.burst", "two"): 5, ("c.smooth", "two"): 5, ("c.trial", "two"): 1}


@pytest.mark.parametrize("reset", [reset_by_admin, reset_by_command])
def test_reset_of_one_tenant(gateway, upstream, redis, reset):
    g = gateway(config(upstream, redis, more=", deny_cache: false"))
    assert asked(g, "key-one", 7) == [200] * 5 + [429] * 2
    assert asked(g, "key-two", 1) == asked(g, "key-other", 1) == asked(g, None, 1) == [200]
    assert usage(g, "acme") == {("c.day", None): 94, ("c.burst", "one"): 0, ("c.smooth", "one"): 0, ("c.trial", "one"): 0,
                                ("c.burst", "two"): 4, ("c.smooth", "two"): 4, ("c.trial", "two"): 0}
    names = redis.keys()
    acme = [k for k in names if k.split("{")[1].split("}")[0] == tag_of(g, "acme")]
    assert len(acme) == 8            # day; burst, smooth and trial of two keys; the log of one address
    assert reset(g, "acme") == 8
    assert redis.calls("scan") > 0 and redis.calls("unlink") > 0 and redis.calls("del") == 0
    assert sorted(set(names) - set(acme)) == redis.keys()       # another tenant, and anonymous callers, keep theirs
    assert usage(g, "acme") == FRESH
    assert usage(g, "other")[("c.burst", "one")] == 4
    assert asked(g, "key-one", 6) == [200] * 5 + [429]
    assert reset(g, "acme") > 0 and reset(g, "acme") == 0


def tag_of(gateway, tenant):
    r = run("explain", gateway, "GET", "/x", "-H", "X-API-Key: " + {"acme": "key-one", "other": "key-other"}[tenant])
    return r.stdout.split("slot tag")[1].split()[0]


def test_reset_among_many_keys(gateway, upstream, redis):
    """More keys than one batch has, most of them the tenant's own; a name that only looks like one of them stays."""
    g = gateway(config(upstream, redis, more=', key_prefix: "a-b"'))
    assert asked(g, "key-one", 1) == [200]
    tag = tag_of(g, "acme")
    near = ["a-b:tb:v2:{%s}:c.l" % tag, "xa-b:tb:v1:{%s}:c.l" % tag, "a-b:tb:v1:{%sx}:c.l" % tag, "a-b:tb:v1:{x}:{%s}:c.l" % tag]
    for name in near:
        redis("SET", name, 1, "EX", 1000)
    redis("EVAL", "for i = 1, 5000 do redis.call('SET', 'a-b:tb:v1:{' .. ARGV[1] .. '}:k.' .. i .. string.rep('x', 60), 1, 'EX', 1000) end "
          "for i = 1, 3000 do redis.call('SET', 'a-b:tb:v1:{other}:k.' .. i, 1, 'EX', 1000) end", 0, tag)
    assert reset_by_admin(g, "acme") == 5000 + 5
    left = redis.keys()
    assert len(left) == 3000 + len(near) and set(near) <= set(left)
    assert asked(g, "key-one", 1) == [200]


def test_decisions_go_on_during_a_reset(gateway, upstream, redis):
    g = gateway(config(upstream, redis))
    redis("EVAL", "for i = 1, 50000 do redis.call('SET', 'rl:tb:v1:{other}:k.' .. i, 1, 'EX', 1000) end", 0)
    with g.connect() as c:
        for _ in range(3):
            assert reset_by_admin(g, "acme") >= 0
            assert c.request("GET", "/x", {"X-API-Key": "key-one"}).status == 200
    assert len(redis.keys()) == 50000 + 5


def test_a_reset_is_seen_in_the_metrics(gateway, upstream, redis):
    """Denials that are kept for a second were decided before it; what they say of other limits is old."""
    g = gateway(config(upstream, redis))

    def used(tenant="acme"):
        return g.metric("slotgate_tenant_quota_used_ratio", tenant=tenant, limit="c.day")
    assert asked(g, "key-one", 7) == [200] * 5 + [429] * 2 and asked(g, "key-other", 1) == [200]
    assert (round(used(), 2), round(used("other"), 2)) == (0.05, 0.1)
    reset_by_admin(g, "acme")
    until("it shows", lambda: used() == 0)
    until("the denial is no longer kept", lambda: asked(g, "key-one", 1) == [200])
    assert (round(used(), 2), round(used("other"), 2)) == (0.01, 0.1)


def test_usage_for_people(gateway, upstream, redis):
    g = gateway(config(upstream, redis))
    assert asked(g, "key-one", 2) == [200] * 2
    r = run("usage", g, "acme")
    assert r.returncode == 0 and r.stdout.startswith("tenant acme, plan gold\n")
    rows = [line.split() for line in r.stdout.splitlines()[2:]]
    assert ["c.day", "98", "100"] in [row[:3] for row in rows] and ["c.burst", "one", "3", "5"] in [row[:4] for row in rows]
    assert rows[-1] == ["c.log", "-", "9", "-", "for", "each", "client", "address"]
    assert run("reset", g, "acme").stdout == "5 counters of acme forgotten\n"


def test_usage_within_a_short_timeout(gateway, upstream, redis):
    """The question is sent at once: it does not spend its deadline waiting."""
    g = gateway(config(upstream, redis))
    g.write_config(config(upstream, redis).replace("timeout: 2s", "timeout: 90ms"))
    assert asked(g, "key-one", 2) == [200] * 2
    until("usage is shown", lambda: run("usage", g, "acme").returncode == 0)


def test_usage_of_a_store_that_hangs_shows_nothing(gateway, upstream, redis):
    g = gateway(config(upstream, redis))
    redis.freeze()
    try:
        r = run("usage", g, "acme")
    finally:
        redis.thaw()
    assert r.returncode == 1 and r.stdout == "" and r.stderr.startswith("slotgate usage: ")


def test_a_slot_of_a_reset_tenant(gateway, upstream, redis):
    """A reset forgets slots too; the request that holds one ends as ever."""
    text = config(upstream, redis, more=", deny_cache: false").replace("algorithm: fixed_window, limit: 10, window: 366d, per: tenant",
                                                                       "algorithm: concurrency, limit: 1, per: tenant").replace(
                                                                           "plans: {gold: {c.day: {limit: 100}}}", "plans: {gold: {}}")
    g = gateway(text)
    upstream.on("/held", lambda request, peer: peer.closed_by_peer(60) and False)
    held = g.connect()
    held.send("GET /held HTTP/1.1\r\nHost: x\r\nX-API-Key: key-one\r\n\r\n")
    until("it is at the upstream", lambda: upstream.count("/held"))
    assert asked(g, "key-two", 1) == [429]
    assert reset_by_admin(g, "acme") > 0
    assert asked(g, "key-two", 1) == [200]
    held.close()
    until("no slot is held", lambda: g.metric("slotgate_concurrency_leases") == 0)


@pytest.mark.parametrize("command", ["usage", "reset"])
def test_what_the_commands_say_when_they_cannot(gateway, upstream, redis, folder, command):
    g = gateway(config(upstream, redis))
    r = run(command, g, "nobody")
    assert r.returncode == 1 and 'no tenant "nobody"' in r.stderr
    assert run(command, g, "anonymous").returncode == 1
    for args in ((), ("acme", "other"), ("--nonsense", "acme")):
        r = run(command, g, *args)
        assert r.returncode == 64 and "usage:" in r.stderr and r.stdout == ""
    assert subprocess.run([PROGRAM, command, "acme"], capture_output=True, check=False).returncode == 64
    bad = os.path.join(folder, "bad.yaml")
    with open(bad, "w", encoding="utf-8") as f:
        f.write("routes: 1\n")
    assert subprocess.run([PROGRAM, command, "-c", bad, "acme"], capture_output=True, check=False).returncode == 78
    g.write_config(config(upstream, redis).replace("type: redis", "type: memory"))
    r = run(command, g, "acme")
    assert r.returncode == 1 and "admin listener" in r.stderr


@pytest.mark.parametrize("command", ["usage", "reset"])
def test_commands_without_a_redis(gateway, upstream, folder, command):
    redis = Redis(folder)
    g = gateway(config(upstream, redis))
    r = run(command, g, "acme")
    assert r.returncode == 1 and "no connection to the store" in r.stderr and redis.path in r.stderr


def test_admin_without_a_redis(gateway, upstream, redis):
    g = gateway(config(upstream, redis))
    assert asked(g, "key-one", 1) == [200]
    redis.stop()
    until("the gateway sees it", lambda: g.metric("slotgate_store_up") == 0)
    status, headers, text = g.admin("/tenants/acme/reset", method="POST")
    assert status == 503 and headers["Content-Type"] == "application/problem+json" and "store" in text
    redis.start()
    until("a reset works again", lambda: g.admin("/tenants/acme/reset", method="POST")[0] == 200)


def test_reset_while_redis_hangs(gateway, upstream, redis):
    g = gateway(config(upstream, redis))
    assert asked(g, "key-one", 1) == [200]
    redis.freeze()
    try:
        assert g.admin("/tenants/acme/reset", method="POST")[0] == 503
    finally:
        redis.thaw()
    until("a reset works again", lambda: g.admin("/tenants/acme/reset", method="POST")[0] == 200)


def test_reset_in_a_cluster(gateway, upstream, folder):
    """Of one tenant's keys, at the node that has them; the other tenant, whose keys lie there and on the other node, keeps its own."""
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "60000"]
    nodes = [Redis(folder, name="node%d" % i, options=options + ["--cluster-port", str(free_port()), "--cluster-config-file", "node%d.conf" % i])
             for i in range(2)]
    try:
        for n in nodes:
            n.start()
        nodes[0]("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        nodes[1]("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        for n, epoch in zip(nodes, (1, 2)):
            n("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        nodes[0]("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, int(nodes[1].options[5]))
        until("the cluster is formed", lambda: all("cluster_state:ok" in n("CLUSTER", "INFO") for n in nodes) and
              all("cluster_known_nodes:2" in n("CLUSTER", "INFO") for n in nodes))
        for seed in nodes:      # one of them does not have the tenant's slot
            g = gateway(config(upstream, None, "mode: cluster, deny_cache: false, nodes: [\"127.0.0.1:%d\"]" % seed.port))
            until("the store decides", lambda: asked(g, "key-one", 1)[0] != 503)
            assert asked(g, "key-other", 1) != [503] and asked(g, None, 1) != [503]
            assert usage(g, "acme")[("c.burst", "one")] < 5
            tag = "{%s}" % tag_of(g, "acme")
            owner = next(n for n in nodes if any(tag in k for k in n.keys()))
            for n in nodes:         # as if it had keys on both: names of another tenant in slots of each
                other = next(t for t in ("t%d" % i for i in range(99)) if (n("CLUSTER", "KEYSLOT", t) < 8192) == (n is nodes[0]))
                n("SET", "rl:tb:v1:{%s}:c.burst" % other, 1, "EX", 1000)
            others = [[k for k in n.keys() if tag not in k] for n in nodes]
            assert all(others)
            before = [(n.calls("scan"), n.calls("unlink")) for n in nodes]
            reset = (reset_by_admin, reset_by_command)[nodes.index(seed)]
            assert reset(g, "acme") >= 5
            assert [n.keys() for n in nodes] == others
            for n, (scans, unlinks) in zip(nodes, before):
                assert (n.calls("scan") > scans, n.calls("unlink") > unlinks) == (n is owner, n is owner)
                assert n.calls("del") == n.calls("flushdb") == n.calls("flushall") == 0
            assert usage(g, "acme") == FRESH
            g.stop()
    finally:
        for n in nodes:
            n.stop()
