"""Limits end to end: exact, all or nothing, over one gateway and over four, on both stores."""
import threading

import pytest

from harness.gateway import digest
from harness.wait import until

KEY = {"X-API-Key": "k-acme"}

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: {workers}}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
store: {store}
classes:
{classes}
tenants:
  acme: {{plan: gold, keys: [{{id: one, sha256: {acme}}}, {{id: two, sha256: {two}}}]}}
  umbrella: {{keys: [{{id: only, sha256: {umbrella}}}]}}
plans: {{gold: {{}}}}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes:
{routes}
"""


def config(upstream, classes, routes=None, store="{type: memory}", workers=1):
    names = [line.split(":")[0].strip() for line in classes.splitlines() if line.startswith("  ") and line[2] != " "]
    routes = routes or "  - {name: all, match: {path: /*}, classes: [%s], upstream: up}\n" % ", ".join(names)
    return CONFIG.format(workers=workers, store=store, classes=classes, routes=routes, upstream=upstream.url,
                         acme=digest("k-acme"), two=digest("k-two"), umbrella=digest("k-umbrella"))


def redis_store(redis, timeout="2s"):
    # A generous deadline: these tests are about counting, on machines that are busy.
    return '{type: redis, url: "unix://%s", timeout: %s}' % (redis.path, timeout)


@pytest.fixture(params=["memory", "redis"])
def store(request):
    if request.param == "memory":
        return "{type: memory}"
    return redis_store(request.getfixturevalue("redis"))


def statuses(gateway, n, headers=KEY, path="/x"):
    with gateway.connect() as c:
        return [c.request("GET", path, headers).status for _ in range(n)]


ALGORITHMS = {
    "token_bucket": "algorithm: token_bucket, capacity: 5, refill: 1/h",
    "gcra": "algorithm: gcra, burst: 5, rate: 1/h",
    "fixed_window": "algorithm: fixed_window, limit: 5, window: 366d",
    "sliding_window": "algorithm: sliding_window, limit: 5, window: 1h",
    "sliding_log": "algorithm: sliding_log, limit: 5, window: 1h",
}


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_exactly_the_limit_passes(gateway, upstream, store, algorithm):
    g = gateway(config(upstream, "  c: [{name: l, %s, per: key}]\n" % ALGORITHMS[algorithm], store=store))
    remaining = []
    with g.connect() as c:
        for i in range(7):
            a = c.request("GET", "/x", KEY)
            assert a.status == (200 if i < 5 else 429)
            remaining.append(int(a.header("RateLimit").split(";r=")[1].split(";")[0]))
            assert '"c.l";q=5' in a.header("RateLimit-Policy")
            if i >= 5:
                assert int(a.header("Retry-After")) >= 1
                assert '"violated-policies":["c.l"]' in a.text
                assert a.header("Content-Type") == "application/problem+json"
    assert remaining == [4, 3, 2, 1, 0, 0, 0]
    assert upstream.count("/x") == 5


def test_sliding_log_of_3_per_1000_ms(gateway, upstream, store):
    """Five in a row: allowed with 2, 1, 0 left, then two denials; after the window allowed again with 2 left."""
    routes = """  - {name: one, match: {path: /x}, classes: [c], upstream: up}
  - {name: look, match: {path: /look}, classes: [c], cost: 0, upstream: up}
"""
    classes = "  c: [{name: l, algorithm: sliding_log, limit: 3, window: 1000ms, per: key}]\n"
    g = gateway(config(upstream, classes, routes, store))

    def left(path):
        a = g.get(path, KEY)
        return a.status, int(a.header("RateLimit").split(";r=")[1].split(";")[0])

    def five():
        until("nothing is used", lambda: left("/look") == (200, 3))
        return [left("/x") for _ in range(5)]
    # On a machine that stalls for a second a window may end between two requests: such a try does not count.
    until("five requests within one window", lambda: five() == [(200, 2), (200, 1), (200, 0), (429, 0), (429, 0)])
    until("the window is over", lambda: left("/look") == (200, 3))
    assert left("/x") == (200, 2)


def test_denied_by_one_charges_no_other(gateway, upstream, store):
    classes = """  user: [{name: min, algorithm: fixed_window, limit: 2, window: 366d, per: key}]
  org: [{name: min, algorithm: fixed_window, limit: 10, window: 366d, per: tenant}]
