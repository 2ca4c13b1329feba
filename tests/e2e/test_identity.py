"""Who calls: keys, tenants, addresses; and that a clear key stays where it was."""
import hashlib
import json
import os

import pytest

from harness.gateway import digest
from harness.wait import until

CONFIG = """
server: {{listen: "{listen}", workers: 1, trusted_proxies: {trusted}}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@", level: debug}}
store: {store}
identity: {identity}
classes:
  c: [{{name: key, algorithm: fixed_window, limit: 3, window: 366d, per: key}}]
  i: [{{name: ip, algorithm: fixed_window, limit: 2, window: 366d, per: ip}}]
tenants:
  acme: {{keys: [{{id: a, sha256: {a}}}, {{id: b, sha256: {b}}}, {{id: off, sha256: {off}, disabled: true}},
                 {{id: old, sha256: {old}, expires: 2020-01-01T00:00:00Z}}, {{id: later, sha256: {later}, expires: 2999-01-01T00:00:00Z}},
                 {{id: long, sha256: {long}}}, {{id: odd, sha256: {odd}}}]}}
  beta: {{keys: [{{id: only, sha256: {beta}}}]}}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes:
  - {{name: free, match: {{path: /free}}, auth: required, upstream: up}}
  - {{name: need, match: {{path: /need}}, classes: [c], upstream: up}}
  - {{name: may, match: {{path: /may}}, auth: optional, classes: [c], upstream: up}}
  - {{name: none, match: {{path: /none}}, auth: none, classes: [i], upstream: up}}
  - {{name: plain, match: {{path: /plain}}, upstream: up}}
  - {{name: ip, match: {{path: /ip}}, auth: optional, classes: [i], upstream: up}}
"""

SOURCES = "api_key: [{header: X-API-Key}, {header: Authorization, scheme: Bearer}, {query: api_key}]"
LONG = "L" * 8192
ODD = "k:{x}*%00 \"'\xe9"


def config(upstream, store="{type: memory}", identity="failures: {limit: 1000, window: 1h}", trusted="[]",
           listen="127.0.0.1:0"):
    if "api_key" not in identity:
        identity = SOURCES + ", " + identity
    return CONFIG.format(store=store, identity="{%s}" % identity, trusted=trusted, listen=listen, upstream=upstream.url,
                         a=digest("key-a"), b=digest("key-b"), off=digest("key-off"), old=digest("key-old"),
                         later=digest("key-later"), beta=digest("key-beta"), long=digest(LONG),
                         odd=hashlib.sha256(ODD.encode("latin-1")).hexdigest())


def redis_store(redis):
    return '{type: redis, url: "unix://%s", timeout: 2s}' % redis.path


def keyed(key):
    return {"X-API-Key": key}


def bearer(key, scheme="Bearer"):
    return {"Authorization": scheme + " " + key}


# --- where the key is looked for -----------------------------------------------------------------------


def test_header_bearer_and_query(gateway, upstream):
    g = gateway(config(upstream))
    for path, headers in [("/free", keyed("key-a")), ("/free", bearer("key-a")), ("/free", bearer("key-a", "bearer")),
                          ("/free", {"Authorization": "BEARER \t key-a"}), ("/free?api_key=key-a", ()),
                          ("/free?api_key=key%2Da", ()), ("/free", {"x-api-KEY": "key-a"})]:
        assert g.get(path, headers).status == 200, (path, headers)
    assert {e["slotgate.key"] for e in g.access_count(7)} == {"a"}


def test_sources_that_agree_are_one_key(gateway, upstream):
    g = gateway(config(upstream))
    assert g.get("/free?api_key=key-a", [("X-API-Key", "key-a"), ("Authorization", "Bearer key-a")]).status == 200


