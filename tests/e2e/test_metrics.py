"""What an operator sees: /metrics, health, /status, tenants, and that none of it is reachable from the public side."""
import json
import os
import re
import shutil
import socket
import subprocess

import pytest

from harness.client import Malformed
from harness.gateway import LIBRARY_1, digest
from harness.wait import until

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: {workers}, max_header_size: 8KiB, max_body_size: 1KiB}}
admin: {{listen: "127.0.0.1:0"{admin}}}
log: {{access: "@ACCESS@"}}
metrics: {{max_tenants: {tenants}}}
store: {store}
classes:
  c: [{{name: l, algorithm: fixed_window, limit: 3, window: 366d, per: tenant}}]
  k: [{{name: key, algorithm: token_bucket, capacity: 5, refill: 1/h, per: key}}]
  s: [{{name: slots, algorithm: concurrency, limit: 5, per: tenant}}]
plans: {{gold: {{c.l: {{limit: 8}}}}}}
tenants:
  acme: {{plan: gold, keys: [{{id: one, sha256: {acme}}}, {{id: two, sha256: {two}}}]}}
  'a"b': {{keys: [{{id: one, sha256: {quote}}}]}}
  'back\\slash': {{keys: [{{id: one, sha256: {back}}}]}}
  "caf\\u00e9": {{keys: [{{id: one, sha256: {cafe}}}]}}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}], timeout: 5s}}, down: {{targets: [{{url: "http://127.0.0.1:1"}}]}}}}
routes:
  - {{name: limited, match: {{path: /v1/things/:id}}, classes: [c, k, s], upstream: up}}
  - {{name: down, match: {{path: /down}}, upstream: down}}
  - {{name: say, match: {{path: /say, methods: [GET, POST]}}, respond: {{status: 200, body: hello}}}}
