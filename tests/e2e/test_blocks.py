"""Budgets for everybody (per: all) in blocks that gateways take ahead: never over, also when gateways are killed; what is not
spent goes back; the other limits stay all or nothing with it."""
import base64
import hashlib
import json
import os
import subprocess
import threading
import time

import pytest

from harness.client import Malformed
from harness.gateway import PROGRAM, digest
from harness.redis_proxy import RedisProxy
from harness.wait import until
from test_cost import price
from test_limits import Crowd

CALLERS = 12
CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 2}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
store: {store}
classes:
  c:
    - {{name: whole, {rule}, per: all}}
{others}
tenants:
{tenants}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes:
{routes}
"""
OWN = "    - {name: own, algorithm: fixed_window, limit: %d, window: 366d, per: tenant}\n"
RESPOND = "  - {name: all, match: {path: /*}, classes: [c], respond: {status: 200}}\n"
# Each holds 1000 units, and nothing comes back while a test runs.
RULES = {
    "token_bucket": "algorithm: token_bucket, capacity: 1001, refill: 1/h, block: 50",
    "gcra": "algorithm: gcra, burst: 1001, rate: 1/h, block: 50",
    "fixed_window": "algorithm: fixed_window, limit: 1000, window: 366d, block: 50",
    "sliding_window": "algorithm: sliding_window, limit: 1000, window: 1h, block: 50",
    "sliding_log": "algorithm: sliding_log, limit: 1000, window: 1h, block: 50",
}


def name(i):
    return "t%d" % i


def key(i=0):
    return {"X-API-Key": name(i)}


def redis_store(redis, timeout="10s", more=""):
    url = redis.url if isinstance(redis, RedisProxy) else "unix://" + redis.path
    return '{type: redis, url: "%s", timeout: %s%s}' % (url, timeout, more)


def config(store, rule=RULES["fixed_window"], others=OWN % 10000000, routes=RESPOND, upstream="http://127.0.0.1:1"):
    tenants = "".join("  %s: {keys: [{id: one, sha256: %s}]}\n" % (name(i), digest(name(i))) for i in range(CALLERS))
    return CONFIG.format(store=store, rule=rule, others=others, routes=routes, tenants=tenants, upstream=upstream)


def explain(gateway, i=0):
    """What is left of c.whole, and all that explain says."""
    done = subprocess.run([PROGRAM, "explain", "--json", "-c", gateway.config_path, "GET", "http://gw.test/x",
                           "-H", "X-API-Key: " + name(i)], stdout=subprocess.PIPE, timeout=20, check=False)
    told = json.loads(done.stdout)
    return [e for e in told["limits"] if e["name"] == "c.whole"][0]["remaining"], told


def units(gateways, event):
    return sum(g.metric("slotgate_limit_block_units_total", event=event) for g in gateways)


def get(g, i=0, path="/x"):
    return g.get(path, key(i))


# --- never over -------------------------------------------------------------------------------------------------------------


class Flood:
    """Clients that ask all the time, each at one gateway: (sent, got, status) of every request that was answered."""

    def __init__(self, gateways, clients):
        self.stop, self.seen, self.lock = threading.Event(), [], threading.Lock()
        self.threads = [threading.Thread(target=self._run, args=(gateways[i % len(gateways)], i)) for i in range(clients)]
        for t in self.threads:
            t.start()

    def _run(self, gateway, i):
        mine = []
        try:
            with gateway.connect(timeout=30) as c:
                while not self.stop.is_set():
                    sent = time.time()
                    status = c.request("GET", "/x", key(i % CALLERS)).status
                    mine.append((sent, time.time(), status))
        except (OSError, Malformed):
            pass        # its gateway was killed
        with self.lock:
            self.seen += mine

    def join(self):
        self.stop.set()
        for t in self.threads:
            t.join()
        return self.seen

    def admitted(self):
        return sorted((sent, got) for sent, got, status in self.join() if status == 200)


@pytest.mark.parametrize("algorithm", sorted(RULES))
def test_eight_gateways_three_of_them_killed(gateway, redis, algorithm):
    """Exactly the limit, less what the killed ones held: at most a block each."""
    text = config(redis_store(redis), RULES[algorithm])
    gateways = [gateway(text) for _ in range(8)]
    flood = Flood(gateways, 24)
    until("a third is spent", lambda: units(gateways, "taken") > 333)
    for g in gateways[:3]:
        g.kill()
    until("all is spent", lambda: get(gateways[3]).status == 429)
    admitted = len(flood.admitted())
    # What came back at the end, and what was spent by the requests above.
    until("nothing is held any more", lambda: explain(gateways[3])[0] == 0 or get(gateways[3]).status == 200)
    rest = 0
    for _ in range(200):
        rest += get(gateways[3]).status == 200
    assert admitted <= 1000
    assert admitted + rest >= 1000 - 3 * 50 - 40    # 40: of killed gateways, admitted and not answered; of until() above


WINDOWS = {
    # rule, units that may be admitted within any time that surely lies in one window, or of this length
    "fixed_window": ("algorithm: fixed_window, limit: 60, window: 1s, block: 10", "aligned", 1.0, 60, 0),
    "sliding_window": ("algorithm: sliding_window, limit: 60, window: 1s, precision: 5, block: 10", "any", 0.8, 60, 0),
    "sliding_log": ("algorithm: sliding_log, limit: 60, window: 1s, block: 10", "any", 1.0, 60, 0),
    "token_bucket": ("algorithm: token_bucket, capacity: 60, refill: 50/s, block: 10", "rate", None, 60, 50),
    "gcra": ("algorithm: gcra, burst: 60, rate: 50/s, block: 10", "rate", None, 60, 50),
}


def most_above(admitted, kind, span, rate):
    """The highest number of requests that were certainly admitted within a span (less what comes back in it): sent after its
    begin, answered before its end."""
    most = 0
    for i, (begin, _) in enumerate(admitted):
        if kind == "aligned":
            begin = begin - begin % span
            inside = [1 for sent, got in admitted if sent >= begin and got < begin + span]
            most = max(most, len(inside))
            continue
        ends = sorted(got for _, got in admitted[i:])
        for n, end in enumerate(ends, 1):
            if kind == "any" and end - begin >= span:
                break
            most = max(most, n - (end - begin) * rate)
    return most


@pytest.mark.parametrize("algorithm", sorted(WINDOWS))
def test_in_any_window(gateway, redis, algorithm):
    """Through many windows, with gateways that are killed, and others that come."""
    rule, kind, span, limit, rate = WINDOWS[algorithm]
    text = config(redis_store(redis), rule)
    gateways = [gateway(text) for _ in range(4)]
    flood = Flood(gateways[1:], 6)
    more = []
    for _ in range(3):
        before = redis.evalsha_calls()
        more.append(gateway(text))
        victim = Flood([more[-1]], 2)
        until("the new one takes part", lambda: units(more[-1:], "taken") > 5)
        until("time goes on", lambda: redis.evalsha_calls() > before + 300)
        more[-1].kill()
        more.append(victim)
    admitted = sorted(flood.admitted() + [a for v in more if isinstance(v, Flood) for a in v.admitted()])
    assert len(admitted) > limit, "nothing was tried"
    assert most_above(admitted, kind, span, rate) <= limit + 1e-6


# --- one round trip, and what goes back ---------------------------------------------------------------------------------------


def test_a_request_is_one_round_trip(gateway, redis):
    """The script for its own limits; the blocks come ahead, so there are few askings, and no request waits for two."""
    g = gateway(config(redis_store(redis), "algorithm: fixed_window, limit: 100000, window: 366d, block: 100").replace("workers: 2", "workers: 1"))
    with g.connect() as c:
        for _ in range(30):     # it begins with few
            assert c.request("GET", "/x", key()).status == 200
        before = redis.evalsha_calls()
        for _ in range(1000):
            assert c.request("GET", "/x", key()).status == 200
    assert 1000 <= redis.evalsha_calls() - before <= 1150


def test_no_round_trip_where_there_are_no_own_limits(gateway, redis):
    g = gateway(config(redis_store(redis), "algorithm: fixed_window, limit: 100000, window: 366d, block: 100", others=""))
    with g.connect() as c:
        for _ in range(1000):
            assert c.request("GET", "/x", key()).status == 200
    assert redis.evalsha_calls() < 200
    assert units([g], "taken") >= 1000


@pytest.mark.parametrize("algorithm", sorted(RULES))
def test_unspent_units_go_back(gateway, redis, algorithm):
    """When their time is over, the ledger has counted what was spent, to the unit."""
    text = config(redis_store(redis), RULES[algorithm])
    gateways = [gateway(text) for _ in range(3)]
    assert Crowd(gateways, 12, 20, headers=key()).statuses == [200] * 240
    until("the rest is back", lambda: explain(gateways[0])[0] == 760)
    assert units(gateways, "taken") - units(gateways, "returned") == 240
    assert units(gateways, "lost") == 0


def test_a_gateway_that_stops_gives_back(gateway, redis):
    """Without waiting for the time of its blocks."""
    text = config(redis_store(redis))
    g, other = gateway(text), gateway(text)
    with g.connect() as c:
        for _ in range(100):
            assert c.request("GET", "/x", key()).status == 200
    assert g.stop() == 0
    assert explain(other)[0] == 900


def test_a_gateway_that_is_asked_little_holds_nothing(gateway, redis):
    g = gateway(config(redis_store(redis)))
    assert get(g).status == 200
    assert units([g], "taken") == 1
    assert explain(g)[0] == 999


# --- all or nothing -----------------------------------------------------------------------------------------------------------


def test_what_an_own_limit_denies_is_not_spent(gateway, redis):
    g = gateway(config(redis_store(redis, more=", deny_cache: false"), others=OWN % 3))
    for i in range(CALLERS):
        assert [get(g, i).status for _ in range(6)] == [200] * 3 + [429] * 3
    assert explain(g)[0] + units([g], "taken") - units([g], "returned") == 1000
    until("the rest is back", lambda: explain(g)[0] == 1000 - 3 * CALLERS)


def own_count(redis):
    return sum(int(redis("GET", k)) for k in redis.keys() if k.endswith(":c.own") or ":c.own:" in k)


@pytest.mark.parametrize("cached", ["true", "false"])
def test_what_the_whole_denies_counts_nowhere(gateway, redis, cached):
    rule = "algorithm: fixed_window, limit: 5, window: 366d, block: 2"
    g = gateway(config(redis_store(redis, more=", deny_cache: " + cached), rule, others=OWN % 100))
    assert [get(g).status for _ in range(5)] == [200] * 5
    for _ in range(20):
        r = get(g)
        assert r.status == 429 and b'"violated-policies":["c.whole"]' in r.body.replace(b" ", b"")
        assert '"c.whole";r=0' in r.header("RateLimit") and '"c.own";r=95' in r.header("RateLimit")
        assert int(r.header("Retry-After")) > 86400
    assert own_count(redis) == 5
    calls = redis.evalsha_calls()
    for _ in range(50):
        assert get(g).status == 429
    # Denied by the whole, a tenant costs Redis what any denied one does.
    assert redis.evalsha_calls() - calls <= (12 if cached == "true" else 200)


def test_both_deny(gateway, redis):
    """Retry-After is the longer one."""
    rule = "algorithm: token_bucket, capacity: 3, refill: 1/m, block: 1"
    g = gateway(config(redis_store(redis), rule, others="    - {name: own, algorithm: token_bucket, capacity: 2, refill: 1/d, per: tenant}\n"))
    assert [get(g).status for _ in range(2)] == [200] * 2
    r = get(g)
    assert r.status == 429 and json.loads(r.body)["violated-policies"] == ["c.whole", "c.own"]
    assert int(r.header("Retry-After")) > 80000


def test_dry_run(gateway, redis):
    rule = "algorithm: fixed_window, limit: 5, window: 366d, block: 2, dry_run: true"
    g = gateway(config(redis_store(redis), rule))
    assert [get(g).status for _ in range(12)] == [200] * 12
    assert g.metric("slotgate_limit_decisions_total", limit="c.whole", mode="dry_run", outcome="allowed") == 5
    assert g.metric("slotgate_limit_decisions_total", limit="c.whole", mode="dry_run", outcome="denied") == 7
    assert own_count(redis) == 12


def test_costs_of_other_sizes(gateway, redis):
    """A cost above the block is taken in one; one above the limit never passes."""
    routes = "".join("  - {name: r%d, match: {path: /%d}, classes: [c], cost: %d, respond: {status: 200}}\n" % (n, n, n) for n in (0, 1, 7, 60, 1001))
    g = gateway(config(redis_store(redis), routes=routes))
    spent = 0
    for n in (60, 1, 7, 60, 0, 1, 7, 7, 60, 1, 1):
        assert get(g, path="/%d" % n).status == 200
        spent += n
    r = get(g, path="/1001")
    assert r.status == 429 and r.header("Retry-After") is None
    until("the rest is back", lambda: json.loads(subprocess.run(
        [PROGRAM, "explain", "--json", "-c", g.config_path, "GET", "http://gw.test/1", "-H", "X-API-Key: t0"],
        stdout=subprocess.PIPE, timeout=20, check=False).stdout)["limits"][0]["remaining"] == 1000 - spent)


def test_a_cost_that_is_known_afterwards(gateway, upstream, redis):
    """Less goes back where it was taken, more is charged: the ledger has what the upstream said."""
    charged = price(upstream)
    routes = "  - {name: priced, match: {path: /*}, classes: [c], cost: {reserve: 5, from: {response_header: X-Cost}}, upstream: up}\n"
    for algorithm in sorted(RULES):
        del charged[:]
        redis("FLUSHALL")
        g = gateway(config(redis_store(redis), RULES[algorithm].replace("1001", "100001").replace("limit: 1000", "limit: 100000"),
                           routes=routes, upstream=upstream.url))
        left = 100000
        with g.connect() as c:
            for n in (0, 9, 5, 3, 40, 2, 1, 5, 17, 4, 4, 4, 0, 0, 12):
                assert c.request("GET", "/tokens/%d" % n, key()).status == 200
        until("all is settled: " + algorithm, lambda: explain(g)[0] == left - sum(charged))
        assert units([g], "lost") == 0


# --- reloads and failures ----------------------------------------------------------------------------------------------------


def test_a_changed_limit(gateway, redis):
    """Used stays used; what was taken under the old rule goes back."""
    text = config(redis_store(redis))
    g = gateway(text)
    with g.connect() as c:
        for _ in range(100):
            assert c.request("GET", "/x", key()).status == 200
    assert g.reload(text.replace("limit: 1000,", "limit: 150,"))
    until("the rest is back", lambda: explain(g)[0] == 50)
    with g.connect() as c:
        got = [c.request("GET", "/x", key()).status for _ in range(80)]
    assert got == [200] * 50 + [429] * 30
    assert g.reload(text)
    until("the limit is the old one", lambda: explain(g)[0] == 850)
    assert g.reload(text.replace("block: 50", "block: 10"))
    with g.connect() as c:
        assert [c.request("GET", "/x", key()).status for _ in range(900)].count(200) == 850


def test_reloads_under_load(gateway, redis):
    text = config(redis_store(redis))
    g = gateway(text)
    flood = Flood([g], 6)
    for n in range(10):
        assert g.reload(text.replace("block: 50", "block: %d" % (10 + n)))
        before = units([g], "taken")
        until("it goes on", lambda: units([g], "taken") > before or get(g).status == 429)
    until("all is spent", lambda: get(g).status == 429)
    seen = flood.join()
    assert sum(s == 200 for _, _, s in seen) <= 1000
    until("what was used is used", lambda: explain(g)[0] == 0 or get(g).status == 200)


def test_an_asking_that_is_answered_too_late_goes_back(gateway, redis):
    proxy = RedisProxy(redis)
    g = gateway(config(redis_store(proxy, timeout="100ms", more=", on_failure: open")).replace("workers: 2", "workers: 1"))
    until("the store answers", lambda: g.metric("slotgate_store_up") == 1)
    proxy.delay_s = 0.3
    assert get(g).status == 200
    assert g.metric("slotgate_limit_decisions_total", source="open") > 0
    proxy.delay_s = 0
    until("what was granted too late is back", lambda: explain(gateway_of(redis, g))[0] == 1000)


class gateway_of:       # pylint: disable=invalid-name,too-few-public-methods
    """explain's config for the same Redis without the proxy."""

    def __init__(self, redis, g):
        self.config_path = g.config_path + ".direct"
        with open(g.config_path, encoding="utf-8") as f, open(self.config_path, "w", encoding="utf-8") as out:
            out.write("\n".join("store: " + redis_store(redis) if line.startswith("store:") else line for line in f.read().splitlines()))


