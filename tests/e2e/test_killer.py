"""Connections of clients, upstreams and Redis are cut at random moments of random exchanges; afterwards nothing is left behind.

SLOTGATE_KILLER_SECONDS says for how long, SLOTGATE_KILLER_SEED begins with another seed."""
import json
import os
import random
import threading
import time

from harness.client import Connection
from harness.gateway import digest
from harness.killer import Killer, KillerUpstream, Relay
from harness.wait import until

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 2, header_timeout: 5s, idle_timeout: 5s, max_body_size: 800KiB}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
store: {{type: redis, url: "redis://127.0.0.1:{redis}", timeout: 300ms}}
identity: {{failures: {{limit: 100000, window: 1m}}}}
classes:
  many:
    - {{name: slots, algorithm: concurrency, limit: 1000, lease: 1h, per: tenant}}
    - {{name: bucket, algorithm: token_bucket, capacity: 1000000, refill: 1/s, per: key}}
  few:
    - {{name: slots, algorithm: concurrency, limit: 3, lease: 1h, per: tenant}}
    - {{name: watched, algorithm: concurrency, limit: 1, lease: 1h, per: key, dry_run: true}}
  none: [{{name: one, algorithm: fixed_window, limit: 1, window: 366d, per: ip}}]
tenants: {{acme: {{keys: [{{id: one, sha256: {key}}}]}}}}
upstreams:
  up:
    targets: [{{url: "{first}"}}, {{url: "{second}"}}]
    retries: 1
    retry_on: [connect, reset, "503"]
    timeout: 5s
    idle_timeout: 5s