@pytest.mark.parametrize("path, headers", [
    ("/free", [("X-API-Key", "key-a"), ("X-API-Key", "key-b")]),
    ("/free", [("X-API-Key", "key-b"), ("X-API-Key", "key-a")]),
    ("/free", [("X-API-Key", "key-a"), ("x-api-key", "key-a")]),
    ("/free", [("X-API-Key", ""), ("X-API-Key", "key-a")]),
    ("/free", [("Authorization", "Bearer key-a"), ("Authorization", "Bearer key-a")]),
    ("/free", [("Authorization", "Basic eDp5"), ("Authorization", "Bearer key-a")]),
    ("/free", [("X-API-Key", "key-a"), ("Authorization", "Bearer key-b")]),
    ("/free?api_key=key-b", [("X-API-Key", "key-a")]),
    ("/free?api_key=key-b", [("Authorization", "Bearer key-a")]),
    ("/free?api_key=key-a&api_key=key-a", []),
    ("/free?api_key=key-a&x=1&api_key=key-b", []),
    ("/may?api_key=nonsense", [("X-API-Key", "key-a")]),
])
def test_twice_or_in_disagreement_is_400(gateway, upstream, path, headers):
    g = gateway(config(upstream))
    a = g.get(path, headers)
    assert a.status == 400 and a.header("Content-Type") == "application/problem+json"
    assert upstream.requests == []
    until("it is counted", lambda: g.metric("slotgate_refused_requests_total", reason="ambiguous_key") == 1)


def test_an_empty_key_or_another_scheme_is_no_key(gateway, upstream):
    g = gateway(config(upstream))
    for path, headers in [("/need", {"X-API-Key": ""}), ("/need", {"X-API-Key": " \t "}), ("/need", {"Authorization": "Bearer"}),
                          ("/need", {"Authorization": "Basic a2V5LWE="}), ("/need", {"Authorization": "Bearerkey-a"}),
                          ("/need?api_key=", ()), ("/need?api_key", ()), ("/need?API_KEY=key-a", ())]:
        a = g.get(path, headers)
        assert a.status == 401, (path, headers, a)
    assert g.get("/free", [("X-API-Key", ""), ("Authorization", "Bearer key-a")]).status == 200


def test_white_space_around_a_key_makes_no_other_key(gateway, upstream):
    g = gateway(config(upstream))
    assert [g.get("/need", {"X-API-Key": v}).status for v in ("key-a", "  key-a", "key-a  ", "key-a\t")] == [200] * 3 + [429]


def test_sources_are_as_configured(gateway, upstream):
    g = gateway(config(upstream, identity="api_key: [{header: X-Token}]"))
    assert g.get("/free", {"X-Token": "key-a"}).status == 200
    for path, headers in [("/free", keyed("key-a")), ("/free", bearer("key-a")), ("/free?api_key=key-a", ())]:
        assert g.get(path, headers).status == 401


def test_key_with_odd_bytes_is_a_key_of_its_own(gateway, upstream, redis):
    g = gateway(config(upstream, redis_store(redis)))
    assert [g.get("/need", keyed(ODD)).status for _ in range(4)] == [200] * 3 + [429]
    assert g.get("/need", keyed("key-a")).status == 200
    assert g.get("/need", keyed("key-b:{x}*")).status == 401
    for name in redis.keys():
        assert all(c.isalnum() or c in "-_:{}." for c in name), name


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key, error", [("nonsense", "key_unknown"), (digest("key-a"), "key_unknown"), ("key-off", "key_disabled"),
                                        ("key-old", "key_expired"), ("Key-a", "key_unknown"), ("key-a ,key-b", "key_unknown"),
                                        ("key-", "key_unknown"), ("key-aa", "key_unknown")])
@pytest.mark.parametrize("path", ["/need", "/may"])
def test_bad_keys_are_401(gateway, upstream, path, key, error):
    """A bad key is refused even where none is needed, and every kind of bad looks the same from outside."""
    g = gateway(config(upstream))
    a = g.get(path, keyed(key))
    assert a.status == 401 and a.header("Content-Type") == "application/problem+json"
    assert a.header("WWW-Authenticate").startswith("Bearer")
    problem = json.loads(a.text)
    assert problem["status"] == 401 and problem["detail"] == "The API key is not valid."
    assert a.header("RateLimit") is None and a.header("RateLimit-Policy") is None
    assert upstream.requests == []
    assert g.access_count(1)[0]["error.type"] == error
    assert g.metric("slotgate_tenant_requests_total", result="unauthorized") == 1


