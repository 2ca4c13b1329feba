"""Clients that are slow on purpose, greedy, or gone: they get what the rules say, and nobody else notices."""
import os
import socket
import threading
import time

import pytest

from harness.client import Connection
from harness.gateway import LIBRARY_1
from harness.wait import until

CONFIG = """
server: {listen: "127.0.0.1:0", workers: 2, header_timeout: HEADER, idle_timeout: 400ms}
admin: {listen: "127.0.0.1:0"}
log: {access: "@ACCESS@"}
upstreams: {up: {targets: [{url: "UPSTREAM"}], timeout: 10s, idle_timeout: 10s}}
routes:
  - {name: here, match: {path: /here}, auth: none, respond: {status: 200, body: "here"}}
  - {name: all, match: {path: /*}, auth: none, upstream: up}
"""


def start(gateway, upstream, header="2s"):
    return gateway(CONFIG.replace("UPSTREAM", upstream.url).replace("HEADER", header))


def at_rest(g):
    until("no connection is open", lambda: g.metric("slotgate_connections") == 0)
    until("nothing is in flight", lambda: g.metric("slotgate_requests_in_flight") == 0)
    assert g.metric("slotgate_http_requests_total") == g.metric("slotgate_tenant_requests_total")


def drip(c, pieces, pause_s):
    """Send them one by one until the peer ends it; how many it took."""
    taken = 0
    for piece in pieces:
        try:
            c.send(piece)
        except OSError:
            break
        taken += 1
        time.sleep(pause_s)
    return taken


def test_300_slow_heads_and_20_good_requests(gateway, upstream):
    g = start(gateway, upstream)
    slow = [g.connect() for _ in range(300)]
    for i, c in enumerate(slow):
        c.send("GET /slow HTTP/1.1\r\nHost: a\r\nX-%d: " % i)
    stop = threading.Event()

    def trickle():
        while not stop.is_set():
            for c in slow:
                try:
                    c.send("x")
                except OSError:
                    pass
            stop.wait(0.05)
    thread = threading.Thread(target=trickle)
    thread.start()
    for i in range(20):
        assert g.get("/good%d" % i).status == 200
    told = 0
    for c in slow:
        try:
            told += c.answer().status == 408
        except ConnectionError:
            pass                # bytes that crossed the answer made a reset of it
    stop.set()
    thread.join()
    for c in slow:
        c.close()
    assert told > 200
    at_rest(g)
    assert upstream.count("/slow") == 0 and g.metric("slotgate_refused_requests_total", reason="header_timeout") == 300


# --- bodies that drip: 400 ms, and a second for each KiB ---------------------------------------------------------------------

