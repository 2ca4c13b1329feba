"""Forwarding end to end: which route, which upstream, which fields, and how often."""
import os
import re
import ssl
import subprocess
import threading

import pytest

from harness.gateway import digest
from harness.sockets import free_port
from harness.upstream import Upstream, script
from harness.wait import until

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 1{server}}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@", level: debug}}
identity: {{api_key: [{{header: X-API-Key}}, {{query: api_key}}]}}
tenants: {{acme: {{keys: [{{id: one, sha256: {acme}}}]}}}}
upstreams:
{upstreams}
routes:
{routes}
"""

ALL = "  - {name: all, match: {path: /*}, auth: optional, upstream: up}\n"


def up(*urls, name="up", more="", weights=None):
    targets = ", ".join('{url: "%s", weight: %d}' % (u, (weights or [1] * len(urls))[i]) for i, u in enumerate(urls))
    return "  %s: {targets: [%s]%s}\n" % (name, targets, ", " + more if more else "")


def config(upstreams, routes=ALL, server=""):
    return CONFIG.format(upstreams=upstreams, routes=routes, server=", " + server if server else "", acme=digest("k-acme"))


# --- routes ---------------------------------------------------------------------------------------------------------

def test_host_path_and_method_choose_the_route(gateway, upstream):
    routes = """  - {name: host, match: {host: api.test, path: /*}, auth: none, respond: {status: 200, body: host}}
  - {name: literal, match: {path: /users/me}, auth: none, respond: {status: 200, body: literal}}
  - {name: param, match: {path: /users/:id}, auth: none, respond: {status: 200, body: param}}
  - {name: read, match: {methods: [GET], path: /doc}, auth: none, respond: {status: 200, body: read}}
  - {name: write, match: {methods: [PUT, POST], path: /doc}, auth: none, respond: {status: 201, body: write}}
  - {name: rest, match: {path: /files/*}, auth: none, upstream: up}
"""
    g = gateway(config(up(upstream.url), routes))
    with g.connect() as c:
        assert c.request("GET", "/users/me", {"Host": "API.test:80"}).text == "host"
        assert c.request("GET", "/users/me").text == "literal"
        assert c.request("GET", "/users/%6De").text == "literal"
        assert c.request("GET", "/users/7").text == "param"
        assert c.request("GET", "/doc").text == "read"
        assert c.request("PUT", "/doc", body=b"x").text == "write"
        head = c.request("HEAD", "/doc")
        assert (head.status, head.header("Content-Length"), head.body) == (200, "4", b"")
        assert c.request("GET", "/files").status == 200
        assert c.request("GET", "/files/a/b?c=d").status == 200
        assert upstream.last().target == "/files/a/b?c=d"
        missing = c.request("GET", "/nowhere")
        assert (missing.status, missing.header("Content-Type")) == (404, "application/problem+json")
        wrong = c.request("DELETE", "/doc")
        assert wrong.status == 405
        assert set(wrong.header("Allow").split(", ")) >= {"GET", "HEAD", "PUT", "POST"}
        assert c.request("GET", "/doc").text == "read"          # the connection is still in step
    entry = g.access_count(1, http__response__status_code=404)[0]
    assert "slotgate.route" not in entry and entry["error.type"] == "no_route"


def test_respond_needs_no_upstream(gateway, upstream):
    routes = """  - {name: hello, match: {path: /hello}, auth: none, respond: {status: 202, body: "hi\\n", headers: {Content-Type: text/plain, X-A: b}}}
  - {name: none, match: {path: /none}, auth: none, respond: {status: 204}}
"""
    g = gateway(config(up(upstream.url), routes))
    with g.connect() as c:
        a = c.request("POST", "/hello", body=b"dropped")
        assert (a.status, a.text, a.header("Content-Type"), a.header("X-A")) == (202, "hi\n", "text/plain", "b")
        none = c.request("GET", "/none")
        assert (none.status, none.body, none.header("Content-Length")) == (204, b"", None)
        assert c.request("HEAD", "/hello").header("Content-Length") == "3"
    assert upstream.requests == []


def test_rewrite_and_strip_prefix(gateway, upstream):
    routes = """  - {name: re, match: {path: /v1/users/:id/search}, auth: none, upstream: up, rewrite: {path: /users/:id/find}}
  - {name: strip, match: {path: /api/*}, auth: none, upstream: up, rewrite: {strip_prefix: /api}}
"""
    g = gateway(config(up(upstream.url), routes))
    with g.connect() as c:
        for path, target in (("/v1/users/a%20b/search?q=%C3%A9&q", "/users/a%20b/find?q=%C3%A9&q"), ("/api/x/%7Ey?z", "/x/%7Ey?z"),
                             ("/api", "/"), ("/api?q", "/?q"), ("/api/", "/")):
            assert c.request("GET", path).status == 200
            assert upstream.last().target == target, path


def test_fields_are_set_and_removed(gateway, upstream):
    upstream.on("/x", script("HTTP/1.1 200 OK\r\nX-Powered-By: php\r\nX-Keep: 1\r\nContent-Length: 0\r\n\r\n"))
    routes = """  - name: all
    match: {path: /*}
    auth: optional
    upstream: up
    request_headers: {set: {X-Tenant: "${tenant}", X-Who: "${client_ip}/${route}"}, remove: [X-Debug]}
    response_headers: {set: {Strict-Transport-Security: max-age=9}, remove: [X-Powered-By]}
"""
    g = gateway(config(up(upstream.url), routes))
    a = g.get("/x", [("X-API-Key", "k-acme"), ("X-Tenant", "forged"), ("x_tenant", "forged"), ("X-Debug", "1"), ("x-debug", "2"),
                   ("X_Debug", "3")])
    r = upstream.last("/x")
    assert (r.header("X-Tenant"), r.header("X-Who"), r.all("X-Debug"), r.all("x_tenant"), r.all("X_Debug")) == \
        ("acme", "127.0.0.1/all", [], [], [])
    assert (a.header("Strict-Transport-Security"), a.all("X-Powered-By"), a.header("X-Keep")) == ("max-age=9", [], "1")


def test_the_key_stays_here_and_the_rest_of_the_query_is_untouched(gateway, upstream):
    g = gateway(config(up(upstream.url)))
    assert g.get("/x?a=1&api_key=k-acme&b=%2F&&c").status == 200
    assert upstream.last().target == "/x?a=1&b=%2F&&c"
    assert g.get("/x", {"X-API-Key": "k-acme"}).status == 200
    assert upstream.last().all("X-API-Key") == []
    assert "k-acme" not in g.log() and all("k-acme" not in str(e) for e in g.access_count(2))


# --- fields of a proxy ----------------------------------------------------------------------------------------------

HEARSAY = [("Forwarded", "for=6.6.6.6;proto=https"), ("X-Real-IP", "6.6.6.6"), ("X-Forwarded-Port", "443"), ("x-forwarded-prefix", "/evil")]


def test_a_strangers_forwarded_fields_are_not_believed(gateway, upstream):
    g = gateway(config(up(upstream.url)))
    forged = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "evil"), ("X-Request-Id", "forged")]
    a = g.get("/x", forged + HEARSAY)
    r = upstream.last()
    assert [r.all(name) for name, _ in HEARSAY] == [[]] * len(HEARSAY)
    assert (r.header("X-Forwarded-For"), r.header("X-Forwarded-Proto"), r.header("X-Forwarded-Host")) == ("127.0.0.1", "http", "gw.test")
    assert r.header("X-Request-Id") == a.header("X-Request-Id") != "forged"
    assert g.access_count(1)[0]["client.address"] == "127.0.0.1"


def test_a_trusted_peers_forwarded_fields_go_on(gateway, upstream):
    g = gateway(config(up(upstream.url), server="trusted_proxies: [127.0.0.1]"))
    told = [("X-Forwarded-For", "6.6.6.6, 7.7.7.7"), ("X-Forwarded-For", "8.8.8.8"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "front.test"), ("X-Request-Id", "given-1")]
    a = g.get("/x", told + HEARSAY + [("X_Real_IP", "6.6.6.6")])
    r = upstream.last()
    assert [r.all(name) for name, _ in HEARSAY] == [[value] for _, value in HEARSAY] and r.all("X_Real_IP") == []
    assert (r.header("X-Forwarded-For"), r.header("X-Forwarded-Proto"), r.header("X-Forwarded-Host")) == ("6.6.6.6, 7.7.7.7, 8.8.8.8, 127.0.0.1", "https", "front.test")
    assert r.header("X-Request-Id") == a.header("X-Request-Id") == "given-1"
    entry = g.access_count(1)[0]
    assert (entry["client.address"], entry["slotgate.request_id"]) == ("8.8.8.8", "given-1")
    g.get("/x", {"X-Request-Id": "bad id, with blanks"})
    assert re.fullmatch("[0-9a-f-]{32,36}", upstream.last().header("X-Request-Id"))


def test_traceparent_goes_on_or_begins(gateway, upstream):
    g = gateway(config(up(upstream.url)))
    trace = "0af7651916cd43dd8448eb211c80319c"
    g.get("/x", {"traceparent": "00-%s-b7ad6b7169203331-01" % trace, "tracestate": "a=b"})
    version, id, span, flags = upstream.last().header("traceparent").split("-")
    assert (version, id, flags) == ("00", trace, "01") and span != "b7ad6b7169203331"
    assert upstream.last().header("tracestate") == "a=b"
    assert g.access_count(1)[0]["trace_id"] == trace
    g.get("/x", {"traceparent": "00-broken", "tracestate": "a=b"})
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", upstream.last().header("traceparent"))
    assert upstream.last().all("tracestate") == []


def test_host_is_the_targets_or_the_clients(gateway, upstream):
    routes = "  - {name: a, match: {path: /a}, auth: none, upstream: up}\n  - {name: b, match: {path: /b}, auth: none, upstream: kept}\n"
    g = gateway(config(up(upstream.url) + up(upstream.url, name="kept", more="preserve_host: true"), routes))
    g.get("/a", {"Host": "client.test"})
    assert upstream.last("/a").all("Host") == ["127.0.0.1:%d" % upstream.port]
    g.get("/b", {"Host": "client.test"})
    assert upstream.last("/b").all("Host") == ["client.test"]
    assert upstream.last("/b").headers[0][0] == "Host"


# --- connections and attempts ---------------------------------------------------------------------------------------

def test_connections_are_kept(gateway, upstream):
    g = gateway(config(up(upstream.url)))
    with g.connect() as a, g.connect() as b:
        for c in (a, b, a, b):
            assert c.request("GET", "/x").status == 200
    assert [r.connection for r in upstream.requests] == [1, 1, 1, 1]


def test_a_connection_that_its_upstream_will_close_is_not_kept(gateway, upstream):
    upstream.on("/close", script("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", then="close"))
    g = gateway(config(up(upstream.url)))
    assert [g.get("/close").text for _ in range(3)] == ["ok"] * 3
    assert upstream.connections == 3


def dies(how, executions):
    def handler(request, peer):
        executions.append(request.connection)
        if how == "reset":
            peer.reset()
        return False
    return handler


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
@pytest.mark.parametrize("method,body", [("POST", b"abc"), ("POST", b""), ("PATCH", b"abc")])
def test_what_is_not_idempotent_runs_at_most_once(gateway, upstream, method, body, reused, how):
    executions = []
    upstream.on("/pay", dies(how, executions))
    g = gateway(config(up(upstream.url, more="retries: 5")))
    if reused:
        assert g.get("/warm").status == 200
    a = g.get("/pay", method=method, body=body)
    assert (a.status, executions) == (502, [1])
    entry = g.access_count(1, url__path="/pay")[0]
    assert (entry["slotgate.result"], entry["error.type"], entry["slotgate.upstream.attempts"]) == ("failed", "upstream_reset", 1)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_get_is_tried_again(gateway, upstream, how):
    executions = []

    def once(request, peer):
        if not executions:
            return dies(how, executions)(request, peer)
        executions.append(request.connection)
        peer.answer(200, body="second")
        return True
    upstream.on("/x", once)
    g = gateway(config(up(upstream.url)))
    assert (g.get("/x").text, executions) == ("second", [1, 2])


def test_retries_are_bounded(gateway, upstream):
    executions = []
    upstream.on("/x", dies("close", executions))
    g = gateway(config(up(upstream.url, more="retries: 2")))
    assert (g.get("/x").status, len(executions)) == (502, 3)
    executions.clear()
    assert (g.get("/x", method="PUT", body=b"abc").status, len(executions)) == (502, 3)


def test_no_retries(gateway, upstream):
    executions = []
    upstream.on("/x", dies("close", executions))
    g = gateway(config(up(upstream.url, more="retries: 0")))
    assert (g.get("/x").status, len(executions)) == (502, 1)


def test_a_stale_connection_costs_no_retry(gateway, upstream):
    """A kept connection that dies under a GET is nobody's fault: also with retries: 0."""
    g = gateway(config(up(upstream.url, more="retries: 0")))
    assert g.get("/warm").status == 200
    executions = []

    def first_is_stale(request, peer):
        executions.append(peer.number)
        if peer.number == 1:
            return False
        peer.answer(200)
        return True
    upstream.on("/x", first_is_stale)
    assert (g.get("/x").status, executions) == (200, [1, 2])


def test_a_post_after_an_idle_connection_was_closed(gateway, upstream):
    g = gateway(config(up(upstream.url)))
    assert g.get("/warm").status == 200
    upstream.drop()
    assert g.get("/x", method="POST", body=b"abc").status == 200
    assert (upstream.count("/x"), upstream.last("/x").body) == (1, b"abc")


def test_weights(gateway, upstream):
    with Upstream() as other:
        g = gateway(config(up(upstream.url, other.url, weights=[2, 1])))
        for _ in range(30):
            assert g.get("/x").status == 200
        assert (upstream.count("/x"), other.count("/x")) == (20, 10)


def test_a_target_that_refuses_is_passed_over(gateway, upstream):
    dead = "http://127.0.0.1:%d" % free_port()
    g = gateway(config(up(dead, upstream.url)))
    for i in range(6):
        assert g.get("/x", method="POST", body=b"%d" % i).status == 200         # never sent: any method may go to the next
    assert sorted(r.body for r in upstream.requests) == [b"%d" % i for i in range(6)]


def test_a_target_is_ejected_after_as_many_failures_as_the_config_says(gateway, upstream):
    """Each failed attempt counts once: two failures of three leave the target in use."""
    dead = "http://127.0.0.1:%d" % free_port()
    g = gateway(config(up(dead, upstream.url, more="eject: {failures: 3, for: 1h}")))

    def attempts():
        return g.metric("slotgate_upstream_attempts_total", upstream="up")
    failures = 0
    while failures < 3:
        assert g.metric("slotgate_upstream_target_up", target=dead) == 1
        before = attempts()
        assert g.get("/x").status == 200
        failures += int(attempts() - before) - 1     # a second attempt: the first met the dead target
    until("the dead target is out", lambda: g.metric("slotgate_upstream_target_up", target=dead) == 0)
    before = attempts()
    for _ in range(6):
        assert g.get("/x").status == 200
    assert attempts() == before + 6


def test_nobody_listens(gateway, upstream):
    g = gateway(config(up("http://127.0.0.1:%d" % free_port(), "http://127.0.0.1:%d" % free_port())))
    a = g.get("/x")
    assert (a.status, a.header("Content-Type")) == (502, "application/problem+json") and "127.0.0.1" not in a.text
    entry = g.access_count(1)[0]
    assert (entry["error.type"], entry["slotgate.upstream.outcome"]) == ("upstream_connect", "connect")
    assert g.metric("slotgate_upstream_requests_total", upstream="up", outcome="connect") == 1
    assert g.metric("slotgate_upstream_attempts_total", upstream="up") == 2


def test_a_name_that_does_not_resolve(gateway, upstream):
    g = gateway(config(up("http://does-not-exist.invalid:80")))
    assert g.get("/x").status == 502


def test_a_status_is_retried_when_the_config_says_so(gateway, upstream):
    with Upstream() as other:
        for u in (upstream, other):
            u.on("/x", script("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"))
        other.on("/y", script("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"))
        g = gateway(config(up(upstream.url, other.url, more="retry_on: [connect, 503]")))
        a = g.get("/x")
        assert (a.status, a.text, upstream.count("/x") + other.count("/x")) == (503, "busy", 2)
        assert [g.get("/y").status for _ in range(4)] == [200] * 4
        g.get("/x", method="POST", body=b"")
        assert upstream.count("/x") + other.count("/x") == 3


def test_late_answers_are_504(gateway, upstream):
    closed = []

    def hold(request, peer):
        closed.append(peer.closed_by_peer())
        return False
    upstream.on("/x", hold)
    upstream.on("/route", hold)
    routes = "  - {name: r, match: {path: /route}, auth: none, upstream: up, timeout: 150ms}\n" + ALL
    g = gateway(config(up(upstream.url, more="timeout: 300ms"), routes))
    for path in ("/x", "/route"):
        a = g.get(path)
        assert (a.status, a.header("Content-Type")) == (504, "application/problem+json")
        assert g.access_count(1, url__path=path)[0]["error.type"] == "upstream_timeout"
    until("its connection is closed, not kept", lambda: closed == [True, True])
    assert upstream.count("/x") == 1                    # a late answer is no broken connection: not tried again


def test_max_requests(gateway, upstream):
    go = threading.Event()

    def hold(request, peer):
        go.wait(10)
        peer.answer(200)
        return True
    upstream.on("/hold", hold)
    g = gateway(config(up(upstream.url, more="max_requests: 1")))
    with g.connect() as c:
        c.send("GET /hold HTTP/1.1\r\nHost: gw.test\r\n\r\n")
        until("it is there", lambda: upstream.count("/hold"))
        a = g.get("/x")
        assert a.status == 503 and int(a.header("Retry-After")) >= 1
        go.set()
        assert c.answer().status == 200
    assert g.get("/x").status == 200


def test_a_unix_socket(gateway, folder):
    path = os.path.join(folder, "up.sock")
    with Upstream(unix=path) as u:
        g = gateway(config(up(u.url)))
        assert g.get("/x?a", method="POST", body=b"abc").status == 200
        assert (u.last().target, u.last().body, u.last().header("Host")) == ("/x?a", b"abc", "localhost")


def test_environment_changes_nothing(gateway, upstream):
    trap = "http://127.0.0.1:%d" % free_port()
    env = dict(os.environ, **{k: trap for k in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")})
    g = gateway(config(up(upstream.url)), env=env)
    assert g.get("/x").status == 200


# --- TLS to the upstream --------------------------------------------------------------------------------------------

def openssl(folder, *args):
    subprocess.run(["openssl"] + list(args), cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def secure(folder):
    """An https upstream on 127.0.0.1 with a certificate of the CA in ca.pem; other.pem is another CA."""
    with open(os.path.join(folder, "ext"), "w", encoding="ascii") as f:
        f.write("subjectAltName=IP:127.0.0.1,DNS:up.internal\n")
    for ca in ("ca", "other"):
        openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=" + ca, "-keyout", ca + ".key", "-out", ca + ".pem", "-days", "2")
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=up", "-keyout", "up.key", "-out", "up.csr")
    openssl(folder, "x509", "-req", "-in", "up.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "ext", "-out", "up.pem", "-days", "2")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(folder, "up.pem"), os.path.join(folder, "up.key"))
    with Upstream(tls=context) as u:
        yield u


def test_https_with_a_certificate_that_is_trusted(gateway, secure):
    g = gateway(config(up(secure.url, more="tls: {ca: ca.pem}")))
    assert [g.get("/x", method="POST", body=b"abc").status for _ in range(3)] == [200] * 3
    assert (secure.connections, secure.last().body) == (1, b"abc")


def test_https_with_the_name_that_is_asked_for(gateway, secure):
    g = gateway(config(up(secure.url, more="tls: {ca: ca.pem, server_name: up.internal}")))
    assert g.get("/x").status == 200


@pytest.mark.parametrize("tls", ["{ca: other.pem}", "{ca: ca.pem, server_name: else.internal}", "{}"], ids=["other-ca", "other-name", "system"])
def test_https_that_is_not_trusted(gateway, secure, tls):
    g = gateway(config(up(secure.url, more="tls: %s, retries: 0" % tls)))
    assert g.get("/x").status == 502
    assert secure.requests == []
    assert g.access_count(1)[0]["error.type"] == "upstream_connect"


def test_https_without_verification(gateway, secure):
    g = gateway(config(up(secure.url, more="tls: {verify: false}")))
    assert g.get("/x").status == 200
