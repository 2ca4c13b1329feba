"""The outage ladder: a Redis that fails in each way it can, one after the other. Nobody gets a 500, nobody waits twice, nothing is
counted twice, there is no storm of connections, and what happened can be seen."""
import json
import os
import resource
import subprocess
import threading
import time

import pytest

from harness.gateway import PROGRAM, digest
from harness.redis import Redis
from harness.redis_proxy import RedisProxy
from harness.wait import until

KEY = {"X-API-Key": "k-acme"}
OTHER = {"X-API-Key": "k-other"}

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: {workers}, trusted_proxies: [127.0.0.1]}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
store: {{type: redis, url: "{url}", timeout: {timeout}, on_failure: {policy}, {store}}}
classes:
  c: [{{name: l, algorithm: {algorithm}, per: key}}]
tenants:
  acme: {{keys: [{{id: one, sha256: {acme}}}]}}
  other: {{keys: [{{id: one, sha256: {other}}}]}}
routes:
  - {{name: inherit, match: {{path: /inherit}}, auth: optional, classes: [c], respond: {{status: 200}}}}
  - {{name: local, match: {{path: /local}}, auth: optional, classes: [c], respond: {{status: 200}}, on_store_failure: local}}
  - {{name: open, match: {{path: /open}}, auth: optional, classes: [c], respond: {{status: 200}}, on_store_failure: open}}
  - {{name: closed, match: {{path: /closed}}, auth: optional, classes: [c], respond: {{status: 200}}, on_store_failure: {closed}}}