def test_key_that_expires_later_passes(gateway, upstream):
    assert gateway(config(upstream)).get("/free", keyed("key-later")).status == 200


def test_no_key(gateway, upstream):
    """required: 401; optional: anonymous; a route without classes is optional; none: no key is looked at."""
    g = gateway(config(upstream))
    a = g.get("/need")
    assert a.status == 401 and a.header("WWW-Authenticate").startswith("Bearer")
    assert g.get("/may").status == 200
    assert g.get("/plain").status == 200
    assert g.get("/none", keyed("nonsense")).status == 200
    tenants = [e.get("slotgate.tenant") for e in g.access_count(3, slotgate__result="allowed")]
    assert tenants == ["anonymous"] * 3
    assert g.metric("slotgate_tenant_requests_total", tenant="anonymous", result="allowed") == 3


def test_unknown_keys_get_no_budget_of_their_own(gateway, upstream, redis):
    g = gateway(config(upstream, redis_store(redis)))
    with g.connect() as c:
        for i in range(20):
            assert c.request("GET", "/may", keyed("random-%d" % i)).status == 401
    names = redis.keys()
    assert len(names) == 1 and ":identity.failures:" in names[0], names


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_failures_are_limited_for_bad_keys_only(gateway, upstream, request, kind):
    store = redis_store(request.getfixturevalue("redis")) if kind == "redis" else "{type: memory}"
    g = gateway(config(upstream, store, identity="failures: {limit: 3, window: 366d}"))
    assert [g.get("/free", keyed("bad-%d" % i)).status for i in range(5)] == [401] * 3 + [429] * 2
    a = g.get("/free", keyed("key-off"))
    assert a.status == 429 and int(a.header("Retry-After")) >= 1
    assert json.loads(a.text)["violated-policies"] == ["identity.failures"]
    assert g.get("/free", keyed("key-a")).status == 200
    assert g.get("/plain").status == 200
    assert g.get("/free").status == 401         # no key is not a bad key
    assert upstream.count("/free") == 1
    g.access_count(9)       # what is logged is counted
    assert g.metric("slotgate_tenant_requests_total", result="limited") == 3
    assert g.metric("slotgate_tenant_requests_total", result="unauthorized") == 4


def test_failures_are_counted_by_address(gateway, upstream):
    g = gateway(config(upstream, identity="failures: {limit: 2, window: 366d}", trusted="[127.0.0.1]"))
    def ask(ip):
        return g.get("/free", [("X-API-Key", "bad"), ("X-Forwarded-For", ip)]).status
    assert [ask("192.0.2.1") for _ in range(3)] == [401, 401, 429]
    assert ask("192.0.2.2") == 401


def test_failures_unlimited(gateway, upstream):
    g = gateway(config(upstream, identity="failures: {limit: unlimited, window: 1m}"))
    assert [g.get("/free", keyed("bad")).status for _ in range(30)] == [401] * 30


@pytest.mark.parametrize("header", ["X-API-Key", "Authorization", "X-Other"])
def test_nul_in_a_header_is_400(gateway, upstream, header):
    g = gateway(config(upstream))
    with g.connect() as c:
        c.send(b"GET /free HTTP/1.1\r\nHost: x\r\n%s: key-a\0junk\r\n\r\n" % header.encode())
        assert c.answer().status == 400
    assert upstream.requests == []


# --- what goes upstream --------------------------------------------------------------------------------


@pytest.mark.parametrize("sent, arrives", [
    ("/free?api_key=key-a", "/free"),
    ("/free?api_key=key-a&x=%41+b&&y", "/free?x=%41+b&&y"),
    ("/free?x=%41+b&api_key=key-a", "/free?x=%41+b"),
    ("/free?x=1&api_key=key-a&y=a=b;c/?", "/free?x=1&y=a=b;c/?"),
    ("/free?%61pi_key=key-a&z", "/free?z"),
    ("/free?x=%zz&api_key=key-a&my_api_key=1", "/free?x=%zz&my_api_key=1"),
])
def test_query_key_is_stripped_and_the_rest_stays(gateway, upstream, sent, arrives):
    g = gateway(config(upstream))
    assert g.get(sent).status == 200
    assert upstream.last("/free").target == arrives


