"""Clients and an upstream that break everything at once, for a few seconds; afterwards nothing is left, and the books are right."""
import random
import socket
import threading
import time

from harness.client import Malformed
from harness.upstream import Upstream
from harness.wait import until

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 2, header_timeout: 2s}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
classes:
  slot: [{{name: slots, algorithm: concurrency, limit: 3, lease: 5m, per: ip}}]
upstreams: {{up: {{targets: [{{url: "{url}"}}], timeout: 200ms, retries: 2, retry_on: [connect, reset, 503]}}}}
routes:
  - {{name: slot, match: {{path: /slot/*}}, auth: none, upstream: up, classes: [slot]}}
  - {{name: small, match: {{path: /small/*}}, auth: none, upstream: up, max_body_size: 1000B}}
  - {{name: key, match: {{path: /key/*}}, auth: required, upstream: up}}
  - {{name: own, match: {{path: /own}}, auth: none, respond: {{status: 200, body: own}}}}
  - {{name: all, match: {{path: /*}}, auth: none, upstream: up}}
"""

SECONDS = 4
PATHS = ("/late", "/late", "/early", "/slot/late", "/own", "/x", "/key/x", "/small/y", "/a/../b", "/no;p")
OK = "HTTP/1.1 200 OK\r\n"


def late_answer(request, peer):
    """The request was read: anything may come of it."""
    what = random.randrange(8)
    if what == 0:
        return False
    if what == 1:
        peer.reset()
        return False
    if what == 2:
        peer.send(OK + "Content-Length: 50\r\n\r\nshort")
        return False
    if what == 3:
        peer.send(OK + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        peer.send("0\r\n\r\n")
        return True
    if what == 4:
        peer.answer(503, reason="Busy")
        return True
    if what == 5:
        peer.answer(200, body="a" * 300000)
        return True
    if what == 6:
        for byte in OK + "Content-Length: 2\r\n\r\nok":
            peer.send(byte)
        return True
    return not peer.closed_by_peer(0.3)


def early_answer(request, peer):
    """Nothing of the body was read yet."""
    what = random.randrange(5)
    if what == 0:
        peer.answer(413, body="no")
        return False
    if what == 1:
        peer.reset()
        return False
    if what == 2:
        peer.answer(200, body="early")
    Upstream.read_body(request, peer)
    if what > 2:
        peer.answer(200, body="late")
    return what > 2


early_answer.early = True


def request():
    method, path = random.choice(("GET", "GET", "HEAD", "DELETE", "POST", "PUT")), random.choice(PATHS)
    line = "%s %s HTTP/1.1\r\nHost: gw.test\r\n" % (method, path)
    if method not in ("POST", "PUT"):
        return method, line + "\r\n"
    n = random.choice((0, 5, 1500, 70000, 300000))
    if random.random() < 0.5:
        return method, line + "Content-Length: %d\r\n\r\n%s" % (n, "b" * n)
    end = "zz\r\n" if random.random() < 0.1 else "0\r\n\r\n"
    return method, line + "Transfer-Encoding: chunked\r\n\r\n" + ("%x\r\n%s\r\n" % (n, "b" * n) if n else "") + end


def misbehave(c):
    """One request, in some way. True: the connection goes on."""
    method, data = request()
    what = random.random()
    if what < 0.1:
        c.send(data[:random.randint(1, len(data))])
    elif what < 0.2:
        c.send(data)
        c.socket.shutdown(socket.SHUT_WR)
        while c.socket.recv(65536):
            pass
    elif what < 0.3:
        c.send(data)
        c.head()
    elif what < 0.4:
        c.send(data)
    else:
        c.send(data)
        c.answer(method)
        return True
    if random.random() < 0.3:
        c.abort()
    return False


def client(gateway, end, hung):
    while time.monotonic() < end:
        try:
            with gateway.connect(timeout=15) as c:
                while time.monotonic() < end and misbehave(c):
                    pass
        except socket.timeout as e:
            hung.append(e)
        except (Malformed, OSError):
            pass


def test_disorder(gateway, upstream):
    for path in ("/late", "/slot/late"):
        upstream.on(path, late_answer)
    upstream.on("/early", early_answer)
    g = gateway(CONFIG.format(url=upstream.url))
    hung, end = [], time.monotonic() + SECONDS
    threads = [threading.Thread(target=client, args=(g, end, hung), daemon=True) for _ in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert hung == []
    for name in ("slotgate_connections", "slotgate_requests_in_flight", "slotgate_concurrency_leases"):
        until(name + " is 0 again", lambda n=name: g.metric(n) == 0)
    total = g.metric("slotgate_http_requests_total")
    assert total > 100
    assert g.metric("slotgate_tenant_requests_total") == total
    g.access_count(int(total))
    with g.connect() as c:
        assert c.request("GET", "/own").text == "own"


def test_bad_length_while_others_reset(gateway):
    """The library does not say whose length is bad; connections that end in the same turn have no fields any more."""
    g = gateway('server: {listen: "127.0.0.1:0", workers: 1}\nadmin: {listen: "127.0.0.1:0"}\nlog: {access: "@ACCESS@"}\n'
                "routes: [{name: own, match: {path: /*}, auth: none, respond: {status: 200, body: own}}]\n")
    begun = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-A: b\r\n"
    for _ in range(60):
        others = [g.connect() for _ in range(4)]
        with g.connect() as c:
            for o in others:
                o.send(begun)
            c.send("POST /x HTTP/1.1\r\nHost: h\r\n")
            time.sleep(0.005)
            for o in others[:2]:
                o.abort()
            c.send("Content-Length: 5x\r\n\r\n")
            for o in others[2:]:
                o.abort()
            assert c.answer("POST").status == 400