"""
    g = gateway(config(upstream, classes, store=store))
    assert statuses(g, 8) == [200] * 2 + [429] * 6
    a = g.get("/x", {"X-API-Key": "k-two"})
    assert a.status == 200 and '"org.min";r=7' in a.header("RateLimit")      # 10 - 2 - 1


def test_dry_run_never_denies_and_is_counted_apart(gateway, upstream, store):
    classes = """  c:
    - {name: real, algorithm: fixed_window, limit: 100, window: 366d, per: key}
    - {name: trial, algorithm: fixed_window, limit: 5, window: 366d, per: key, dry_run: true}
"""
    g = gateway(config(upstream, classes, store=store))
    with g.connect() as c:
        for _ in range(8):
            a = c.request("GET", "/x", KEY)
            assert a.status == 200 and a.header("Retry-After") is None and "trial" not in a.header("RateLimit")
    assert g.metric("slotgate_limit_decisions_total", limit="c.trial", mode="dry_run", outcome="denied") == 3
    assert g.metric("slotgate_limit_decisions_total", limit="c.trial", mode="enforced") == 0


def test_cost(gateway, upstream, store):
    routes = """  - {name: nine, match: {path: /nine}, classes: [c], cost: 9, upstream: up}
  - {name: two, match: {path: /two}, classes: [c], cost: 2, upstream: up}
  - {name: peek, match: {path: /peek}, classes: [c], cost: 0, upstream: up}
  - {name: eleven, match: {path: /eleven}, classes: [c], cost: 11, upstream: up}
  - {name: one, match: {path: /one}, classes: [c], upstream: up}
"""
    g = gateway(config(upstream, "  c: [{name: l, algorithm: fixed_window, limit: 10, window: 366d, per: key}]\n", routes, store))
    a = g.get("/eleven", KEY)
    assert a.status == 429 and a.header("Retry-After") is None
    assert g.get("/nine", KEY).status == 200
    denied = g.get("/two", KEY)
    assert denied.status == 429 and '"c.l";r=1' in denied.header("RateLimit")
    assert '"c.l";r=1' in g.get("/peek", KEY).header("RateLimit")
    assert g.get("/one", KEY).status == 200
    assert g.get("/one", KEY).status == 429


def test_zero_denies_all_and_unlimited_is_off(gateway, upstream, store):
    base = config(upstream, "  c: [{name: l, algorithm: fixed_window, limit: 0, window: 1h, per: key}]\n", store=store)
    g = gateway(base)
    assert statuses(g, 2) == [429, 429]
    assert g.reload(base.replace("gold: {}", "gold: {c.l: {limit: unlimited}}"))
    until("the plan is in use", lambda: statuses(g, 1) == [200])
    assert statuses(g, 20) == [200] * 20
    assert statuses(g, 1, {"X-API-Key": "k-umbrella"}) == [429]


def test_scopes(gateway, upstream, store):
    classes = """  c:
    - {name: t, algorithm: fixed_window, limit: 100, window: 366d, per: tenant}
    - {name: k, algorithm: fixed_window, limit: 100, window: 366d, per: key}
    - {name: i, algorithm: fixed_window, limit: 100, window: 366d, per: ip}
