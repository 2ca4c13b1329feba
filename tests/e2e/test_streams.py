"""Bodies, time-outs, and connections that end: what streams, what is bounded, and what happens when somebody goes away."""
import os
import signal
import socket
import threading
import time

import pytest

from harness.client import Malformed
from harness.gateway import digest
from harness.upstream import Upstream, script
from harness.wait import until

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 1{server}}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@", level: debug}}
classes:
  one: [{{name: only, algorithm: fixed_window, limit: 1, window: 366d, per: ip}}]
  slot: [{{name: slots, algorithm: concurrency, limit: 1, lease: 5m, per: ip}}]
tenants: {{acme: {{keys: [{{id: one, sha256: {acme}}}]}}}}
upstreams: {{up: {{targets: [{{url: "{url}"}}]{upstream}}}}}
routes:
  - {{name: one, match: {{path: /one/*}}, auth: none, upstream: up, classes: [one]}}
  - {{name: slot, match: {{path: /slot/*}}, auth: none, upstream: up, classes: [slot]}}
  - {{name: small, match: {{path: /small/*}}, auth: none, upstream: up, max_body_size: 1000B}}
  - {{name: key, match: {{path: /key/*}}, auth: required, upstream: up}}
  - {{name: own, match: {{path: /own}}, auth: none, respond: {{status: 200, body: own}}}}
  - {{name: all, match: {{path: /*}}, auth: none, upstream: up}}
"""

MIB = 1024 * 1024
OK = "HTTP/1.1 200 OK\r\n"


@pytest.fixture
def start(gateway, upstream):
    def go(server="", upstream_more="", **options):
        return gateway(CONFIG.format(url=upstream.url, acme=digest("k-acme"), server=", " + server if server else "",
                                     upstream=", " + upstream_more if upstream_more else ""), **options)
    return go


def early(handler):
    handler.early = True
    return handler


def head(method, path, *fields):
    return "%s %s HTTP/1.1\r\nHost: gw.test\r\n%s\r\n" % (method, path, "".join(f + "\r\n" for f in fields))


def pieces(total, size=65536):
    block = bytes(range(256)) * (size // 256)
    while total > 0:
        yield block[:total]
        total -= size


def receive_exactly(c, total):
    """Read a body without keeping it; true when it is the pattern of pieces()."""
    at, block = 0, bytes(range(256)) * 512
    while at < total:
        data = c.take(min(len(c.buffer) or 1, total - at)) if c.buffer else c.socket.recv(min(65536, total - at))
        if not data or data != block[at % 256:at % 256 + len(data)]:
            return False
        at += len(data)
    return at == total


# --- bodies ---------------------------------------------------------------------------------------------------------

def test_chunks_arrive_one_by_one_both_ways(start, upstream):
    got = []

    @early
    def both(request, peer):
        for _ in range(3):
            size = int(peer.line(), 16)
            got.append(peer.take(size))
            assert peer.line() == b""
        assert (peer.line(), peer.line()) == (b"0", b"")
        peer.send(OK + "Transfer-Encoding: chunked\r\n\r\n")
        for part in ("a", "bb", "ccc"):
            peer.send("%x\r\n%s\r\n" % (len(part), part))
            assert step.wait(10)
            step.clear()
        peer.send("0\r\n\r\n")
        return True
    upstream.on("/x", both)
    step = threading.Event()
    g = start()
    with g.connect() as c:
        c.send(head("POST", "/x", "Transfer-Encoding: chunked"))
        for i, part in enumerate((b"one", b"two", b"three")):
            c.send(b"%x\r\n%s\r\n" % (len(part), part))
            until("chunk %d is there before the next is sent" % i, lambda: len(got) > i)
        c.send("0\r\n\r\n")
        status, _, fields = c.head()
        assert status == 200 and ("Transfer-Encoding", "chunked") in fields
        for part in (b"a", b"bb", b"ccc"):
            size = int(c._line(), 16)
            assert c.take(size) == part and c.take(2) == b"\r\n"
            step.set()
        assert (c._line(), c._line()) == (b"0", b"")
    assert got == [b"one", b"two", b"three"]


def test_events_are_flushed_as_they_come(start, upstream):
    step = threading.Event()

    def events(request, peer):
        peer.send(OK + "Content-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n")
        for i in range(5):
            peer.send("data: %d\n\n" % i)
            assert step.wait(10)
            step.clear()
        return False
    upstream.on("/events", events)
    with start().connect() as c:
        c.send(head("GET", "/events", "Accept: text/event-stream"))
        status, _, fields = c.head()
        assert status == 200 and ("Content-Type", "text/event-stream") in fields and ("Transfer-Encoding", "chunked") in fields
        for i in range(5):
            event = c.take(int(c._line(), 16))
            assert event == b"data: %d\n\n" % i and c.take(2) == b"\r\n"
            step.set()
        assert c._line() == b"0"


def lean(env=os.environ):
    """AddressSanitizer keeps freed memory for a while: little of it here, where memory is measured."""
    return dict(env, ASAN_OPTIONS=":".join(filter(None, [env.get("ASAN_OPTIONS"), "quarantine_size_mb=1"])))


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_64_mib_down_in_little_memory(start, upstream, chunked):
    total = 64 * MIB

    def big(request, peer):
        peer.send(OK + ("Transfer-Encoding: chunked\r\n\r\n" if chunked else "Content-Length: %d\r\n\r\n" % total))
        for piece in pieces(total):
            peer.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            peer.send("0\r\n\r\n")
        return True
    upstream.on("/big", big)
    g = start(env=lean())
    assert g.get("/warm").status == 200
    before, most = g.rss_bytes(), 0
    with g.connect() as c:
        c.send(head("GET", "/big"))
        _, _, fields = c.head()
        if chunked:
            left = total
            while left:
                size = int(c._line(), 16)
                assert size <= left and len(c.take(size + 2)) == size + 2
                left -= size
                most = max(most, g.rss_bytes())
            assert (c._line(), c._line()) == (b"0", b"")
        else:
            assert ("Content-Length", str(total)) in fields
            for _ in range(64):
                assert receive_exactly(c, MIB)
                most = max(most, g.rss_bytes())
        assert c.request("GET", "/own").text == "own"
    assert most - before < 16 * MIB
    assert g.access_count(1, url__path="/big")[0]["http.response.body.size"] == total


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_64_mib_up_in_little_memory(start, upstream, chunked):
    total = 64 * MIB

    @early
    def count(request, peer):
        n, good = 0, True
        while n < total:
            if chunked:
                size = int(peer.line(), 16)
                data = peer.take(size)
                assert peer.line() == b""
            else:
                data = peer.buffer or peer.socket.recv(65536)
                peer.buffer = b""
            good = good and data == (bytes(range(256)) * (len(data) // 256 + 2))[n % 256:n % 256 + len(data)]
            n += len(data)
        if chunked:
            good = good and (peer.line(), peer.line()) == (b"0", b"")
        peer.answer(200, body="%d %s" % (n, good))
        return True
    upstream.on("/up", count)
    g = start(server="max_body_size: 100MiB", env=lean())
    assert g.get("/warm").status == 200
    before, most = g.rss_bytes(), 0
    with g.connect() as c:
        c.send(head("POST", "/up", "Transfer-Encoding: chunked" if chunked else "Content-Length: %d" % total))
        for piece in pieces(total):
            c.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            most = max(most, g.rss_bytes())
        if chunked:
            c.send("0\r\n\r\n")
        assert c.answer("POST").text == "%d True" % total
    assert most - before < 16 * MIB
    assert g.access_count(1, url__path="/up")[0]["http.request.body.size"] == total


def settled(value):
    """Wait until value() stands still for a while, and return it."""
    seen = []

    def still():
        seen.append(value())
        return len(seen) > 40 and len(set(seen[-40:])) == 1
    until("it stands still", still)
    return seen[-1]


def test_a_slow_reader_holds_its_upstream_back(start, upstream):
    total, sent = 64 * MIB, [0]

    def big(request, peer):
        peer.send(OK + "Content-Length: %d\r\n\r\n" % total)
        for piece in pieces(total):
            peer.send(piece)
            sent[0] += len(piece)
        return True
    upstream.on("/big", big)
    g = start(env=lean())
    assert g.get("/warm").status == 200
    before = g.rss_bytes()
    with g.connect(receive_buffer=65536) as c:
        c.send(head("GET", "/big"))
        assert c.head()[0] == 200
        assert 0 < settled(lambda: sent[0]) < 24 * MIB              # the kernel's buffers, and little more
        assert g.rss_bytes() - before < 4 * MIB
        assert g.get("/other").status == 200                        # nobody else waits
        assert receive_exactly(c, total)


def test_a_slow_upstream_holds_its_client_back(start, upstream):
    total, go = 64 * MIB, threading.Event()

    @early
    def slow(request, peer):
        go.wait(20)
        left = total - len(peer.buffer)
        while left > 0:
            data = peer.socket.recv(65536)
            left -= len(data)
            if not data:
                return False
        peer.buffer = b""
        peer.answer(200)
        return True
    upstream.on("/up", slow)
    g = start(server="max_body_size: 100MiB", env=lean())
    assert g.get("/warm").status == 200
    before, sent = g.rss_bytes(), [0]
    with g.connect() as c:
        def push():
            c.send(head("POST", "/up", "Content-Length: %d" % total))
            for piece in pieces(total):
                c.send(piece)
                sent[0] += len(piece)
        pusher = threading.Thread(target=push, daemon=True)
        pusher.start()
        assert 0 < settled(lambda: sent[0]) < 24 * MIB
        assert g.rss_bytes() - before < 4 * MIB
        assert g.get("/other").status == 200
        go.set()
        pusher.join(20)
        assert c.answer("POST").status == 200


def test_a_refusal_in_the_middle_of_an_upload_arrives(start, upstream):
    @early
    def refuse(request, peer):
        peer.answer(413, [("Connection", "close")], b"too much", "Too Large")
        peer.closed_by_peer()
        return False
    upstream.on("/up", refuse)
    g = start(server="max_body_size: 100MiB")
    with g.connect() as c:
        c.send(head("POST", "/up", "Content-Length: %d" % (MIB // 2)))
        c.send(b"a" * (MIB // 4))
        until("the upstream has answered", lambda: upstream.count("/up"))
        c.send(b"a" * (MIB // 4))
        a = c.answer("POST")
        assert (a.status, a.text) == (413, "too much")
        assert c.request("GET", "/own").text == "own"
    assert g.access_count(1, url__path="/up")[0]["slotgate.result"] == "allowed"


def test_a_refusal_does_not_wait_for_a_large_upload(start, upstream):
    @early
    def refuse(request, peer):
        peer.answer(507, [("X-Why", "full")], b"no room", "Full")
        peer.closed_by_peer()
        return False
    upstream.on("/up", refuse)
    g = start(server="max_body_size: 1GiB")
    with g.connect() as c:
        c.send(head("POST", "/up", "Content-Length: %d" % (512 * MIB)))
        try:
            for piece in pieces(8 * MIB):
                c.send(piece)
        except OSError:
            pass                        # the gateway has had enough of it
        a = c.answer("POST")
        assert (a.status, a.text, a.header("X-Why"), a.header("Connection")) == (507, "no room", "full", "close")
    entry = g.access_count(1)[0]
    assert (entry["http.response.status_code"], entry["slotgate.result"]) == (507, "allowed")


def test_an_upstream_that_answers_early_still_gets_the_rest(start, upstream):
    @early
    def echo_as_it_comes(request, peer):
        total = int(request.header("Content-Length"))
        peer.send(OK + "Content-Length: %d\r\n\r\n" % total)
        while total:
            data = peer.buffer or peer.socket.recv(65536)
            peer.buffer = b""
            peer.send(data)
            total -= len(data)
        return True
    upstream.on("/echo", echo_as_it_comes)
    g = start()
    with g.connect() as c:
        c.send(head("POST", "/echo", "Content-Length: 60000") + "a" * 30000)
        until("it has begun to answer", lambda: upstream.heads)
        c.send("b" * 30000)
        a = c.answer("POST")
        assert (a.status, a.text) == (200, "a" * 30000 + "b" * 30000)
        assert c.request("GET", "/after").status == 200
    assert upstream.connections == 1


# --- Expect ---------------------------------------------------------------------------------------------------------

def test_100_continue_only_when_the_limits_allow_it(start, upstream):
    g = start()
    ask = head("POST", "/one/x", "Expect: 100-continue", "Content-Length: 5")
    with g.connect() as c:
        c.send(ask)
        assert c.head()[0] == 100
        c.send("hello")
        a = c.answer("POST")
        assert (a.status, a.interim) == (200, [])
    assert (upstream.last().body, upstream.last().all("Expect")) == (b"hello", [])
    with g.connect() as c:
        c.send(ask)
        a = c.answer("POST")
        assert (a.status, a.interim) == (429, []) and c.at_end()
    assert upstream.count("/one/x") == 1


@pytest.mark.parametrize("path,status", [("/key/x", 401), ("/small/x", 413), ("/a/../b", 400)])
def test_no_100_for_what_is_refused(start, upstream, path, status):
    g = start()
    with g.connect() as c:
        c.send(head("POST", path, "Expect: 100-continue", "Content-Length: 5000"))
        a = c.answer("POST")
        assert (a.status, a.interim) == (status, []) and c.at_end()
    assert upstream.heads == []


# --- bounds ---------------------------------------------------------------------------------------------------------

def test_a_body_with_a_length_that_is_too_large(start, upstream):
    g = start()
    with g.connect() as c:
        c.send(head("POST", "/small/x", "Content-Length: 1001") + "a" * 1001)
        assert c.answer("POST").status == 413 and c.at_end()
    assert g.get("/small/x", method="POST", body=b"a" * 1000).status == 200
    assert len(upstream.heads) == 1
    entry = g.access_count(1, http__response__status_code=413)[0]
    assert (entry["slotgate.result"], entry["error.type"]) == ("refused", "body_too_large")


def test_chunks_that_become_too_many(start, upstream):
    g = start()
    with g.connect() as c:
        c.send(head("POST", "/small/x", "Transfer-Encoding: chunked") + "1f4\r\n" + "a" * 500 + "\r\n")
        until("the request is on its way", lambda: upstream.heads)
        c.send("1f5\r\n" + "a" * 501 + "\r\n0\r\n\r\n")
        assert c.answer("POST").status == 413 and c.at_end()
    until("the upstream sees that it broke off", lambda: upstream.requests)
    assert [r.complete for r in upstream.requests] == [False]
    entry = g.access_count(1)[0]
    assert (entry["http.response.status_code"], entry["error.type"]) == (413, "body_too_large")


def test_a_head_that_comes_too_slowly(start):
    g = start(server="header_timeout: 1s")
    with g.connect() as c:
        stop = threading.Event()

        def drip():
            for byte in head("GET", "/x", "X-Slow: " + "a" * 1000):
                try:
                    c.send(byte)
                except OSError:
                    return
                if stop.wait(0.1):
                    return
        dripper = threading.Thread(target=drip, daemon=True)
        dripper.start()
        a = c.answer()
        assert a.status == 408 and c.at_end()
        stop.set()
        dripper.join(10)
    assert g.metric("slotgate_refused_requests_total", reason="header_timeout") == 1


def test_a_connection_that_says_nothing(start):
    g = start(server="header_timeout: 300ms")
    with g.connect() as c:
        assert c.at_end()
    assert g.metric("slotgate_refused_requests_total", reason="header_timeout") == 0


def test_an_idle_connection_is_closed_without_a_word(start):
    g = start(server="idle_timeout: 500ms, header_timeout: 500ms")
    with g.connect() as quiet, g.connect() as begun:
        for c in (quiet, begun):
            assert c.request("GET", "/own").text == "own"
        time.sleep(0.1)                 # so that it is no part of the request before
        begun.send("GET /own HTTP/1.1\r\nHost:")
        assert quiet.at_end()
        a = begun.answer()
        assert a.status == 408 and begun.at_end()
    assert g.metric("slotgate_refused_requests_total", reason="header_timeout") == 1


def test_a_body_that_stops_coming(start, upstream):
    g = start(server="idle_timeout: 1s")
    with g.connect() as c:
        c.send(head("POST", "/x", "Content-Length: 10") + "hello")
        assert c.answer("POST").status == 408 and c.at_end()
    entry = g.access_count(1)[0]
    assert (entry["http.response.status_code"], entry["slotgate.result"], entry["error.type"]) == (408, "refused", "body_timeout")
    until("the upstream sees that it broke off", lambda: upstream.requests)
    assert not upstream.last().complete


def test_an_answer_that_stops_coming(start, upstream):
    closed = []

    def stop(request, peer):
        peer.send(OK + "Content-Length: 10\r\n\r\nhello")
        closed.append(peer.closed_by_peer())
        return False
    upstream.on("/x", stop)
    g = start(upstream_more="idle_timeout: 300ms")
    with g.connect() as c:
        c.send(head("GET", "/x"))
        with pytest.raises((Malformed, ConnectionResetError)):
            c.answer()
    until("the upstream's connection is closed", lambda: closed == [True])
    entry = g.access_count(1)[0]
    assert (entry["slotgate.result"], entry["slotgate.upstream.outcome"]) == ("failed", "cut")


# --- clients that go ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["close", "abort", "half-close"])
@pytest.mark.parametrize("when", ["waiting", "relaying", "uploading"])
def test_a_client_that_goes_ends_the_upstreams_work(start, upstream, when, how):
    closed = []

    @early
    def work(request, peer):
        if when == "relaying":
            peer.send(OK + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        closed.append(peer.closed_by_peer())
        return False
    upstream.on("/slot/x", work)
    g = start()
    with g.connect() as c:
        c.send(head("POST", "/slot/x", "Content-Length: 10") + ("hello" if when == "uploading" else "hellohello"))
        until("it is there", lambda: upstream.requests)
        if when == "relaying":
            assert c.head()[0] == 200
        assert g.get("/slot/other").status == 429
        if how == "half-close":
            c.socket.shutdown(socket.SHUT_WR)
        elif how == "abort":
            c.abort()
        else:
            c.close()
        until("the upstream's connection is closed", lambda: closed == [True])
        entry = g.access_count(1, http__response__status_code=499)[0]
        assert (entry["slotgate.result"], entry["error.type"], entry["slotgate.upstream.outcome"]) == ("aborted", "client_gone", "cancelled")
    assert g.get("/slot/y").status == 200                           # its slot is free again
    assert g.metric("slotgate_tenant_requests_total", result="aborted") == 1
    assert g.metric("slotgate_concurrency_leases") == 0


def test_a_request_that_comes_with_the_end_of_its_connection(start, upstream):
    """Whether the end comes with the request or behind it makes no difference: nobody waits for the answer."""
    released = []

    def work(request, peer):
        released.append(peer.closed_by_peer())
        return False
    upstream.on("/x", work)
    g = start()
    with g.connect() as c:
        os.kill(g.process.pid, signal.SIGSTOP)
        c.send(head("GET", "/x"))
        c.socket.shutdown(socket.SHUT_WR)
        os.kill(g.process.pid, signal.SIGCONT)
        g.access_count(1, http__response__status_code=499)
        assert c.at_end()
    assert all(released)
    with g.connect() as c:                                          # what the gateway answers itself is answered
        os.kill(g.process.pid, signal.SIGSTOP)
        c.send(head("GET", "/own"))
        c.socket.shutdown(socket.SHUT_WR)
        os.kill(g.process.pid, signal.SIGCONT)
        assert c.answer().text == "own"


# --- drain, reload --------------------------------------------------------------------------------------------------

def refuses(g):
    try:
        g.connect().close()
        return False
    except ConnectionRefusedError:
        return True


def test_drain_finishes_what_is_in_flight(start, upstream):
    go = threading.Event()

    def hold(request, peer):
        go.wait(20)
        peer.answer(200, body="late")
        return True

    def begun(request, peer):
        peer.send(OK + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        go.wait(20)
        peer.send("0\r\n\r\n")
        return True
    upstream.on("/hold", hold)
    upstream.on("/begun", begun)
    g = start()
    with g.connect() as waiting, g.connect() as streaming, g.connect() as idle:
        assert idle.request("GET", "/own").status == 200
        waiting.send(head("GET", "/hold"))
        streaming.send(head("GET", "/begun"))
        assert streaming.head()[0] == 200
        until("both are there", lambda: len(upstream.requests) == 2)
        g.signal(signal.SIGTERM)
        assert idle.at_end()
        until("new connections are refused", lambda: refuses(g))
        go.set()
        a = waiting.answer()
        assert (a.status, a.text, a.header("Connection")) == (200, "late", "close") and waiting.at_end()
        assert streaming._chunks() == b"hello" and streaming.at_end()
    assert g.process.wait(20) == 0
    assert len([e for e in g.access() if e["slotgate.result"] == "allowed"]) == 3


def test_drain_is_over_in_time(start, upstream):
    upstream.on("/hold", lambda request, peer: peer.closed_by_peer(20) and False)
    g = start(server="drain_timeout: 300ms")
    with g.connect() as c:
        c.send(head("GET", "/hold"))
        until("it is there", lambda: upstream.requests)
        g.signal(signal.SIGTERM)
        assert c.at_end()
    assert g.process.wait(20) == 0
    entry, = g.access()
    assert (entry["http.response.status_code"], entry["slotgate.result"], entry["error.type"]) == (503, "failed", "drained")


def test_reload_under_traffic(start, upstream):
    g = start()
    stop, failures, done = threading.Event(), [], [0]

    def client(i):
        with g.connect() as c:
            while not stop.is_set():
                a = c.request("POST", "/x%d" % i, body=b"abc")
                done[0] += 1
                if a.status != 200 or a.header("Connection") is not None:
                    failures.append(a)
    threads = [threading.Thread(target=client, args=(i,), daemon=True) for i in range(4)]
    for t in threads:
        t.start()
    with open(g.config_path, encoding="utf-8") as f:
        text = f.read()
    for i in range(5):
        at = done[0]
        assert g.reload(text + "# %d\n" % i)
        until("requests go on", lambda: done[0] > at + 20)
    assert not g.reload(text + "nonsense: true\n")
    stop.set()
    for t in threads:
        t.join(20)
    assert failures == []
    assert len(g.access_count(done[0])) == done[0]


# --- at rest --------------------------------------------------------------------------------------------------------

def test_descriptors_are_given_back(start, upstream):
    upstream.on("/close", script(OK + "Content-Length: 2\r\n\r\nok", then="close"))
    upstream.on("/broken", script("nonsense\r\n\r\n", then="close"))
    g = start(upstream_more="retries: 0")
    assert g.get("/close").status == 200
    at_rest = settled(g.fds)
    for i in range(30):
        with g.connect() as c:
            c.request("GET", ("/close", "/broken", "/own", "/small/x", "/key/x")[i % 5])
        with g.connect() as c:
            c.send(head("POST", "/small/x", "Content-Length: 5000"))
            if i % 3:
                c.send("hello")
            if i % 2:
                c.abort()
    upstream.drop()
    until("all are closed: %d" % at_rest, lambda: g.fds() <= at_rest)
    until("no connection is counted", lambda: g.metric("slotgate_connections") == 0)


def test_every_request_is_counted_once_and_logged_once(start, upstream):
    """A mixed load; then requests = results = lines, and each result is what it should be."""
    upstream.on("/cut", script(OK + "Content-Length: 10\r\n\r\nhello", then="close"))
    upstream.on("/broken", script("nonsense\r\n\r\n", then="close"))
    upstream.on("/hold", lambda request, peer: peer.closed_by_peer(20) and False)
    g = start(upstream_more="retries: 0, timeout: 500ms")

    def good(path, **more):
        assert g.get(path, **more).status

    def cut():
        with g.connect() as c:
            c.send(head("GET", "/cut"))
            with pytest.raises((Malformed, ConnectionResetError)):
                c.answer()

    def gone():
        with g.connect() as c:
            seen = upstream.count("/hold")
            c.send(head("GET", "/hold"))
            until("it is there", lambda: upstream.count("/hold") > seen)

    def bad_chunk():
        with g.connect() as c:
            c.send(head("POST", "/x", "Transfer-Encoding: chunked") + "5\r\nhello\r\nzz\r\n")
            assert c.answer("POST").status == 400
    want = {"allowed": 0, "limited": 0, "unauthorized": 0, "refused": 0, "failed": 0, "aborted": 0}
    for _ in range(3):
        for result, act in (("allowed", lambda: good("/x")), ("allowed", lambda: good("/own")), ("unauthorized", lambda: good("/key/x")),
                            ("unauthorized", lambda: good("/key/x", headers={"X-API-Key": "wrong"})), ("refused", lambda: good("/a/../b")),
                            ("refused", lambda: good("/small/x", method="POST", body=b"a" * 1001)), ("failed", lambda: good("/broken")),
                            ("failed", cut), ("aborted", gone), ("refused", bad_chunk)):
            act()
            want[result] += 1
    for i in range(4):
        good("/one/x")
        want["allowed" if i == 0 else "limited"] += 1
    total = sum(want.values())
    entries = g.access_count(total)
    assert {r: sum(1 for e in entries if e["slotgate.result"] == r) for r in want} == want
    assert {r: g.metric("slotgate_tenant_requests_total", result=r) for r in want} == want
    assert g.metric("slotgate_http_requests_total") == total
    assert len({e["slotgate.request_id"] for e in entries}) == total
    for e in entries:
        assert g.metric("slotgate_http_requests_total", code=str(e["http.response.status_code"])) == \
            sum(1 for o in entries if o["http.response.status_code"] == e["http.response.status_code"])