def test_while_redis_is_away(gateway, redis):
    """The policy decides, with the same limit; when it is back, the ledger does."""
    g = gateway(config(redis_store(redis, timeout="200ms"), "algorithm: fixed_window, limit: 20, window: 366d, block: 5"))
    until("the store answers", lambda: get(g).status == 200 and g.metric("slotgate_limit_decisions_total", source="store") > 0)
    redis.freeze()
    got = [get(g).status for _ in range(60)]
    assert 500 not in got and got.count(429) >= 30
    assert g.metric("slotgate_limit_decisions_total", source="local") > 0
    redis.thaw()
    until("the store is back", lambda: g.metric("slotgate_store_up") == 1)
    until("it has denied", lambda: get(g).status == 429)
    calls = redis.evalsha_calls()
    until("and is asked", lambda: get(g).status == 429 and redis.evalsha_calls() > calls)


def test_the_memory_store_needs_no_blocks(gateway):
    """One process: the budget is counted where all workers see it."""
    g = gateway(config("{type: memory}"))
    got = Crowd([g], 16, 80, headers=key()).statuses
    assert got.count(200) == 1000 and got.count(429) == 280
    assert units([g], "taken") == 0


# --- a cluster ----------------------------------------------------------------------------------------------------------------


def tag(i):
    return base64.urlsafe_b64encode(hashlib.sha256(("tenant:" + name(i)).encode()).digest()).decode()[:22]