"""

KEYS = {"acme": "key-acme", 'a"b': "key-quote", "back\\slash": "key-back", "caf\u00e9": "key-cafe"}


def config(upstream, workers=2, admin="", tenants=1000, store="{type: memory}"):
    return CONFIG.format(workers=workers, admin=admin, tenants=tenants, store=store, upstream=upstream.url, acme=digest("key-acme"),
                         two=digest("key-two"), quote=digest("key-quote"), back=digest("key-back"), cafe=digest("key-cafe"))


def keyed(key):
    return {"X-API-Key": key}


def labels_of(sample):
    return dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', sample))


# Requests of every kind. Each counts once, also the malformed ones.
MALFORMED = [b"GET /say HTTP/1.1\r\n\r\n", b"GET /say HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
             b"GET /a/../b HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", b"G@T /say HTTP/1.1\r\nHost: x\r\n\r\n",
             b"GET /say HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n",
             b"GET /say HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20000 + b"\r\n\r\n"]


def every_kind(g):
    """Asks, and returns how many requests that were."""
    n = 0
    for path, method, headers, body in [
            ("/v1/things/1", "GET", keyed("key-acme"), None), ("/v1/things/2", "POST", keyed("key-acme"), b"body"),
            ("/v1/things/3", "GET", keyed("nonsense"), None), ("/v1/things/3", "GET", {}, None), ("/say", "GET", {}, None),
            ("/say", "DELETE", {}, None), ("/say", "FROBNICATE", {}, None), ("/v1/things/9", "FROBNICATE", keyed("key-acme"), None),
            ("/nowhere", "GET", {}, None), ("/down", "GET", {}, None), ("/say//x", "GET", {}, None),
            ("/v1/things/1", "GET", [("X-API-Key", "a"), ("X-API-Key", "b")], None), ("/v1/things/1", "HEAD", keyed("key-acme"), None),
            ("/say", "POST", {}, b"x" * 5000)]:
        g.get(path, headers, method, body)
        n += 1
    for _ in range(5):
        g.get("/v1/things/1", keyed("key-quote"))
    for key in ("key-back", "key-cafe"):
        g.get("/v1/things/1", keyed(key))
    for raw in MALFORMED:
        with g.connect() as c:
            c.send(raw)
            try:
                assert c.answer().status >= 400
            except (OSError, Malformed) as e:
                raise AssertionError(raw) from e
    return n + 7 + len(MALFORMED)


def test_what_never_becomes_a_request_is_counted_apart(gateway, upstream):
    g = gateway(config(upstream))
    with g.connect() as c:
        c.send(b"GET /say HTTP/9.9\r\nHost: x\r\n\r\n")
        assert c.head()[0] == 505
    until("it is counted", lambda: g.metric("slotgate_refused_requests_total") == 1)
    assert g.metric("slotgate_http_requests_total") == 0 and g.access() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_sums_of_requests_results_and_log_lines_agree(gateway, upstream, workers):
    g = gateway(config(upstream, workers))
    n = every_kind(g)
    by_library = int(g.metric("slotgate_refused_requests_total", reason="library"))     # no requests to the gateway
    assert by_library == 0 or LIBRARY_1
    n -= by_library
    # One more that its client leaves before the answer.
    gone = g.connect()
    upstream.on("/v1/things/slow", lambda request, peer: peer.closed_by_peer() and False)
    gone.send("GET /v1/things/slow HTTP/1.1\r\nHost: x\r\nX-API-Key: key-two\r\n\r\n")
    until("it is at the upstream", lambda: upstream.count("/v1/things/slow"))
    gone.abort()
    lines = g.access_count(n + 1)
    assert g.metric("slotgate_http_requests_total") == n + 1
    assert g.metric("slotgate_tenant_requests_total") == n + 1
    for result in ("allowed", "limited", "unauthorized", "refused", "failed", "aborted"):
        logged = sum(1 for e in lines if e["slotgate.result"] == result)
        assert g.metric("slotgate_tenant_requests_total", result=result) == logged >= 1, result
    assert g.metric("slotgate_http_requests_total", code="499") == 1
    assert json.loads(g.admin("/status")[2])["requests"] == n + 1
    assert g.metric("slotgate_http_request_duration_seconds_count") == n + 1
    assert g.metric("slotgate_requests_in_flight") == 0
    # Each line is JSON with what one looks for first.
    for e in lines:
        assert e["timestamp"] and e["http.response.status_code"] and e["slotgate.request_id"] and e["slotgate.duration_s"] >= 0


def test_no_label_comes_from_a_client(gateway, upstream):
    g = gateway(config(upstream))
    names = set(g.metrics())
    # Those series exist from the start; the ones by code and method come when they occur.
    marks = ("evilpath", "evilquery", "EVILMETHOD", "evilhost", "evilkey", "evilagent", "evilid", "198.51.100.1")
    for method in ("GET", "EVILMETHOD", "POST"):
        for path in ("/evilpath", "/v1/things/evilpath?evilquery=1", "/say?evilquery", "/down?evilpath"):
            g.get(path, {"X-API-Key": "evilkey", "Host": "evilhost", "User-Agent": "evilagent", "X-Request-Id": "evilid",
                         "X-Forwarded-For": "198.51.100.1"}, method)
            g.get(path, {"Host": "evilhost"}, method)
    g.access_count(24)
    text = g.admin("/metrics")[2]
    for mark in marks:
        assert mark not in text, mark
    new = [s for s in g.metrics() if s not in names]
    assert {s.split("{")[0] for s in new} == {"slotgate_http_requests_total"}, new
    assert all(labels_of(s)["route"] in ("_none", "limited", "down", "say") and labels_of(s)["method"] in ("GET", "POST", "_OTHER")
               for s in new), new


def test_series_exist_from_the_start(gateway, upstream):
    g = gateway(config(upstream))
    m = g.metrics()
    for result in ("allowed", "limited", "unauthorized", "refused", "failed", "aborted"):
        assert m['slotgate_tenant_requests_total{tenant="acme",result="%s"}' % result] == 0
    assert m['slotgate_limit_decisions_total{limit="c.l",mode="enforced",outcome="denied",source="store"}'] == 0
    assert m['slotgate_concurrency_leases{limit="s.slots"}'] == 0
    assert m["slotgate_store_up"] == 1 and m["slotgate_store_breaker_open"] == 0
    assert m['slotgate_store_errors_total{kind="timeout"}'] == 0


def test_odd_tenant_names(gateway, upstream):
    g = gateway(config(upstream))
    for key in KEYS.values():
        assert g.get("/v1/things/1", keyed(key)).status == 200
    g.access_count(4)
    m = g.metrics()
    for label in ("acme", 'a\\"b', "back\\\\slash", "caf\u00e9"):
        assert m['slotgate_tenant_requests_total{tenant="%s",result="allowed"}' % label] == 1
    assert {e["slotgate.tenant"] for e in g.access()} == set(KEYS)
    status, _, text = g.admin("/tenants/a%22b/usage")
    assert status == 200 and json.loads(text)["tenant"] == 'a"b'
    assert {t["name"] for t in json.loads(g.admin("/tenants")[2])["tenants"]} >= set(KEYS)


def test_tenants_beyond_the_budget_count_as_other(gateway, upstream):
    g = gateway(config(upstream, tenants=2))
    assert g.metric("slotgate_metrics_tenant_overflow_total") > 0
    for key in KEYS.values():
        assert g.get("/v1/things/1", keyed(key)).status == 200
    g.access_count(4)
    tenants = {labels_of(s)["tenant"] for s in g.metrics() if s.startswith("slotgate_tenant_requests_total")}
    assert "_other" in tenants and len(tenants) == 3
    assert g.metric("slotgate_tenant_requests_total", tenant="_other", result="allowed") >= 2
    assert g.metric("slotgate_tenant_requests_total") == 4
    assert {e["slotgate.tenant"] for e in g.access()} == set(KEYS)      # the log has room for all


def test_quota_used(gateway, upstream):
    g = gateway(config(upstream))
    for _ in range(2):
        assert g.get("/v1/things/1", keyed("key-acme")).status == 200
    g.access_count(2)
    assert g.metric("slotgate_tenant_quota_used_ratio", tenant="acme", limit="c.l") == 0.25


def test_openmetrics_by_accept(gateway, upstream):
    g = gateway(config(upstream))
    every_kind(g)
    _, headers, text = g.admin("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"})
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    lines = text.splitlines()
    assert lines[-1] == "# EOF" and lines.count("# EOF") == 1 and text.endswith("\n")
    types = dict(line.split(" ")[2:4] for line in lines if line.startswith("# TYPE "))
    assert types["slotgate_http_requests"] == "counter" and types["slotgate_build"] == "info"
    assert not any(name.endswith(("_total", "_info")) for name in types)
    for line in lines:
        if not line.startswith("#"):
            name = re.match(r"[a-z_]+", line).group(0)
            assert any(name == t or (name.startswith(t + "_") and name[len(t):] in ("_total", "_info", "_bucket", "_sum", "_count"))
                       for t in types), line
    _, headers, text = g.admin("/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4") and "# EOF" not in text


# --- the admin listener --------------------------------------------------------------------------------

PATHS = ["/metrics", "/healthz", "/readyz", "/status", "/tenants", "/tenants/acme/usage"]


def test_health_status_and_page(gateway, upstream):
    g = gateway(config(upstream))
    for path in PATHS + ["/"]:
        assert g.admin(path)[0] == 200, path
        assert g.admin(path, method="DELETE")[0] == 405, path
    assert g.admin("/nothing")[0] == 404
    assert g.admin("/healthz")[2] == "ok\n" and g.admin("/readyz")[2] == "ready\n"
    status = json.loads(g.admin("/status")[2])
    assert status["version"] and status["config"]["source"].endswith(".yaml") and status["config"]["loaded"]
    assert status["store"]["type"] == "memory" and status["store"]["up"] is True
    assert [u["name"] for u in status["upstreams"]] == ["up", "down"] and len(status["workers"]) == 2
    page = g.admin("/")
    assert page[1]["Content-Type"].startswith("text/html") and "<html" in page[2]


def test_usage_and_reset_of_the_memory_store(gateway, upstream):
    g = gateway(config(upstream))
    def used(tenant="acme"):
        limits = json.loads(g.admin("/tenants/%s/usage" % tenant)[2])["limits"]
        return {(entry["name"], entry.get("key")): entry["remaining"] for entry in limits}
    untouched = used()
    assert untouched[("c.l", None)] == 8 and untouched[("k.key", "one")] == 5 and untouched[("k.key", "two")] == 5
    for key in ("key-acme", "key-acme", "key-two", "key-quote"):
        assert g.get("/v1/things/1", keyed(key)).status == 200
    after = used()
    assert (after[("c.l", None)], after[("k.key", "one")], after[("k.key", "two")]) == (5, 3, 4)
    assert used() == after              # looking uses nothing
    assert g.admin("/tenants/acme/reset")[0] == 405
    status, _, text = g.admin("/tenants/acme/reset", method="POST")
    assert status == 200 and json.loads(text)["tenant"] == "acme" and json.loads(text)["counters"] >= 3
    assert used() == untouched
    assert used("a%22b")[("c.l", None)] == 2       # another tenant keeps what it used
    assert g.admin("/tenants/nobody/usage")[0] == g.admin("/tenants/nobody/reset", method="POST")[0] == 404


def test_admin_token(gateway, upstream, folder):
    with open(os.path.join(folder, "token"), "w", encoding="ascii") as f:
        f.write("the-admin-token\n")
    g = gateway(config(upstream, admin=", token_file: token"))
    good = {"Authorization": "Bearer the-admin-token"}
    for path in ("/metrics", "/status", "/tenants", "/tenants/acme/usage"):
        status, headers, _ = g.admin(path)
        assert status == 401 and headers["WWW-Authenticate"].startswith("Bearer"), path
        assert g.admin(path, headers={"Authorization": "Bearer wrong"})[0] == 401
        assert g.admin(path, headers=good)[0] == 200, path
    for path in ("/reload", "/tenants/acme/reset"):
        assert g.admin(path, method="POST")[0] == 401
        assert g.admin(path, method="POST", headers=good)[0] == 200
    assert g.admin("/healthz")[0] == g.admin("/readyz")[0] == 200       # probes have no token
    assert "the-admin-token" not in g.log()


def test_nothing_of_it_on_the_public_port(gateway, upstream):
    g = gateway(config(upstream))
    for path in PATHS + ["/", "/reload", "/tenants/acme/reset"]:
        for method in ("GET", "POST"):
            assert g.get(path, keyed("key-acme"), method).status == 404, path
            a = g.get("http://127.0.0.1:%d%s" % (g.admin_port, path), {"Host": "127.0.0.1:%d" % g.admin_port}, method)
            assert a.status == 404 and "slotgate_" not in a.text
    assert not g.events("config reloaded")


def test_a_page_elsewhere_cannot_post(gateway, upstream):
    """A browser on this machine is no way in."""
    g = gateway(config(upstream))
    assert g.admin("/reload", method="POST", headers={"Origin": "https://evil.example"})[0] == 403
    assert not g.events("config reloaded")


def test_one_address_does_not_keep_others_from_the_admin_listener(gateway):
    g = gateway('server: {listen: "127.0.0.1:0"}\nadmin: {listen: "127.0.0.1:0"}\nlog: {access: "@ACCESS@"}\nroutes: []\n')
    begun = []
    for _ in range(200):
        s = socket.create_connection(("127.0.0.1", g.admin_port), 5, source_address=("127.0.0.2", 0))
        begun.append(s)
        try:
            s.send(b"GET /heal")
        except OSError:
            pass        # closed already: one too many
    assert g.admin("/healthz")[0] == 200
    for s in begun:
        s.close()
