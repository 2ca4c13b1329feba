"""Hostile requests through the gateway to nginx, Node.js and a raw upstream: what passes is read the same by all three, is what a
reader of exactly HTTP/1.1 reads, and never becomes two requests.

SLOTGATE_DIFFERENTIAL_CASES says how many cases, SLOTGATE_DIFFERENTIAL_SEED makes up others."""
import os
import random
import re
import threading
import time

import pytest

from harness.client import Connection
from harness.gateway import Gateway
from harness.grammar import METHODS, Case, read_all
from harness.servers import Nginx, Node
from harness.upstream import Upstream
from harness.wait import until
from test_http_cases import fill, load

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 2, header_timeout: 1s, idle_timeout: 1s}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
upstreams: {{up: {{targets: [{{url: "{url}"}}], retries: 0, timeout: 10s, preserve_host: true}}}}
routes:
  - {{name: odd, match: {{host: h.test, path: /*}}, auth: none, upstream: up, odd_paths: pass}}
  - {{name: all, match: {{path: /*}}, auth: none, upstream: up}}
"""
CASES = int(os.environ.get("SLOTGATE_DIFFERENTIAL_CASES", "4000"))
SEED = os.environ.get("SLOTGATE_DIFFERENTIAL_SEED", "1")
CLIENTS = 12
NAMES = ("raw", "nginx", "node")
# Written by the gateway anew for each request, or hop by hop, or what only a trusted proxy may tell.
OWN = {"x-request-id", "traceparent", "via", "host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "content-length",
       "transfer-encoding", "expect", "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "http2-settings",
       "authorization", "x-api-key", "tracestate", "proxy-authenticate", "proxy-authorization", "forwarded", "x-real-ip"}


class Raw(Upstream):
    name = "raw"

    def __init__(self):
        self.refused = []
        super().__init__()

    def _one(self, peer):
        try:
            request = self._head(peer)
            if request is None:
                return False
            self.read_body(request, peer)
        except (ValueError, AssertionError) as e:
            self.refused.append((repr(e), peer.buffer[:300]))
            return False
        if not request.complete:
            return False
        with self.lock:
            self.requests.append(request)
        peer.send("HTTP/1.1 200 OK\r\nX-Up: 1\r\nContent-Length: %d\r\n\r\n%s" % (3, "" if request.method == "HEAD" else "ok\n"))
        return True

    def seen(self):
        with self.lock:
            return [(r.method, r.target, r.headers, r.body.decode("latin-1")) for r in self.requests]


class Side:
    """A gateway with one of the upstreams behind it."""

    def __init__(self, name, folder):
        self.name = name
        self.server = Raw() if name == "raw" else (Nginx if name == "nginx" else Node)(folder).start()
        os.mkdir(os.path.join(folder, name))
        self.gateway = Gateway(os.path.join(folder, name), CONFIG.format(url="http://127.0.0.1:%d" % self.server.port)).start()

    def requests(self):
        return self.server.seen() if self.name == "raw" else self.server.requests()

    def stop(self):
        status, log = self.gateway.stop(), self.gateway.log()
        self.server.close() if self.name == "raw" else self.server.stop()
        assert status == 0 and "Sanitizer" not in log and "runtime error:" not in log, log[-20000:]


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("d"))
    all_sides = [Side(name, folder) for name in NAMES]
    yield all_sides
    for s in all_sides:
        s.stop()


def play(gateway, data, rng):
    """The stream on a connection of its own; all that comes back."""
    got = b""
    with Connection("127.0.0.1", gateway.port, timeout=30) as c:
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 2, 5))))
        try:
            for a, b in zip([0] + cuts, cuts + [len(data)]):
                c.send(data[a:b])
                if rng.random() < 0.2:
                    time.sleep(0.001)
        except OSError:
            pass                # refused before all of it was taken
        try:
            while True:
                part = c.socket.recv(65536)
                if not part:
                    return got
                got += part
        except ConnectionResetError:
            return got


def play_all(sides, streams):
    """{(side, number): answers of the upstream that the client got}"""
    answers, work, lock = {}, [(s, n) for n in streams for s in sides], threading.Lock()

    def run():
        while True:
            with lock:
                if not work:
                    return
                side, number = work.pop()
            got = play(side.gateway, streams[number], random.Random("%s.%d" % (SEED, number)))
            with lock:
                answers[side.name, number] = got.count(b"\r\nX-Up: 1\r\n")
    threads = [threading.Thread(target=run) for _ in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return answers


def normal(request):
    """What must be equal: order of fields with one name counts, letter case of names does not."""
    method, target, fields, body = request
    kept = [(k.lower(), re.sub(r"^127\.0\.0\.1:\d+$", "the target", v)) for k, v in fields if k.lower() not in ("x-request-id", "traceparent")]
    return method, target, tuple(sorted(kept, key=lambda f: f[0])), body


def by_case(requests):
    found = {}
    for r in requests:
        m = re.search(r"c(\d+)z", r[1])
        found.setdefault(int(m.group(1)) if m else None, []).append(normal(r))
    return found


def settled(side, before, answers):
    """All requests of a round, once the log has them."""
    want = sum(n for (name, _), n in answers.items() if name == side.name)

    def new():
        return [r for r in side.requests()[before:] if r is not None]
    until("%s has logged %d requests" % (side.name, want), lambda: len(new()) >= want)
    return new()


def play_round(sides, streams):
    """({number: {side: requests}}, answers)"""
    before = {s.name: len(s.requests()) for s in sides}
    answers = play_all(sides, streams)
    seen = {s.name: by_case(settled(s, before[s.name], answers)) for s in sides}
    assert all(None not in cases for cases in seen.values()), seen
    return {n: {name: seen[name].get(n, []) for name in seen} for n in streams}, answers


def origin_form(target):
    """What of a target goes upstream."""
    m = re.match(r"(?i)https?://[^/?#]*(/?.*)\Z", target)
    rest = m.group(1) if m else target
    return rest if rest.startswith(("/", "*")) else "/" + rest


def is_own(name):
    return name in OWN or (name.startswith("x-forwarded-") and name != "x-forwarded-")


def check_against_reader(number, stream, requests):
    """What passed is what stands in the stream, in its order."""
    there = read_all(stream)
    for method, target, fields, body in requests:
        while there and (there[0].method, origin_form(there[0].target), there[0].body) != (method, target, body):
            there.pop(0)        # refused, and the connection went on
        assert there, "case %d: %r is not in %r" % (number, (method, target, body[:300]), stream)
        named = {t.strip().lower() for v in there[0].all("connection") for t in v.split(",")}
        passed = [f for f in fields if not is_own(f[0])]
        sent = sorted(((k.lower(), v) for k, v in there[0].fields if not is_own(k.lower()) and k.lower() not in named and "_" not in k),
                      key=lambda f: f[0])
        assert [f for f in passed if "_" not in f[0]] == sent, "case %d" % number
        there.pop(0)


def comparable(requests):
    """nginx and Node.js know fewer methods. Whether a connection lives on after a HEAD depends on the fields of the answer."""
    found = []
    for r in requests:
        if r[0] in METHODS:
            found.append(r)
        if r[0] == "HEAD":
            break
    return found


def wrong(cases, answers, number):
    """What is not as it must be with a case; None when all is well."""
    seen = {name: comparable(cases[number][name]) for name in NAMES}
    if not seen["raw"] == seen["nginx"] == seen["node"]:
        return "read differently: %r" % seen
    counts = {name: (len(cases[number][name]), answers[name, number]) for name in NAMES}
    if any(requests != got for requests, got in counts.values()):
        return "requests and answers: %r" % counts
    return None


def check(sides, streams):
    cases, answers = play_round(sides, streams)
    odd = [n for n in streams if wrong(cases, answers, n)]
    for _ in range(2):          # a slow machine may have cut a connection at another moment on one side
        if odd and len(odd) <= 10:
            again, again_answers = play_round(sides, {n: streams[n] for n in odd})
            cases.update(again)
            answers.update(again_answers)
            odd = [n for n in odd if wrong(cases, answers, n)]
    assert odd == [], "\n".join("%r\n  %s" % (streams[n], wrong(cases, answers, n)) for n in odd[:5])
    for n in streams:
        check_against_reader(n, streams[n], cases[n]["raw"])
    return cases


def test_generated(sides):
    rng = random.Random(SEED)
    streams = {n: Case(random.Random(rng.random()), n).stream() for n in range(CASES)}
    cases = check(sides, streams)
    passed = sum(len(seen["raw"]) for seen in cases.values())
    print("%d cases, %d requests passed" % (CASES, passed))
    assert passed > CASES / 2 and sum(not seen["raw"] for seen in cases.values()) > CASES / 10
    assert [s.server.refused for s in sides if s.name == "raw"] == [[]]
    assert not any(r is not None and not isinstance(r, tuple) for r in sides[1].requests())


def one_by_one(side, streams):
    """(requests, answers) of each stream."""
    results = []
    for n, data in enumerate(streams):
        before = len(side.requests())
        got = play(side.gateway, data, random.Random(n)).count(b"\r\nX-Up: 1\r\n")
        results.append((comparable(normal(r) for r in settled(side, before, {(side.name, n): got})), got))
    return results


def test_hand_made(sides):
    """The requests of http_cases.json."""
    last = b"GET /last HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n\r\n"
    streams = [fill(case.values[0]["send"]).encode("latin-1") + last for case in load() if "answer" not in case.values[0]]
    results, threads = {}, []
    for s in sides:
        threads.append(threading.Thread(target=lambda side=s: results.__setitem__(side.name, one_by_one(side, streams))))
        threads[-1].start()
    for t in threads:
        t.join()
    assert len(streams) > 150
    odd = [(data[:300], [results[name][n] for name in NAMES]) for n, data in enumerate(streams)
           if not results["raw"][n][0] == results["nginx"][n][0] == results["node"][n][0]]
    assert odd == []
    for name in NAMES:
        assert [(streams[n][:300], seen) for n, seen in enumerate(results[name]) if len(seen[0]) > seen[1]] == [], name