@pytest.mark.parametrize("framing, pieces", [
    ("Content-Length: 100000", ["x"] * 60),
    ("Transfer-Encoding: chunked", ["1\r\nx\r\n"] * 60),
    ("Transfer-Encoding: chunked", ["1;"] + ["x"] * 60),
])
def test_body_that_drips_is_ended(gateway, upstream, framing, pieces):
    g = start(gateway, upstream)
    c = g.connect()
    c.send("POST /drip HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % framing)
    assert drip(c, pieces, 0.1) < len(pieces)
    entry = g.access_count(1)[0]
    assert (entry["http.response.status_code"], entry["error.type"], entry["slotgate.result"]) == (408, "body_timeout", "refused")
    assert entry["slotgate.upstream.outcome"] == "cancelled"
    assert g.metric("slotgate_upstream_requests_total", outcome="cancelled") == 1
    assert g.metric("slotgate_refused_requests_total", reason="body_timeout") == 1
    at_rest(g)


def test_client_whose_body_dripped_is_told(gateway, upstream):
    g = start(gateway, upstream)
    with g.connect() as c:
        c.send("POST /drip HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(3):
            c.send("x")
            time.sleep(0.1)
        assert c.answer().status == 408 and c.at_end()


def test_slow_body_passes(gateway, upstream):
    """4 KiB/s for three times the idle time-out."""
    g = start(gateway, upstream)
    with g.connect() as c:
        c.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 4800\r\n\r\n")
        assert drip(c, ["x" * 400] * 12, 0.1) == 12
        assert c.answer().status == 200
    assert upstream.last("/slow").body == b"x" * 4800


def test_body_that_nobody_wants_must_not_drip_either(gateway, upstream):
    g = start(gateway, upstream)
    with g.connect() as c:
        c.send("POST /here HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n")
        assert drip(c, ["x"] * 60, 0.1) < 60
        assert g.access_count(1)[0]["http.response.status_code"] == 200
    at_rest(g)


def test_body_that_drips_behind_an_early_answer(gateway, upstream):
    def early(request, peer):
        peer.answer(200, [], b"early")
        return not peer.closed_by_peer()
    early.early = True
    upstream.on("/early", early)
    g = start(gateway, upstream)
    with g.connect() as c:
        c.send("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        assert drip(c, ["x"] * 60, 0.1) < 60
    g.access_count(1)
    at_rest(g)


ENDLESS = b"POST /reload HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n%s"


def cpu_s(g):
    with open("/proc/%d/stat" % g.process.pid, encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("line", [b"1;" + b"e" * 200000, b"0" * 200000 + b"1"], ids=["extension", "zeros"])
def test_a_line_of_chunks_that_does_not_end_keeps_no_core_busy(gateway, upstream, line):
    """libmicrohttpd 0.9 asks to be run at once while the line is larger than its buffer. On the public listener until the
    body's deadline, on the admin listener until its own."""
    g = gateway(CONFIG.replace("UPSTREAM", upstream.url).replace("HEADER", "2s").replace("400ms", "2s"))
    before = cpu_s(g)
    with g.connect() as c, Connection("127.0.0.1", g.admin_port) as admin:
        for one in (c, admin):
            one.socket.setblocking(False)
            try:
                one.socket.send(ENDLESS % line)
            except BlockingIOError:
                pass
        c.socket.settimeout(20)
        status = c.answer().status
        assert status in (400, 408, 413) and c.at_end_of_stream()
    assert cpu_s(g) - before < 1
    assert g.get("/here").text == "here"


def test_more_fields_or_cookies_than_a_connection_takes(gateway, upstream):
    """One well-formed 431, and nothing upstream: not a request that is carried out and then has no room for its answer."""
    g = start(gateway, upstream)
    many = ["a%d" % i for i in range(2000)]
    for n in [100, *range(400, 900, 20), 1999]:
        for fields in ([(name, "1") for name in many[:n]], [("Cookie", "; ".join(name + "=1" for name in many[:n]))]):
            before = len(upstream.requests)
            with g.connect() as c:
                a = c.request("POST", "/x", fields, b"once")
                assert a.status in (200, 431) and len(upstream.requests) - before == (a.status == 200), (n, a)
                assert a.status == 200 or c.at_end(), (n, c.buffer)
    assert a.status == 431


@pytest.mark.parametrize("kib", [1, 8, 16, 24, 32, 64])
def test_the_largest_head_has_room_for_an_answer(gateway, upstream, kib):
    g = gateway(CONFIG.replace("UPSTREAM", upstream.url).replace("HEADER", "2s, max_header_size: %dKiB" % kib))
    assert g.get("/x", {"X-Long": "x" * (kib * 1024 - 200)}).status == 200


def test_heads_that_the_library_gives_up_on_at_the_admin_listener(gateway, upstream):
    """Many arguments or cookies exhaust a connection's memory, and libmicrohttpd 0.9 does not say that such a request has ended:
    it gets an answer all the same, and nothing is left of it (the gateway's end is looked at by a sanitizer)."""
    g = start(gateway, upstream)
    many = ["a%d" % i for i in range(500)]
    with Connection("127.0.0.1", g.admin_port) as c:
        assert c.request("GET", "/healthz?" + "&".join(many)).status == 200
        assert c.request("GET", "/tenants?" + "&".join(many) + "&limit=0").text == '{"count":1,"tenants":[]}\n'
        assert c.request("GET", "/healthz?" + "&".join(many * 3)).status == 414
        c.send("GET /healthz HTTP/1.1\r\n\r\n")
        assert c.answer().status == 400
        if not LIBRARY_1:       # which refuses it itself, and closes
            assert c.request("GET", "/healthz").status == 200       # the connection is still in step
    with Connection("127.0.0.1", g.admin_port) as c:
        c.send("GET /healthz HTTP/1.1\r\nHost: a\r\nCookie: %s\r\n\r\n" % "; ".join("%s=1" % name for name in many * 3))
        assert c.at_end_of_stream()
    assert g.admin("/healthz")[0] == 200


def test_time_of_a_slow_upstream_is_not_the_clients(gateway, upstream):
    go = threading.Event()

    def slow(request, peer):
        go.wait(10)
        upstream.read_body(request, peer)
        peer.answer(200)
        return True
    slow.early = True
    upstream.on("/slow", slow)
    upstream.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    g = start(gateway, upstream)
    size = 10000000
    with g.connect() as c:
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        sender = threading.Thread(target=c.send, args=(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size,))
        sender.start()
        sender.join(1.5)        # stuck: everything on the way is full
        assert sender.is_alive()
        go.set()
        sender.join()
        assert c.answer().status == 200
    assert len(upstream.last("/slow").body) == size


# --- greedy and gone -----------------------------------------------------------------------------------------------------------

def test_100_pipelined_requests(gateway, upstream):
    g = start(gateway, upstream)
    with g.connect() as c:
        c.send("".join("GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % i if i % 2 else "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" % i
                       for i in range(100)))
        for i in range(100):
            assert '"/%d"' % i in c.answer().text
        assert c.request("GET", "/after").status == 200
    with upstream.lock:
        assert [r.target for r in upstream.requests] == ["/%d" % i for i in range(100)] + ["/after"]
    g.access_count(101)


STATES = {
    "connected": "",
    "half a line": "GET /x HT",
    "half a head": "GET /x HTTP/1.1\r\nHost: a\r\nX-",
    "no body yet": "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
    "waits for 100": "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    "half a body": "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234",
    "half a chunk": "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n1234",
    "no last chunk": "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n",
    "waits for the answer": "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n",
    "in the answer": "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n",
    "half of the next one": "GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET /y HT",
    "more behind": "GET /wait HTTP/1.1\r\nHost: a\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("how", ["reset", "close", "half"])
def test_gone_in_every_state(gateway, upstream, how):
    def wait(request, peer):
        peer.closed_by_peer()
        return False

    def endless(request, peer):
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            peer.send("3e8\r\n%s\r\n" % ("x" * 1000))
            time.sleep(0.001)
    upstream.on("/wait", wait)
    upstream.on("/endless", endless)
    g = start(gateway, upstream)
    assert g.get("/x").status == 200
    upstream.drop()
    fds = g.fds()
    for state, sent in STATES.items():
        for _ in range(3):
            c = Connection("127.0.0.1", g.port)
            c.send(sent)
            if "wait" in sent:
                until("it is upstream: " + state, lambda: g.metric("slotgate_requests_in_flight") >= 1)
            elif "endless" in sent:
                c.take(5000)
            if how == "reset":
                c.abort()
            elif how == "close":
                c.close()
            else:
                c.socket.shutdown(1)
                assert c.at_end_of_stream(), state
                c.close()
    at_rest(g)
    upstream.drop()
    until("as many descriptors as before: %d" % fds, lambda: g.fds() <= fds)
    until("a line for each", lambda: len(g.access()) == g.metric("slotgate_http_requests_total"))


def test_bare_line_feeds_before_a_request_line(gateway, upstream):
    """libmicrohttpd 0.9 skips them and leaves no trace, 1.0 closes: either way nothing of them goes upstream."""
    g = start(gateway, upstream)
    with g.connect() as c:
        c.send("\n\r\n\nGET /lf HTTP/1.1\r\nHost: gw.test\r\n\r\n")
        status = c.answer().status if not LIBRARY_1 or not c.at_end() else None
    assert status in ((None, 400) if LIBRARY_1 else (200, 400))
    assert [(r.method, r.target, r.version) for r in upstream.requests] == [("GET", "/lf", "HTTP/1.1")] * (status == 200)
    at_rest(g)