def test_header_keys_are_stripped(gateway, upstream):
    g = gateway(config(upstream))
    assert g.get("/free", [("A", "1"), ("X-API-Key", "key-a"), ("Authorization", "Bearer key-a"), ("B", "2")]).status == 200
    got = upstream.last("/free")
    assert got.all("X-API-Key") == got.all("Authorization") == [] and got.all("A") == ["1"] and got.all("B") == ["2"]
    assert b"key-a" not in got.raw_head
    assert g.get("/free", [("X-API-Key", "key-a"), ("Authorization", "Basic eDp5")]).status == 200
    assert upstream.last("/free").header("Authorization") == "Basic eDp5"


def test_forward_key(gateway, upstream):
    g = gateway(config(upstream, identity="forward_key: true"))
    assert g.get("/free?x=1&api_key=key-a&y", [("X-API-Key", "key-a"), ("Authorization", "Bearer key-a")]).status == 200
    got = upstream.last("/free")
    assert got.target == "/free?x=1&api_key=key-a&y"
    assert got.header("X-API-Key") == "key-a" and got.header("Authorization") == "Bearer key-a"


# --- addresses -----------------------------------------------------------------------------------------


def test_anonymous_callers_are_told_apart_by_address(gateway, upstream):
    g = gateway(config(upstream, trusted="[127.0.0.1]"))
    def ask(ip):
        return g.get("/may", {"X-Forwarded-For": ip}).status
    assert [ask("192.0.2.1") for _ in range(4)] == [200] * 3 + [429]
    assert ask("192.0.2.2") == 200


def test_forwarded_for_is_ignored_from_an_untrusted_peer(gateway, upstream):
    g = gateway(config(upstream))
    assert [g.get("/ip", {"X-Forwarded-For": "192.0.2.%d" % i}).status for i in range(3)] == [200, 200, 429]
    assert {e["client.address"] for e in g.access_count(3)} == {"127.0.0.1"}


TRUSTED = '[127.0.0.0/8, 192.128.0.0/16, "::1"]'


@pytest.mark.parametrize("lines, client", [
    (["6.6.6.%d, 9.9.9.9"], "9.9.9.9"),                                # the left is the client's own word
    (["6.6.6.%d", "9.9.9.9"], "9.9.9.9"),                              # lines are joined in order
    (["9.9.9.9, 192.128.1.%d"], "9.9.9.9"),
    (["9.9.9.9", "192.128.1.%d, 127.0.0.9"], "9.9.9.9"),
    (["192.128.3.3, 192.128.1.%d"], "192.128.3.3"),                    # all trusted: the leftmost
    (["8.8.8.8, nonsense%d, 192.128.7.7"], "192.128.7.7"),             # malformed: stops at the last good one
    (["6.6.6.6, unknown%d"], "127.0.0.1"),
    (["9.9.9.9:%d"], "9.9.9.9"),
    (["[2001:db8::1]:1%d"], "2001:db8::"),
    (["2001:db8:0:0:%d::7"], "2001:db8::"),                            # one /64
    (["2001:0DB8:0000:0000:0:0:0:%d"], "2001:db8::"),
    (["::ffff:1.1.1.1, 192.128.0.%d"], "1.1.1.1"),
    (["::ffff:101:101, 192.128.0.%d"], "1.1.1.1"),
    ([", , 9.9.9.9 , 192.128.0.%d,"], "9.9.9.9"),
])
def test_client_address_behind_trusted_proxies(gateway, upstream, lines, client):
    """The varying part of the field makes no other client: the third request is over the limit of 2."""
    g = gateway(config(upstream, trusted=TRUSTED))
    def ask(i):
        return g.get("/ip", [("X-Forwarded-For", line % i if "%" in line else line) for line in lines]).status
    assert [ask(i) for i in range(1, 4)] == [200, 200, 429]
    # The same client in its plain form is over the limit too; another one is not.
    assert g.get("/ip", {"X-Forwarded-For": client}).status == 429
    assert g.get("/ip", {"X-Forwarded-For": "203.0.113.77"}).status == 200


