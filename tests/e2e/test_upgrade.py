"""WebSocket through the gateway: handshake bytes, both directions, back-pressure, idle time-out, limits, drain."""
import base64
import hashlib
import os
import signal
import threading

from harness.gateway import digest
from harness.wait import until

CONFIG = """
server: {listen: "127.0.0.1:0", workers: 1, drain_timeout: 1s}
admin: {listen: "127.0.0.1:0"}
log: {access: "@ACCESS@"}
classes:
  one: [{name: min, algorithm: fixed_window, limit: 1, window: 366d, per: ip}]
  slots: [{name: open, algorithm: concurrency, limit: 2, lease: 10m, per: ip}]
upstreams:
  up: {targets: [{url: "UPSTREAM"}], idle_timeout: 60s}
  hasty: {targets: [{url: "UPSTREAM"}], idle_timeout: 300ms}
routes:
  - {name: once, match: {path: /once}, auth: none, classes: [one], upstream: up}
  - {name: slot, match: {path: /slot}, auth: none, classes: [slots], upstream: up}
  - {name: hasty, match: {path: /hasty}, auth: none, upstream: hasty}
  - {name: all, match: {path: /*}, auth: none, upstream: up}
"""
KEY = base64.b64encode(bytes(range(16))).decode()
ACCEPT = base64.b64encode(hashlib.sha1((KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def handshake(path, extra=""):
    return ("GET %s HTTP/1.1\r\nHost: gw.test\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
            "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n%s\r\n" % (path, KEY, extra))


def accept(request, peer, early=b""):
    peer.send(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n"
               % ACCEPT).encode() + early)


def echo(request, peer):
    accept(request, peer)
    data, peer.buffer = peer.buffer, b""
    while True:
        if data:
            peer.send(data)
        data = peer.socket.recv(65536)
        if not data:
            return False


def start(gateway, upstream, *paths):
    for path in paths or ("/ws",):
        upstream.on(path, echo)
    return gateway(CONFIG.replace("UPSTREAM", upstream.url))


def open_tunnel(g, path="/ws", extra=""):
    c = g.connect()
    c.send(handshake(path, extra))
    a = c.answer()
    assert a.status == 101, a
    return c, a


def test_handshake_and_echo(gateway, upstream):
    g = start(gateway, upstream)
    c, a = open_tunnel(g, extra="Sec-WebSocket-Protocol: chat\r\n")
    assert a.header("Upgrade") == "websocket" and a.header("Connection").lower() == "upgrade"
    assert a.header("Sec-WebSocket-Accept") == ACCEPT
    seen = upstream.last("/ws")
    assert seen.header("Upgrade") == "websocket" and seen.header("Connection") == "Upgrade"
    assert seen.header("Sec-WebSocket-Key") == KEY and seen.header("Sec-WebSocket-Protocol") == "chat"
    for size in (1, 125, 70000, 1000000):
        data = os.urandom(size)
        threading.Thread(target=c.send, args=(data,)).start()
        assert c.take(size) == data
    assert g.metric("slotgate_connections", state="upgraded") == 1
    c.close()
    entry = g.access_count(1)[0]
    assert entry["http.response.status_code"] == 101 and entry["slotgate.result"] == "allowed"
    assert entry["http.request.body.size"] == entry["http.response.body.size"] == 1 + 125 + 70000 + 1000000
    until("no tunnel", lambda: g.metric("slotgate_connections", state="upgraded") == 0)


def test_bytes_that_come_with_the_handshakes(gateway, upstream):
    def eager(request, peer):
        accept(request, peer, b"early from the server")
        peer.socket.settimeout(20)
        while len(peer.buffer) < 21:
            peer.more()
        peer.send(b"got " + peer.buffer)
        return False
    g = start(gateway, upstream)
    upstream.on("/eager", eager)
    with g.connect() as c:
        c.send(handshake("/eager") + "early from the client")
        assert c.answer().status == 101
        assert c.take(21 + 4 + 21) == b"early from the servergot early from the client"
        assert c.at_end()           # the server closed: so does the gateway


def test_a_refused_handshake_is_an_ordinary_answer(gateway, upstream):
    g = start(gateway, upstream)
    upstream.on("/no", lambda request, peer: peer.answer(403, [], b"no tunnel", "Forbidden") or True)
    with g.connect() as c:
        c.send(handshake("/no"))
        a = c.answer()
        assert (a.status, a.body) == (403, b"no tunnel")
        assert c.request("GET", "/x").status == 200     # HTTP goes on


def test_what_is_no_websocket_handshake_is_not_upgraded(gateway, upstream):
    g = start(gateway, upstream)
    for upgrade in ("h2c", "websocket, h2c", "TLS/1.0"):
        a = g.get("/x", {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": upgrade, "HTTP2-Settings": "AAMAAABkAAQAAP__"})
        assert a.status == 200
        seen = upstream.last("/x")
        assert not seen.all("Upgrade") and not seen.all("HTTP2-Settings")
    assert g.get("/x", {"Upgrade": "websocket"}).status == 200
    assert not upstream.last("/x").all("Upgrade")


def test_a_101_that_was_not_asked_for(gateway, upstream):
    g = start(gateway, upstream)
    upstream.on("/uninvited", lambda request, peer: accept(request, peer))
    assert g.get("/uninvited").status == 502
    upstream.on("/other", lambda request, peer: peer.send(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"))
    with g.connect() as c:
        assert c.send(handshake("/other")).answer().status == 502


def test_limits_hold_for_handshakes(gateway, upstream):
    g = start(gateway, upstream, "/once", "/slot")
    first, _ = open_tunnel(g, "/once")
    with g.connect() as c:
        assert c.send(handshake("/once")).answer().status == 429
    first.send(b"frames are not counted")
    assert first.take(22) == b"frames are not counted"
    a, _ = open_tunnel(g, "/slot")
    b, _ = open_tunnel(g, "/slot")
    with g.connect() as c:
        assert c.send(handshake("/slot")).answer().status == 429
    a.close()                       # a slot is held for the life of the socket, and no longer
    until("a slot", lambda: g.metric("slotgate_concurrency_leases", limit="slots.open") == 1)
    open_tunnel(g, "/slot")[0].close()
    b.abort()
    until("no slot in use", lambda: g.metric("slotgate_concurrency_leases", limit="slots.open") == 0)


def test_idle_tunnels_close_and_busy_ones_do_not(gateway, upstream):
    g = start(gateway, upstream, "/hasty", "/ws")
    idle, _ = open_tunnel(g, "/hasty")
    assert idle.at_end()
    busy, _ = open_tunnel(g, "/ws")
    busy.send(b"ping")
    assert busy.take(4) == b"ping"
    busy.close()


def test_either_side_ends_both(gateway, upstream):
    g = start(gateway, upstream)
    c, _ = open_tunnel(g)
    upstream.drop()
    assert c.at_end()
    c.close()
    ended = threading.Event()

    def watch(request, peer):
        accept(request, peer)
        if peer.closed_by_peer(20):
            ended.set()
    upstream.on("/watch", watch)
    c, _ = open_tunnel(g, "/watch")
    c.abort()
    assert ended.wait(20)


def test_a_slow_reader_does_not_fill_the_memory(gateway, upstream):
    total = 64 * 1024 * 1024
    blocked = threading.Event()

    def flood(request, peer):
        accept(request, peer)
        peer.socket.settimeout(60)
        block = b"x" * 65536
        peer.socket.setblocking(False)
        sent = 0
        while sent < total:
            try:
                sent += peer.socket.send(block[:min(65536, total - sent)])
            except BlockingIOError:
                blocked.set()
                peer.socket.setblocking(True)
        return False
    upstream.on("/flood", flood)
    g = start(gateway, upstream)
    before = g.rss_bytes()
    with g.connect(receive_buffer=131072, timeout=60) as c:
        c.send(handshake("/flood"))
        assert c.answer().status == 101
        assert blocked.wait(20)     # the upstream was stopped, far from its end
        assert g.rss_bytes() - before < 32 * 1024 * 1024
        got = len(c.buffer)
        while got < total:
            data = c.socket.recv(1 << 20)
            assert data, "ended after %d bytes" % got
            got += len(data)
    assert got == total


def test_two_hundred_tunnels_and_back_to_rest(gateway, upstream):
    g = start(gateway, upstream)
    g.get("/x")
    upstream.drop()
    fds = g.fds()
    tunnels = [open_tunnel(g)[0] for _ in range(200)]
    for i, c in enumerate(tunnels):
        c.send(b"%04d" % i)
    assert [c.take(4) for c in tunnels] == [b"%04d" % i for i in range(200)]
    assert g.get("/x").status == 200
    for c in tunnels:
        c.close()
    until("no tunnel", lambda: g.metric("slotgate_connections", state="upgraded") == 0)
    upstream.drop()
    until("fds as before", lambda: g.fds() <= fds)


def test_drain_cuts_tunnels_when_its_time_is_over(gateway, upstream):
    g = start(gateway, upstream)
    c, _ = open_tunnel(g)
    g.signal(signal.SIGTERM)
    until("draining", lambda: g.events("draining"))
    c.send(b"still here")
    assert c.take(10) == b"still here"
    assert c.at_end()
    assert g.stop() == 0
    entry, = g.access()
    assert (entry["http.response.status_code"], entry["slotgate.result"], entry["error.type"]) == (101, "failed", "drained")


def test_keys_and_headers_are_as_in_any_request(gateway, upstream):
    upstream.on("/keyed", echo)
    text = CONFIG.replace("UPSTREAM", upstream.url).replace(
        "routes:\n", "tenants: {acme: {keys: [{id: k, sha256: %s}]}}\nroutes:\n"
        "  - {name: keyed, match: {path: /keyed}, auth: required, upstream: up}\n" % digest("k1"))
    g = gateway(text)
    with g.connect() as c:
        assert c.send(handshake("/keyed")).answer().status == 401
    c, a = open_tunnel(g, "/keyed", "X-API-Key: k1\r\n")
    assert a.header("X-Request-Id")
    assert not upstream.last("/keyed").all("X-API-Key")
    c.close()