def all_slot(node):
    return node("CLUSTER", "KEYSLOT", "{all}")


def test_in_a_cluster(gateway, cluster):
    """Tenants in all nodes, the whole in one, whose slot moves to another under load; a gateway is killed."""
    store = '{type: redis, mode: cluster, nodes: ["%s"], timeout: 5s}' % cluster.seed()
    others = OWN % 10000000 + "    - {name: slots, algorithm: concurrency, limit: 1000, per: all}\n"
    limit, block = 9000, 90
    text = config(store, "algorithm: fixed_window, limit: %d, window: 366d" % limit, others)
    gateways = [gateway(text) for _ in range(4)]
    slot = all_slot(cluster.nodes[0])
    # The key is there, so the move can begin before the load: Valkey lets its replicas agree first, and all would be spent meanwhile.
    until("the cluster decides", lambda: get(gateways[0]).status == 200 and units(gateways, "taken") > 0)
    to = [n for n in cluster.masters() if n is not cluster.owner(slot)][0]
    source = cluster.begin_move(slot, to)
    flood = Flood(gateways, 12)
    until("it runs", lambda: units(gateways, "taken") > 300)
    cluster.move_keys(slot, source, to)
    before = units(gateways, "taken")
    until("it goes on while the slot moves", lambda: units(gateways, "taken") > before + 100)
    cluster.end_move(slot, to)
    gateways[0].kill()
    until("all is spent", lambda: get(gateways[1]).status == 429, 60)
    admitted = len(flood.admitted())
    assert admitted <= limit
    assert admitted >= limit - block - block * 3 - 40      # its share of the block, what others held at the end, and unanswered ones
    until("all came back", lambda: explain(gateways[1])[0] > 0 or get(gateways[1]).status == 429)
    for n in cluster.masters():
        assert "CROSSSLOT" not in n("INFO", "errorstats")
    until("no slot is held", lambda: sum(g.metric("slotgate_concurrency_leases", limit="c.slots") for g in gateways[1:]) == 0)