routes:
  - {{name: slots, match: {{path: /slots/*}}, classes: [many], upstream: up}}
  - {{name: tight, match: {{path: /tight/*}}, classes: [few], upstream: up}}
  - {{name: denied, match: {{path: /denied}}, auth: none, classes: [none], upstream: up}}
  - {{name: local, match: {{path: /local}}, auth: none, respond: {{status: 200, body: "here"}}}}
  - {{name: free, match: {{path: /*}}, auth: none, upstream: up}}
"""
SECONDS = float(os.environ.get("SLOTGATE_KILLER_SECONDS", "60"))
SEED = os.environ.get("SLOTGATE_KILLER_SEED", "1")
CLIENTS, SLOTS = 12, 3


def kill_for(g, relay, seconds):
    stop, rng = threading.Event(), random.Random(SEED)
    killers = [Killer(g.port, "%s.%d" % (SEED, i), stop) for i in range(CLIENTS)]
    end = time.monotonic() + seconds
    while time.monotonic() < end and not any(k.broken for k in killers):
        assert g.process.poll() is None, g.log()[-20000:]
        relay.harass(rng, time.sleep)
        if rng.random() < 0.05:
            g.reload()
    stop.set()
    for k in killers:
        k.join(60)
        assert not k.is_alive(), k.doing
    return killers


def connections(g, kind):
    """To upstreams, busy or idle."""
    status = json.loads(g.admin("/status")[2])
    return sum(t[kind] for u in status["upstreams"] for t in u["targets"])


def slots_in_redis(redis):
    return {k: redis("ZCARD", k) for k in redis.keys() if ":cc:" in k and redis("TYPE", k) == "zset" and redis("ZCARD", k) > 0}


def sources(g):
    """Who made the decisions about the tight slots so far."""
    return {s: g.metric("slotgate_limit_decisions_total", limit="few.slots", source=s) for s in ("store", "local")}


def try_to_hold_all(g, upstreams):
    """True when all slots were had at once, and no more. None when the store was too slow once, so that two counted."""
    before = sources(g)
    for u in upstreams:
        u.hold.clear()
    held = []
    for i in range(SLOTS):
        c = Connection("127.0.0.1", g.port)
        c.send("GET /tight/hold HTTP/1.1\r\nHost: a\r\nX-API-Key: key\r\nX-Name: h%d\r\n\r\n" % i)
        held.append(c)
    until("%d are upstream" % SLOTS, lambda: connections(g, "busy") == SLOTS)
    one_more = g.get("/tight/a", {"X-API-Key": "key"}).status
    for u in upstreams:
        u.hold.set()
    statuses = [c.answer().status for c in held]
    for c in held:
        c.close()
    after = sources(g)
    if sum(after[s] > before[s] for s in after) > 1:
        return None
    return (one_more, statuses) == (429, [200] * SLOTS)


def hold_all(g, upstreams):
    """Every slot can be had at once: none was lost."""
    results = []
    until("one store decides about all", lambda: results.append(try_to_hold_all(g, upstreams)) or results[-1] is not None, 120)
    assert results[-1] is True, results


def at_rest(g, redis):
    until("nothing is in flight", lambda: g.metric("slotgate_requests_in_flight") == 0)
    until("no connection is open", lambda: g.metric("slotgate_connections") == 0)
    until("no target is busy", lambda: connections(g, "busy") == 0)
    until("no slot is held", lambda: g.metric("slotgate_concurrency_leases") == 0)
    until("the store is connected", lambda: g.metric("slotgate_store_up") == 1)
    for _ in range(20):     # the first decision of a worker closes its breaker; until it is made the others are local
        assert g.get("/slots/a", {"X-API-Key": "key", "X-Name": "a", "X-Seed": "4"}).status
    until("Redis holds no slot: %s" % slots_in_redis(redis), lambda: not slots_in_redis(redis))
    for state in ("idle", "active", "upgraded"):
        assert g.metric("slotgate_connections", state=state) == 0


def test_killer(gateway, redis):
    relay = Relay(redis.path)
    with KillerUpstream() as first, KillerUpstream() as second:
        g = gateway(CONFIG.format(redis=relay.port, key=digest("key"), first=first.url, second=second.url))
        until("the store is connected", lambda: g.metric("slotgate_store_up") == 1)
        hold_all(g, (first, second))
        first.drop()
        second.drop()
        until("the pools are empty", lambda: connections(g, "idle") == 0)
        at_rest_fds = g.fds()

        killers = kill_for(g, relay, SECONDS)
        print("exchanges %d, answers %d, cuts %d" % tuple(sum(getattr(k, n) for k in killers) for n in ("exchanges", "whole", "cuts")))
        assert [k.broken for k in killers if k.broken] == []
        assert first.broken + second.broken == []
        assert sum(k.whole for k in killers) > 100 and sum(k.cuts for k in killers) > 50

        at_rest(g, redis)
        hold_all(g, (first, second))
        first.drop()
        second.drop()
        until("as many descriptors as before: %d" % at_rest_fds, lambda: g.fds() <= at_rest_fds)
        requests = g.metric("slotgate_http_requests_total")
        assert requests > sum(k.whole for k in killers)
        assert g.metric("slotgate_tenant_requests_total") == requests
        until("a line for each request", lambda: len(g.access()) >= requests)
        lines = g.access()
        assert len(lines) == requests
        assert len({line["slotgate.request_id"] for line in lines}) == requests
        assert g.metric("slotgate_upstream_requests_total") == sum("slotgate.upstream.outcome" in line for line in lines)

        relay.close()           # the counters of this process hold no slot either
        until("the store is away", lambda: g.metric("slotgate_store_up") == 0)
        until("local decisions", lambda: g.get("/slots/a", {"X-API-Key": "key", "X-Name": "a", "X-Seed": "4"}).status and
              g.metric("slotgate_store_breaker_open") == 1)
        hold_all(g, (first, second))


def test_slot_whose_release_was_cut_off(gateway, redis):
    relay = Relay(redis.path)
    with KillerUpstream() as first, KillerUpstream() as second:
        g = gateway(CONFIG.format(redis=relay.port, key=digest("key"), first=first.url, second=second.url))
        until("the store is connected", lambda: g.metric("slotgate_store_up") == 1)
        with g.connect() as c:
            c.send("GET /slots/hold HTTP/1.1\r\nHost: a\r\nX-API-Key: key\r\nX-Name: a\r\n\r\n")
            until("it is upstream", lambda: connections(g, "busy") == 1)
            assert sum(slots_in_redis(redis).values()) == 1
            relay.stall.clear()
            first.hold.set()
            second.hold.set()
            assert c.answer().status == 200
        until("the slot has been given back here", lambda: g.metric("slotgate_concurrency_leases") == 0)
        assert sum(slots_in_redis(redis).values()) == 1
        relay.cut("close")
        relay.stall.set()
        until("and there", lambda: not slots_in_redis(redis))
