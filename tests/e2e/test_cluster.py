"""A real Redis Cluster of three masters and three replicas: slots found, moved and lost under load."""
import base64
import hashlib
import json
import subprocess
import threading

from harness.client import Malformed
from harness.gateway import PROGRAM, digest
from harness.wait import until

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 2}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
store: {{type: redis, mode: cluster, nodes: ["{seed}"], timeout: {timeout}, on_failure: open, deny_cache: false}}
classes:
  c:
    - {{name: l, algorithm: fixed_window, limit: {limit}, window: 366d, per: tenant}}
    - {{name: t, algorithm: token_bucket, capacity: 100000000, refill: 1/s, per: key}}
tenants:
{tenants}
routes:
  - {{name: all, match: {{path: /*}}, classes: [c], respond: {{status: 200}}}}
"""
CALLERS = 24


def name(i):
    return "t%d" % i


def config(cluster, limit=100000000, timeout="5s"):
    tenants = "".join("  %s: {keys: [{id: one, sha256: %s}]}\n" % (name(i), digest(name(i))) for i in range(CALLERS))
    return CONFIG.format(seed=cluster.seed(), limit=limit, timeout=timeout, tenants=tenants)


def tag(i):
    return base64.urlsafe_b64encode(hashlib.sha256(("tenant:" + name(i)).encode()).digest()).decode()[:22]


def counter(cluster, i):
    """What the cluster has counted of this tenant's window."""
    for n in cluster.masters():
        names = n("KEYS", "rl:fw:*{%s}*" % tag(i))
        if names:
            return int(cluster.value(names[0]))
    return 0


class Load:
    """One client per tenant; what each was told, and who decided."""

    def __init__(self, gateway, callers):
        self.gateway, self.stop, self.broken = gateway, threading.Event(), []
        self.statuses = {i: [] for i in callers}
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in callers]
        for t in self.threads:
            t.start()

    def _run(self, i):
        try:
            with self.gateway.connect() as c:
                while not self.stop.is_set():
                    self.statuses[i].append(c.request("GET", "/", {"X-API-Key": name(i)}).status)
        except (OSError, Malformed) as e:
            self.broken.append((i, repr(e)))

    def goes_on(self, each=5):
        before = {i: len(s) for i, s in self.statuses.items()}
        until("every caller is answered", lambda: self.broken or all(len(s) >= before[i] + each for i, s in self.statuses.items()))

    def join(self):
        self.stop.set()
        for t in self.threads:
            t.join()
        assert self.broken == []


def warm(g):
    """Every caller's slot is known to both workers, and every node has the script."""
    def all_by_the_store():
        before = g.metric("slotgate_limit_decisions_total", source="open")
        for _ in range(4):
            for i in range(CALLERS):
                assert g.get("/", {"X-API-Key": name(i)}).status == 200
        return g.metric("slotgate_limit_decisions_total", source="open") == before
    until("all is decided by the cluster", all_by_the_store)


def sources(g, n):
    """Per tenant: how many each source decided."""
    until("all is logged", lambda: len(g.access()) >= n)
    out = {i: {"store": 0, "open": 0} for i in range(CALLERS)}
    for e in g.access():
        out[int(e["slotgate.tenant"][1:])][e["slotgate.limit.source"]] += 1
    return out


def check_counts(g, cluster, load, exact):
    """Exactly what the store decided was counted, for the callers in `exact`; nobody was counted more often than he asked."""
    n = int(g.metric("slotgate_http_requests_total"))
    by = sources(g, n)
    for i in range(CALLERS):
        used = counter(cluster, i)
        if i in exact:
            assert used == by[i]["store"], (i, used, by[i])
        assert used <= by[i]["store"] + by[i]["open"], (i, used, by[i])
    assert all(set(s) == {200} for s in load.statuses.values())
    return by


def refusals(g):
    return " ".join(e["error"] for e in g.events("store refuses decisions"))


def test_slots_are_learned_and_scripts_brought_to_each_node(gateway, cluster):
    g = gateway(config(cluster, limit=5))
    until("connected", lambda: g.metric("slotgate_store_up") == 1)
    for i in range(CALLERS):
        got = [g.get("/", {"X-API-Key": name(i)}).status for _ in range(7)]
        assert got == [200] * 5 + [429] * 2, (i, got)
    assert g.metric("slotgate_limit_decisions_total", source="open") == 0
    assert g.metric("slotgate_store_errors_total") == 0 and not g.events("store refuses decisions")
    # explain asks the node that has them, and finds the limit used up.
    for i in range(4):
        done = subprocess.run([PROGRAM, "explain", "-c", g.config_path, "--json", "GET", "/", "-H", "X-API-Key: " + name(i)],
                              capture_output=True, text=True, timeout=60, check=False)
        told = json.loads(done.stdout)
        assert done.returncode == 1 and told["answer"]["status"] == 429 and told["limits"][0]["remaining"] == 0, told
    masters = cluster.masters()
    assert len(masters) == 3
    calls = [m.evalsha_calls() for m in masters]
    assert all(m("DBSIZE") > 0 for m in masters) and all(calls)
    # The map is kept: a caller that was seen by both workers is asked for at one node only, with one call.
    warm_calls = None
    for _ in range(40):
        before = sum(m.evalsha_calls() for m in masters)
        g.get("/", {"X-API-Key": name(0)})
        warm_calls = sum(m.evalsha_calls() for m in masters) - before
        if warm_calls == 1:
            break
    assert warm_calls == 1
    # A node that lost its scripts gets them again, the others do not notice.
    masters[0]("SCRIPT", "FLUSH")
    for i in range(CALLERS):
        assert g.get("/", {"X-API-Key": name(i)}).status == 429
    assert g.metric("slotgate_store_errors_total") == 0


def all_by_the_cluster(g, load):
    """Where every key has one place, no request gets the policy; those that were under way before may have."""
    load.goes_on(2)
    before = g.metric("slotgate_limit_decisions_total", source="open")
    load.goes_on(10)
    assert g.metric("slotgate_limit_decisions_total", source="open") == before


def test_a_slot_moves_under_load(gateway, cluster):
    g = gateway(config(cluster))
    warm(g)
    slot = cluster.nodes[0]("CLUSTER", "KEYSLOT", tag(0))
    moving = {i for i in range(CALLERS) if cluster.nodes[0]("CLUSTER", "KEYSLOT", tag(i)) == slot}
    to = next(m for m in cluster.masters() if m is not cluster.owner(slot))
    load = Load(g, range(CALLERS))
    for to in (to, cluster.owner(slot)):        # there and back
        source = cluster.begin_move(slot, to)
        load.goes_on()
        cluster.move_keys(slot, source, to)
        asked = to.calls("asking")
        all_by_the_cluster(g, load)             # ASK
        assert to.calls("asking") > asked
        cluster.end_move(slot, to)
        all_by_the_cluster(g, load)             # MOVED
    load.join()
    still = set(range(CALLERS)) - moving
    by = check_counts(g, cluster, load, set(range(CALLERS)))
    assert all(by[i]["open"] == 0 for i in still), by
    assert all(by[i]["store"] > by[i]["open"] for i in moving), by
    assert "CROSSSLOT" not in refusals(g) and not g.events("store away")
    warm(g)


def test_a_master_dies_under_load(gateway, cluster):
    g = gateway(config(cluster, timeout="500ms"))
    warm(g)
    victim = cluster.masters()[1]
    on = {i: cluster.owner(cluster.nodes[0]("CLUSTER", "KEYSLOT", tag(i))) for i in range(CALLERS)}
    theirs = {i for i in range(CALLERS) if on[i] is victim}
    assert theirs and len(theirs) < CALLERS
    load = Load(g, range(CALLERS))
    load.goes_on()
    victim.stop()
    until("a replica is promoted", lambda: len(cluster.masters()) == 3)
    decided = g.metric("slotgate_limit_decisions_total", source="store")
    load.goes_on(20)

    def all_by_the_store():
        before = g.metric("slotgate_limit_decisions_total", source="open")
        load.goes_on(10)
        return g.metric("slotgate_limit_decisions_total", source="open") == before
    until("the cluster decides all again", all_by_the_store)
    load.join()
    assert g.metric("slotgate_limit_decisions_total", source="store") > decided
    by = check_counts(g, cluster, load, set(range(CALLERS)) - theirs)
    assert all(by[i]["open"] == 0 for i in set(range(CALLERS)) - theirs), by
    assert sum(by[i]["open"] for i in theirs) > 0
    assert "CROSSSLOT" not in refusals(g)
    assert g.metric("slotgate_http_requests_total", code="500") == 0
    until("all are up again", lambda: g.metric("slotgate_store_up") == 1 and g.metric("slotgate_store_breaker_open") == 0)
    victim.start()                              # as a replica of the new master
    until("it follows", lambda: not cluster.is_master(victim))
    warm(g)
    assert "name=slotgate" not in victim("CLIENT", "LIST")     # a node that is lost is not dialled for ever