def test_ipv6_clients_of_two_networks_are_two(gateway, upstream):
    g = gateway(config(upstream, trusted=TRUSTED))
    def ask(ip):
        return g.get("/ip", {"X-Forwarded-For": ip}).status
    assert [ask("2001:db8:0:1::%d" % i) for i in range(3)] == [200, 200, 429]
    assert ask("2001:db8:0:2::1") == 200


def test_ipv6_prefix_as_configured(gateway, upstream):
    g = gateway(config(upstream, trusted=TRUSTED, identity="ipv6_prefix: 48"))
    def ask(ip):
        return g.get("/ip", {"X-Forwarded-For": ip}).status
    assert [ask("2001:db8:0:%d::1" % i) for i in range(3)] == [200, 200, 429]
    assert ask("2001:db8:1::1") == 200


def test_unix_socket_clients(gateway, upstream, folder):
    """The peer of a unix socket is a proxy on this machine: its X-Forwarded-For counts."""
    path = os.path.join(folder, "in.sock")
    g = gateway(config(upstream, listen="unix:" + path))
    def ask(ip):
        return g.get("/ip", {"X-Forwarded-For": ip}, unix=path).status if ip else g.get("/ip", unix=path).status
    assert [ask("9.9.9.9") for _ in range(3)] == [200, 200, 429]
    assert ask("9.9.9.8") == 200 and ask(None) == 200


# --- the clear key -------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [False, True])
def test_no_clear_key_or_address_is_written_anywhere(gateway, upstream, redis, folder, secret):
    if secret:
        with open(os.path.join(folder, "pepper"), "w", encoding="ascii") as f:
            f.write("the-pepper-of-this-test\n")
    identity = "failures: {limit: 2, window: 1h}%s" % (", secret_file: pepper" if secret else "")
    g = gateway(config(upstream, redis_store(redis), identity=identity, trusted="[127.0.0.1]"))
    client = {"X-Forwarded-For": "198.51.100.23"}
    for path, headers in [("/need", keyed("key-a")), ("/need", bearer("key-a")), ("/need?api_key=key-a", {}),
                          ("/need?api_key=key-a&api_key=key-a", {}), ("/need", keyed("key-a-unknown")), ("/need", keyed("key-off")),
                          ("/may?api_key=key-old", {}), ("/need?api_key=key-a", bearer("key-b")), ("/nowhere?api_key=key-a", {}),
                          ("/nowhere/key-x", keyed("key-a"))]:
        g.get(path, dict(headers, **client))
    g.access_count(10)
    seen = [g.log(), str(redis.keys())]
    for name in redis.keys():
        kind = redis("TYPE", name)
        seen.append(str(redis("GET", name) if kind == "string" else redis("HGETALL", name) if kind == "hash" else
                        redis("ZRANGE", name, 0, -1)))
    for path in ("/metrics", "/status", "/", "/readyz?verbose", "/tenants", "/tenants/acme/usage"):
        status, _, text = g.admin(path)
        assert status == 200, path
        seen.append(text)
    everything = "\n".join(seen)
    for word in ("key-a", "key-b", "key-off", "key-old", "198.51.100.23", "the-pepper", digest("key-a")):
        assert word not in everything, word
    # The access log names the client's address, and never a key, not even in the query of a request without a route.
    with open(g.access_path, encoding="utf-8") as f:
        access = f.read()
    assert "198.51.100.23" in access
    for word in ("key-a", "key-b", "key-off", "key-old", digest("key-a")):
        assert word not in access, word