def test_slots_for_everybody_in_a_cluster(gateway, cluster, upstream):
    """concurrency per: all is asked for by itself, and exact."""
    gate = threading.Event()

    def hold(request, peer):
        gate.wait(20)
        peer.answer(200, body="held")
        return True
    upstream.on("/hold", hold)
    store = '{type: redis, mode: cluster, nodes: ["%s"], timeout: 5s, deny_cache: false}' % cluster.seed()
    routes = "  - {name: all, match: {path: /*}, classes: [c], upstream: up}\n"
    text = config(store, "algorithm: concurrency, limit: 3", routes=routes, upstream=upstream.url)
    gateways = [gateway(text) for _ in range(2)]
    until("the cluster decides", lambda: all(get(g, 1, "/x").status == 404 or get(g, 1, "/x").status == 200 for g in gateways))
    statuses, lock = [], threading.Lock()

    def ask(i):
        status = get(gateways[i % 2], i, "/hold").status
        with lock:
            statuses.append(status)
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(10)]
    for t in threads:
        t.start()
    until("seven are told to wait", lambda: statuses.count(429) == 7)
    gate.set()
    for t in threads:
        t.join()
    assert sorted(statuses) == [200] * 3 + [429] * 7
    until("all slots are back", lambda: [get(gateways[0], i, "/hold").status for i in range(3)] == [200] * 3)


def test_the_default_block_of_a_cluster(folder):
    path = os.path.join(folder, "c.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(config('{type: redis, mode: cluster, nodes: ["127.0.0.1:1"]}', "algorithm: fixed_window, limit: 3000, window: 1d"))
    done = subprocess.run([PROGRAM, "check", "--print", "-c", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False)
    assert done.returncode == 0 and b"per: all, block: 30" in done.stdout, done.stdout
