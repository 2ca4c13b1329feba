"""Load while everything around the gateway is restarted: nobody notices, and afterwards nothing is left behind."""
import threading
import time

from harness.client import Malformed
from harness.gateway import digest
from harness.wait import until

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 2}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
store: {{type: redis, url: "unix://{redis}", timeout: 2s}}
classes:
  c: [{{name: l, algorithm: token_bucket, capacity: {capacity}, refill: 1/s, per: key}}]
  s: [{{name: slots, algorithm: concurrency, limit: 1000, lease: 10m, per: tenant}}]
  t: [{{name: tight, algorithm: fixed_window, limit: 50, window: 366d, per: tenant}}]
tenants: {{acme: {{keys: [{{id: one, sha256: {acme}}}]}}}}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes:
  - {{name: slots, match: {{path: /slots}}, classes: [c, s], upstream: up}}
  - {{name: tight, match: {{path: /tight}}, classes: [t, s], upstream: up}}
  - {{name: free, match: {{path: /*}}, auth: none, upstream: up}}
"""

CLIENTS, LOAD_S = 64, 5


class Load:
    """CLIENTS clients on kept connections, each asking what its number says; every seventh answer they leave early."""

    def __init__(self, gateway):
        self.gateway, self.stop = gateway, threading.Event()
        self.statuses, self.left, self.broken = [], [], []
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(CLIENTS)]
        for t in self.threads:
            t.start()

    def _run(self, number):
        path = ("/slots", "/tight", "/free")[number % 3]
        asked = 0
        try:
            while not self.stop.is_set():
                with self.gateway.connect() as c:
                    while not self.stop.is_set():
                        asked += 1
                        if number % 8 == 0 and asked % 7 == 0:
                            c.send("GET /slots HTTP/1.1\r\nHost: x\r\nX-API-Key: key\r\n\r\n").abort()
                            self.left.append(number)
                            break
                        self.statuses.append(c.request("GET", path, {"X-API-Key": "key"}).status)
        except (OSError, Malformed) as e:
            self.broken.append((number, repr(e)))

    def join(self):
        self.stop.set()
        for t in self.threads:
            t.join()


def test_load_while_redis_and_the_config_change(gateway, upstream, redis):
    def text(capacity):
        return CONFIG.format(capacity=capacity, redis=redis.path, upstream=upstream.url, acme=digest("key"))
    g = gateway(text(1000000))
    until("the store is connected", lambda: g.metric("slotgate_store_up") == 1)
    assert g.get("/slots", {"X-API-Key": "key"}).status == 200
    upstream.drop()
    at_rest = g.fds()

    load = Load(g)
    end, step = time.monotonic() + LOAD_S, 0
    while time.monotonic() < end or step < 12:
        (lambda: redis("FLUSHALL"), lambda: redis("SCRIPT", "FLUSH"), lambda: g.reload(text(1000000 + step)),
         redis.stop, lambda: g.reload("routes: nonsense"), redis.start)[step % 6]()
        answered = len(load.statuses)
        until("answers go on", lambda: len(load.statuses) >= answered + CLIENTS or load.broken)
        step += 1
    if redis.process is None:
        redis.start()
    load.join()

    assert load.broken == []
    assert set(load.statuses) <= {200, 429} and load.statuses.count(200) > 100
    # A client that sent its request and left with a reset may have left before the request was read.
    until("every answer is logged", lambda: len(g.access()) >= len(load.statuses) + 1)
    until("nothing is in flight", lambda: g.metric("slotgate_requests_in_flight") == 0)
    until("no slot is held", lambda: g.metric("slotgate_concurrency_leases") == 0)
    until("no connection is open", lambda: g.metric("slotgate_connections") == 0)
    until("the store is connected", lambda: g.metric("slotgate_store_up") == 1)
    until("Redis holds no slot", lambda: not [k for k in redis.keys() if ":cc:" in k])
    upstream.drop()
    until("as many descriptors as before: %d" % at_rest, lambda: g.fds() <= at_rest)
    requests = len(g.access())
    assert len(load.statuses) + 1 <= requests <= len(load.statuses) + 1 + len(load.left)
    assert g.metric("slotgate_http_requests_total") == g.metric("slotgate_tenant_requests_total") == requests
    assert all(redis("PTTL", k) > 0 for k in redis.keys())