def test_a_key_of_8_kib_makes_small_key_names(gateway, upstream, redis):
    g = gateway(config(upstream, redis_store(redis)))
    assert g.get("/need", keyed(LONG)).status == 200
    assert g.get("/need", keyed("M" * 8192)).status == 401
    names = redis.keys()
    assert len(names) == 2 and all(len(n) < 120 for n in names), names


# --- tenants, plans, overrides -------------------------------------------------------------------------


PLANS = """
server: {{listen: "127.0.0.1:0", workers: 1}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: off}}
classes: {{c: [{{name: l, algorithm: fixed_window, limit: 10, window: 366d, per: tenant}}]}}
plans: {{free: {{c.l: {{limit: {free}}}}}, gold: {{c.l: {{limit: 1000}}}}}}
tenants:
  none: {{keys: [{{id: k, sha256: {none}}}]}}
  free: {{plan: free, keys: [{{id: k, sha256: {freekey}}}]}}
  gold: {{plan: gold, keys: [{{id: k, sha256: {gold}}}]}}
  special: {{plan: gold, keys: [{{id: k, sha256: {special}}}], limits: {{c.l: {{limit: 7}}}}}}
  anonymous: {{plan: free}}
tenants_files: [tenants.d/*.yaml]
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes: [{{name: all, match: {{path: /*}}, auth: optional, classes: [c], upstream: up}}]
"""


def quota(gateway, key):
    a = gateway.get("/x", keyed(key) if key else ())
    return int(a.header("RateLimit-Policy").split("q=")[1].split(";")[0]) if a.status != 401 else None


def test_plans_overrides_and_tenants_files(gateway, upstream, folder):
    os.mkdir(os.path.join(folder, "tenants.d"))
    more = os.path.join(folder, "tenants.d", "more.yaml")
    def write(text):
        with open(more, "w", encoding="utf-8") as f:
            f.write(text)
    write("filed: {plan: free, keys: [{id: k, sha256: %s}]}\n" % digest("key-filed"))
    def text(free):
        return PLANS.format(free=free, upstream=upstream.url, none=digest("key-none"), freekey=digest("key-free"),
                            gold=digest("key-gold"), special=digest("key-special"))
    g = gateway(text(2))
    assert [quota(g, k) for k in ("key-none", "key-free", "key-gold", "key-special", "key-filed", None)] == [10, 2, 1000, 7, 2, 2]

    # A key that came with a reload works, a new limit holds at once, and what is used stays used.
    write("filed: {plan: gold, keys: [{id: k, sha256: %s}]}\nnew: {keys: [{id: k, sha256: %s}]}\n" %
          (digest("key-filed"), digest("key-new")))
    assert g.reload(text(4))
    until("the new tenant is known", lambda: quota(g, "key-new") == 10)
    assert [quota(g, k) for k in ("key-free", "key-filed")] == [4, 1000]
    assert '"c.l";r=1' in g.get("/x", keyed("key-free")).header("RateLimit")     # 4 - 3

    # Gone from its file: the key is not valid any more.
    write("filed: {plan: gold, keys: [{id: k, sha256: %s}]}\n" % digest("key-filed"))
    assert g.reload()
    until("the key is gone", lambda: quota(g, "key-new") is None)

    # An error in a file of tenants changes nothing.
    write("filed: {plan: platinum}\nbroken: {keys: [{id: k, sha256: %s}]}\n" % digest("key-broken"))
    assert not g.reload()
    assert "more.yaml:1:" in g.events("config not reloaded: the running one stays")[-1]["error"]
    assert quota(g, "key-filed") == 1000 and quota(g, "key-broken") is None


def test_hash_of_two_tenants_with_one_key_id_differ(gateway, upstream, redis):
    """Both tenants call their key the same; each has its own counter under its own tag."""
    g = gateway(config(upstream, redis_store(redis)))
    assert g.get("/need", keyed("key-a")).status == g.get("/need", keyed("key-beta")).status == 200
    tags = {n.split("{")[1].split("}")[0] for n in redis.keys()}
    assert len(tags) == 2 and len(redis.keys()) == 2