"""
    g = gateway(config(upstream, classes, store=store))
    assert statuses(g, 3) == [200] * 3
    after = g.get("/x", {"X-API-Key": "k-two"}).header("RateLimit")
    assert '"c.t";r=96' in after and '"c.k";r=99' in after and '"c.i";r=96' in after
    other = g.get("/x", {"X-API-Key": "k-umbrella"}).header("RateLimit")
    assert '"c.t";r=99' in other and '"c.k";r=99' in other and '"c.i";r=99' in other


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_one_budget_for_everybody(gateway, upstream, store, algorithm):
    """Its numbers are the same for all callers: under smaller ones a denial would put right what the others owe."""
    base = config(upstream, "  c: [{name: l, %s, per: all}]\n" % ALGORITHMS[algorithm], store=store)
    g = gateway(base)
    assert statuses(g, 3) == [200] * 3
    assert statuses(g, 3, {"X-API-Key": "k-umbrella"}) == [200, 200, 429]
    assert statuses(g, 1) == [429]
    number = {"token_bucket": "capacity", "gcra": "burst"}.get(algorithm, "limit")
    assert not g.reload(base.replace("gold: {}", "gold: {c.l: {%s: 2}}" % number))
    assert "one budget for everybody" in g.log()
    assert g.reload(base.replace("gold: {}", "gold: {c.l: {limit: unlimited}}"))
    until("the plan is in use", lambda: statuses(g, 1) == [200])
    assert statuses(g, 1, {"X-API-Key": "k-umbrella"}) == [429]


def test_routes_of_one_class_share_its_counters(gateway, upstream, store):
    routes = "".join("  - {name: r%d, match: {path: /r%d}, classes: [c], upstream: up}\n" % (i, i) for i in range(3))
    g = gateway(config(upstream, "  c: [{name: l, algorithm: fixed_window, limit: 10, window: 366d, per: key}]\n", routes, store))
    answers = [g.get("/r%d" % (i % 3), KEY).status for i in range(30)]
    assert answers == [200] * 10 + [429] * 20


class Crowd:
    """Many clients at once; results are the statuses."""

    def __init__(self, gateways, connections, requests, path="/x", headers=KEY):
        self.statuses, self.errors, self.lock = [], [], threading.Lock()
        threads = [threading.Thread(target=self._client, args=(gateways[i % len(gateways)], requests, path, headers))
                   for i in range(connections)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not self.errors, self.errors[:3]

    def _client(self, gateway, requests, path, headers):
        try:
            with gateway.connect(timeout=60) as c:
                mine = [c.request("GET", path, headers).status for _ in range(requests)]
        except Exception as e:      # pylint: disable=broad-except
            self.errors.append(repr(e))
            return
        with self.lock:
            self.statuses += mine


def test_20_at_once_of_a_limit_of_3(gateway, upstream, store):
    g = gateway(config(upstream, "  c: [{name: l, algorithm: sliding_log, limit: 3, window: 1h, per: key}]\n", store=store, workers=2))
    got = Crowd([g], 20, 1).statuses
    assert sorted(got) == [200] * 3 + [429] * 17


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_four_gateways_one_redis_exactly_1000(gateway, upstream, redis, algorithm):
    rule = ALGORITHMS[algorithm].replace(": 5", ": 1000")
    text = config(upstream, "  c: [{name: l, %s, per: key}]\n" % rule, store=redis_store(redis, "10s"))
    text = text.replace("upstream: up", "respond: {status: 200}")
    gateways = [gateway(text) for _ in range(4)]
    got = Crowd(gateways, 64, 25).statuses
    assert got.count(200) == 1000 and got.count(429) == 600


CONCURRENCY = "  c: [{name: slots, algorithm: concurrency, limit: 3, lease: 5m, per: tenant}]\n"


def in_use(g):
    return g.metric("slotgate_concurrency_leases", limit="c.slots")


def test_concurrency_slots_come_back_on_every_way_a_request_ends(gateway, upstream, store):
    gate = threading.Event()

    def hold(request, peer):
        gate.wait(20)
        peer.answer(200, body="held")
        return True

    def cut_in_body(request, peer):
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        return False
    upstream.on("/hold", hold)
    upstream.on("/broken", lambda request, peer: peer.reset())
    upstream.on("/garbage", lambda request, peer: peer.send("nonsense\r\n\r\n"))
    upstream.on("/cut", cut_in_body)
    text = config(upstream, CONCURRENCY, store=store).replace(
        "routes:\n", "routes:\n  - {name: fast, match: {path: /never}, classes: [c], timeout: 50ms, upstream: up}\n")
    g = gateway(text)
    upstream.on("/never", hold)

    held = [g.connect().send("GET /hold HTTP/1.1\r\nHost: h\r\nX-API-Key: k-acme\r\n\r\n") for _ in range(3)]
    until("three are held", lambda: upstream.count("/hold") == 3)
    full = g.get("/x", KEY)
    assert full.status == 429 and int(full.header("Retry-After")) >= 1
    held[0].abort()                                                     # the client goes
    until("the slot of the client that went", lambda: g.get("/x", KEY).status == 200)
    gate.set()
    assert [c.answer().status for c in held[1:]] == [200, 200]          # an answer
    until("no slot in use", lambda: in_use(g) == 0)
    for _ in range(4):
        assert g.get("/broken", KEY).status == 502                      # the upstream resets
        assert g.get("/garbage", KEY).status == 502                     # is not HTTP
        gate.clear()
        assert g.get("/never", KEY).status == 504                       # does not answer
        gate.set()
        with g.connect() as c:                                          # breaks off in the body
            c.send("GET /cut HTTP/1.1\r\nHost: h\r\nX-API-Key: k-acme\r\n\r\n")
            until("the cut is seen", c.at_end_of_stream)
    until("no slot in use", lambda: in_use(g) == 0)
    gate.clear()
    held = [g.connect().send("GET /hold HTTP/1.1\r\nHost: h\r\nX-API-Key: k-acme\r\n\r\n") for _ in range(3)]
    until("three are held", lambda: upstream.count("/hold") == 6)       # all three slots are there again
    assert g.get("/x", KEY).status == 429
    gate.set()
    for c in held:
        c.close()
    until("no slot in use", lambda: in_use(g) == 0)


def test_a_reload_keeps_every_counter_and_a_changed_limit_holds_at_once(gateway, upstream, store):
    base = config(upstream, "  c: [{name: l, algorithm: fixed_window, limit: 10, window: 366d, per: key}]\n", store=store)
    g = gateway(base)
    assert statuses(g, 7) == [200] * 7
    for _ in range(3):
        assert g.reload()
    assert g.reload(base.replace("limit: 10", "limit: 5"))
    until("5 is in force", lambda: g.get("/x", KEY).status == 429)
    a = g.get("/x", KEY)
    assert '"c.l";r=0' in a.header("RateLimit") and '"c.l";q=5' in a.header("RateLimit-Policy")
    assert g.reload(base.replace("limit: 10", "limit: 20"))
    until("20 is in force", lambda: '"c.l";q=20' in g.get("/nowhere", KEY).header("RateLimit-Policy"))
    got = statuses(g, 14)
    assert got == [200] * 12 + [429] * 2        # 20 - 7 - the one that looked


@pytest.mark.parametrize("dialect,draft,legacy", [("draft", 1, 0), ("legacy", 0, 1), ("both", 1, 1), ("none", 0, 0)])
def test_header_dialects(gateway, upstream, dialect, draft, legacy):
    text = config(upstream, "  c: [{name: l, algorithm: fixed_window, limit: 1, window: 366d, per: key}]\n")
    g = gateway(text.replace("workers: 1", "workers: 1, headers: " + dialect))
    for status in (200, 429):
        a = g.get("/x", KEY)
        assert a.status == status
        assert len(a.all("RateLimit")) == len(a.all("RateLimit-Policy")) == draft
        for name in ("Limit", "Remaining", "Reset"):
            assert len(a.all("X-RateLimit-" + name)) == legacy
    assert int(a.header("Retry-After")) >= 1
    if legacy:
        assert (a.header("X-RateLimit-Limit"), a.header("X-RateLimit-Remaining")) == ("1", "0")


def test_an_upstreams_own_rate_headers(gateway, upstream):
    """Replaced where the gateway has a limit, passed where it has none."""
    upstream.on("/own", lambda request, peer: peer.answer(200, [("RateLimit", '"theirs";r=1'), ("X-RateLimit-Limit", "7")]) or True)
    routes = """  - {name: limited, match: {path: /own, methods: [GET]}, classes: [c], upstream: up}
  - {name: free, match: {path: /own, methods: [POST]}, upstream: up}
"""
    g = gateway(config(upstream, "  c: [{name: l, algorithm: fixed_window, limit: 9, window: 366d, per: key}]\n", routes))
    limited = g.get("/own", KEY)
    assert limited.header("RateLimit").startswith('"c.l"') and limited.all("X-RateLimit-Limit") == []
    free = g.get("/own", method="POST", body=b"")
    assert free.header("RateLimit") == '"theirs";r=1' and free.header("X-RateLimit-Limit") == "7"


def test_large_numbers_are_exact(gateway, upstream, store):
    routes = "  - {name: big, match: {path: /*}, classes: [c], cost: 4294967296, upstream: up}\n"
    g = gateway(config(upstream, "  c: [{name: l, algorithm: fixed_window, limit: 30000000000, window: 366d, per: key}]\n", routes, store))
    left = []
    for _ in range(7):
        a = g.get("/x", KEY)
        left.append((a.status, int(a.header("RateLimit").split(";r=")[1].split(";")[0])))
    assert left == [(200, 30000000000 - 4294967296 * i) for i in range(1, 7)] + [(429, 30000000000 - 4294967296 * 6)]