"""

PLENTY = "fixed_window, limit: 100000000, window: 366d"


@pytest.fixture
def proxy(redis):
    p = RedisProxy(redis)
    yield p
    p.close()


def config(url, policy="local", timeout="250ms", workers=1, store="", algorithm=PLENTY, closed="closed"):
    return CONFIG.format(url=url, policy=policy, timeout=timeout, workers=workers, store=store, algorithm=algorithm, closed=closed,
                         acme=digest("k-acme"), other=digest("k-other"))


def source(g, name):
    return g.metric("slotgate_limit_decisions_total", source=name)


def errors(g, *kinds):
    return sum(g.metric("slotgate_store_errors_total", kind=k) for k in kinds)


def ask(g, n=1, headers=KEY, path="/inherit"):
    with g.connect() as c:
        return [c.request("GET", path, headers).status for _ in range(n)]


def settled(g):
    """Redis decides, and the breaker is closed."""
    def good():
        before = source(g, "store")
        return ask(g) == [200] and source(g, "store") > before and g.metric("slotgate_store_up") == 1 and \
            g.metric("slotgate_store_breaker_open") == 0
    until("Redis decides", good)
    return g


def descriptors(g, redis):
    """How many it has open while both its worker and its admin listener are connected."""
    until("both are connected", lambda: redis("CLIENT", "LIST").count("name=slotgate") == 2)
    return g.fds()


def status_of_store(g):
    return json.loads(g.admin("/status")[2])["store"]


class Stopped:
    kinds, opens = ("connect", "reset"), True

    def __init__(self, redis, proxy):
        self.redis, self.proxy = redis, proxy

    def begin(self):
        self.redis.stop()

    def end(self):
        self.redis.start()
        self.proxy.heal()


class Frozen(Stopped):
    kinds = ("timeout",)

    def begin(self):
        self.redis.freeze()

    def end(self):
        self.redis.thaw()


class TooSlow(Stopped):
    """Each reply comes, later than anybody waits for it."""
    kinds = ("timeout",)

    def begin(self):
        self.proxy.delay_s = 0.5


class Answers(Stopped):
    reply = {}

    def begin(self):
        self.proxy.canned = self.reply


class Loading(Answers):
    kinds, reply = ("loading",), {"*": b"-LOADING Redis is loading the dataset in memory\r\n"}


class LoadingScriptsOnly(Answers):
    kinds, reply = ("loading",), {"EVALSHA": b"-LOADING Redis is loading the dataset in memory\r\n"}


class ReadOnly(Answers):
    kinds, reply = ("readonly",), {"EVALSHA": b"-READONLY You can't write against a read only replica.\r\n"}


class NoAuth(Answers):
    kinds, reply = ("auth",), {"*": b"-NOAUTH Authentication required.\r\n"}


class OutOfMemory(Answers):
    kinds, opens = ("oom",), False
    reply = {"EVALSHA": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"}


class WrongType(Answers):
    kinds, opens = ("wrongtype",), False
    reply = {"EVALSHA": b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"}


class Unknown(Answers):
    kinds, opens = ("other",), False
    reply = {"EVALSHA": b"-ERR something new\r\n"}


class Garbage(Answers):
    kinds, reply = ("protocol",), {"*": b"HTTP/1.1 400 Bad Request\r\n\r\n"}


class GarbageFromScripts(Answers):
    kinds, reply = ("protocol",), {"EVALSHA": b"*2\r\n:1\r\n$3\r\nabc\r\n"}


class Swallowed(Stopped):
    """Redis executes, and its replies are lost on the way."""
    kinds = ("timeout",)

    def begin(self):
        self.proxy.swallow = True


class Cut(Stopped):
    """Redis executes, and the connection breaks before the reply is through."""
    kinds = ("reset",)

    def begin(self):
        self.proxy.cut = True


class Refused(Stopped):
    """What stands in front takes connections and closes them; those that are open break."""
    kinds = ("reset", "connect")

    def begin(self):
        self.proxy.refuse = self.proxy.cut = True


LADDER = [Stopped, Frozen, TooSlow, Loading, LoadingScriptsOnly, ReadOnly, NoAuth, OutOfMemory, WrongType, Unknown, Garbage,
          GarbageFromScripts, Swallowed, Cut, Refused]
EACH = 40


@pytest.mark.parametrize("rung", LADDER, ids=lambda r: r.__name__)
def test_ladder(gateway, redis, proxy, rung):
    g = settled(gateway(config(proxy.url)))
    fault = rung(redis, proxy)
    fds, before = descriptors(g, redis), {s: source(g, s) for s in ("store", "local", "open", "closed")}
    accepted, began = proxy.accepted, time.monotonic()
    logged = {m: len(g.events(m)) for m in ("store away", "store is back", "store refuses decisions")}

    fault.begin()
    expected = {"/inherit": 200, "/local": 200, "/open": 200, "/closed": 503}
    if not rung.opens or rung in (Loading, NoAuth, Garbage):
        assert ask(g) == [200]      # a heartbeat may take some turns to notice; a decision does not
    for _ in range(5):              # until the breaker is open
        for path, status in expected.items():
            assert ask(g, path=path) == [status], path
    for path, status in expected.items():
        assert ask(g, EACH, path=path) == [status] * EACH, path

    # Each was decided by the policy of its route, and none by the store.
    g.access_count(int(sum(before.values())) + 4 * (EACH + 5) + (1 if not rung.opens or rung in (Loading, NoAuth, Garbage) else 0))
    assert source(g, "store") == before["store"]
    assert source(g, "open") - before["open"] == source(g, "closed") - before["closed"] == EACH + 5
    assert g.metric("slotgate_http_requests_total", code="500") == 0
    assert errors(g, *rung.kinds) >= 1

    # What happened can be seen.
    if rung.opens:
        until("the breaker is open", lambda: g.metric("slotgate_store_breaker_open") == 1 and g.metric("slotgate_store_up") == 0)
        until("not ready", lambda: g.admin("/readyz")[0] == 503 and "store" in g.admin("/readyz?verbose")[2])
        until("/status says so", lambda: status_of_store(g)["up"] is False and status_of_store(g)["breaker_open"] is True)
        assert errors(g, "timeout") < 20, "the breaker did not keep requests from waiting"
    else:
        assert g.metric("slotgate_store_up") == 1
        until("ready", lambda: g.admin("/readyz")[0] == 200)
        assert errors(g, *rung.kinds) == 4 * (EACH + 5) + 1
    until("/status says why", lambda: status_of_store(g)["last_error"])
    assert g.admin("/healthz")[0] == 200
    refusals = len(g.events("store refuses decisions")) - logged["store refuses decisions"]
    assert refusals <= 1 + (time.monotonic() - began) / 5       # at most one of a kind in five seconds
    if rung.opens:
        assert not g.events("store is back"), g.log()           # an answered PING is not enough
    assert g.events("store away" if rung.opens else "store refuses decisions")[-1]["kind"] in rung.kinds + ("timeout",)

    # No storm: the pauses double up to 400 ms, and half of each is random.
    attempts = proxy.accepted - accepted
    assert attempts <= 8 + (time.monotonic() - began) / 0.2, attempts

    fault.end()
    settled(g)
    until("ready", lambda: g.admin("/readyz")[0] == 200)
    # One line each way: by the worker, and by the admin listener's own connection when it lasted long enough.
    def lines(message):
        return len(g.events(message)) - logged[message]
    until("each line has its other half", lambda: lines("store away") == lines("store is back"))
    assert (1 if rung.opens else 0) <= lines("store away") <= 2, g.log()
    until("as many descriptors as before", lambda: g.fds() <= fds)


@pytest.mark.parametrize("rung", [Swallowed, Cut], ids=lambda r: r.__name__)
def test_what_may_have_counted_is_not_sent_again(gateway, redis, proxy, rung):
    """Counted where it counts: each request uses at most one unit, those that got a reply exactly one."""
    g = settled(gateway(config(proxy.url, store="deny_cache: false", policy="open")))
    name = [k for k in redis.keys() if ":fw:" in k][0]
    used, executed, decided = int(redis("GET", name)), proxy.executed["EVALSHA"], source(g, "store")
    fault = rung(redis, proxy)
    fault.begin()
    asked = 0
    while errors(g, *rung.kinds) < 3 or asked < 60:
        assert ask(g, 3) == [200] * 3
        asked += 3
    sent = proxy.executed["EVALSHA"] - executed
    assert sent >= 1
    assert int(redis("GET", name)) - used == sent <= asked
    assert source(g, "store") == decided
    # One for each failure that was counted, and no more: nothing came twice.
    assert sent <= errors(g, "timeout", "reset")
    fault.end()
    settled(g)
    total = int(redis("GET", name)) - used
    assert total == sent + source(g, "store") - decided


@pytest.mark.parametrize("delay_ms", [1, 20, 100])
def test_slow_but_in_time(gateway, redis, proxy, delay_ms):
    """A slow Redis is still the one that decides: no request goes to the policy, and no connection is made anew."""
    g = settled(gateway(config(proxy.url, timeout="10s")))
    proxy.delay_s = delay_ms / 1000
    accepted, decided = proxy.accepted, source(g, "store")
    got = []
    threads = [threading.Thread(target=lambda: got.extend(ask(g, 5))) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [200] * 80
    g.access_count(80 + int(decided))
    assert source(g, "store") == decided + 80 and source(g, "local") == 0
    assert proxy.accepted == accepted and g.metric("slotgate_store_errors_total") == 0


@pytest.mark.parametrize("policy", ["local", "open", "closed"])
def test_policy_of_the_store_and_of_a_route(gateway, redis, proxy, policy):
    g = settled(gateway(config(proxy.url, policy=policy)))
    redis.stop()
    status = 503 if policy == "closed" else 200
    assert ask(g, 10) == [status] * 10
    assert ask(g, 10, path="/local") == ask(g, 10, path="/open") == [200] * 10
    assert ask(g, 10, path="/closed") == [503] * 10
    redis.start()
    settled(g)
    assert ask(g, path="/closed") == [200]


def test_two_workers_and_many_clients_make_no_storm(gateway, redis, proxy):
    g = settled(gateway(config(proxy.url, workers=2)))
    accepted, began = proxy.accepted, time.monotonic()
    proxy.refuse = proxy.cut = True
    got = []
    threads = [threading.Thread(target=lambda: got.extend(ask(g, 50))) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [200] * 1200
    assert proxy.accepted - accepted <= 2 * (8 + (time.monotonic() - began) / 0.2)
    proxy.heal()
    settled(g)


def test_a_trial_that_leads_nowhere_ends(gateway, redis, proxy):
    """The one request after an outage is refused each time that it is asked again: the next one is tried then."""
    g = settled(gateway(config(proxy.url)))
    proxy.refuse = proxy.cut = True
    until("the breaker is open", lambda: ask(g) == [200] and g.metric("slotgate_store_breaker_open") == 1)
    proxy.heal()
    proxy.canned = {name: b"-NOSCRIPT No matching script.\r\n" for name in ("EVAL", "EVALSHA")}
    until("some were tried", lambda: ask(g) == [200] and errors(g, "other") >= 2)
    proxy.heal()
    settled(g)


def test_restarted_empty(gateway, redis, proxy):
    """A Redis that lost all: scripts come again by themselves, and counters begin anew, once."""
    g = settled(gateway(config(proxy.url, algorithm="fixed_window, limit: 5, window: 366d", store="deny_cache: false", policy="open")))
    ask(g, 4)
    assert ask(g) == [429]
    redis.stop()
    assert ask(g, 3) == [200] * 3
    redis.start()

    def decided_by_redis():
        before = source(g, "store")
        return ask(g, headers=OTHER) in ([200], [429]) and source(g, "store") > before
    until("Redis decides", decided_by_redis)
    assert ask(g, 7) == [200] * 5 + [429] * 2


def test_loading_for_real(gateway, redis, proxy):
    """A Redis that was started again and still reads its data: by policy until it is done, and with what was counted before."""
    redis.options += ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"]
    g = settled(gateway(config(proxy.url, policy="open", store="deny_cache: false")))
    ask(g, 10)
    redis("EVAL", "for i = 1, 2000 do redis.call('SET', 'filler' .. i, string.rep('x', 100)) end", 0)
    used = {k: redis("GET", k) for k in redis.keys() if ":fw:" in k}
    redis("SAVE")
    redis.stop()
    redis.start()
    assert "loading:1" in redis("INFO", "persistence")
    until("it is seen", lambda: ask(g) == [200] and errors(g, "loading") >= 1)
    decided = source(g, "store")
    assert ask(g, 20) == [200] * 20
    settled(g)
    assert sum(int(redis("GET", k)) for k in used) == sum(map(int, used.values())) + source(g, "store") - decided
    assert g.metric("slotgate_http_requests_total", code="500") == 0


def test_a_disk_that_is_full(gateway, folder):
    """Redis answers MISCONF to all, PING included, until its append-only file can be written again."""
    place = os.path.join(folder, "aof")
    os.mkdir(place)
    r = Redis(folder, options=["--dir", place, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"]).start()
    try:
        g = settled(gateway(config("unix://" + r.path)))
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.prlimit(r.process.pid, resource.RLIMIT_FSIZE, (1000, most))
        r("SET", "x", "y" * 20000)
        until("the write failed", lambda: "aof_last_write_status:err" in r("INFO", "persistence"))
        decided = source(g, "store")
        for path, status in (("/inherit", 200), ("/local", 200), ("/open", 200), ("/closed", 503)):
            assert ask(g, EACH, path=path) == [status] * EACH, path
        assert source(g, "store") == decided
        until("/status says why", lambda: "MISCONF" in (status_of_store(g)["last_error"] or ""))
        resource.prlimit(r.process.pid, resource.RLIMIT_FSIZE, (most, most))
        settled(g)
        assert g.metric("slotgate_http_requests_total", code="500") == 0
    finally:
        r.stop()


def test_failed_over(gateway, folder, redis):
    """The name leads to another server: a replica that was promoted, with what it has of the counters."""
    other = Redis(folder, name="other").start()
    proxy = RedisProxy(redis)
    try:
        other("REPLICAOF", "127.0.0.1", redis.port)
        until("the replica follows", lambda: "master_link_status:up" in other("INFO", "replication"))
        g = settled(gateway(config(proxy.url, algorithm="fixed_window, limit: 1000, window: 366d", policy="open")))
        assert ask(g, 10) == [200] * 10
        name = [k for k in redis.keys() if ":fw:" in k][0]
        used = int(redis("GET", name))
        until("the replica has it", lambda: other("GET", name) == str(used))
        proxy.redis = other             # not promoted yet: READONLY
        redis.stop()
        assert ask(g, 20) == [200] * 20
        until("it was seen that this is a replica", lambda: ask(g) == [200] and errors(g, "readonly") >= 1)
        other("REPLICAOF", "NO", "ONE")
        decided = source(g, "store")
        settled(g)
        assert int(other("GET", name)) == used + source(g, "store") - decided
    finally:
        proxy.close()
        other.stop()


def test_local_counts_the_same_scopes_with_its_share(gateway, redis, proxy):
    g = settled(gateway(config(proxy.url, algorithm="fixed_window, limit: 20, window: 366d", store="local_share: 0.25")))
    redis.stop()
    ask(g, headers={"X-Forwarded-For": "192.0.2.77"})       # it may be the one that notices
    assert ask(g, 8) == [200] * 5 + [429] * 3
    assert ask(g, 8, headers=OTHER) == [200] * 5 + [429] * 3
    for address in ("192.0.2.1", "192.0.2.2", "2001:db8:1::1"):
        assert ask(g, 7, headers={"X-Forwarded-For": address}) == [200] * 5 + [429] * 2
    # The same /64 is the same caller.
    assert ask(g, 2, headers={"X-Forwarded-For": "2001:db8:1::2"}) == [429] * 2


def test_memory_and_descriptors_stay_flat(gateway, redis, proxy):
    """Through every rung of the ladder, one after the other, again and again."""
    g = settled(gateway(config(proxy.url)))

    def outages():
        for rung in LADDER:
            fault = rung(redis, proxy)
            fault.begin()
            assert ask(g, 60) == [200] * 60, rung
            fault.end()
            settled(g)
    outages()
    rss, fds = g.rss_bytes(), descriptors(g, redis)
    for _ in range(2):
        outages()
    until("as many descriptors as before", lambda: g.fds() <= fds)
    # AddressSanitizer keeps what was freed for a while.
    sanitized = b"sanitizers:    none" not in subprocess.run([PROGRAM, "-V"], stdout=subprocess.PIPE, check=True).stdout
    assert g.rss_bytes() - rss < (256 if sanitized else 4) << 20
