"""Exchanges that are cut at any moment: a client, an upstream and a relay before Redis that close, reset or half-close.

Everything comes from seeds. A client's request carries the seed of the upstream's behaviour, so that the client knows what it may
believe of the answer: a body is the request's own name, again and again; one that is complete has the length that X-Size tells."""
import random
import select
import socket
import threading
import time

from .client import Connection, Malformed
from .sockets import reset_at_close
from .upstream import Request, Upstream

HANDSHAKE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\nSec-WebSocket-Version: 13\r\n"


def cut(sock, mode):
    """mode: close, reset, half (nothing more is sent)."""
    try:
        if mode == "half":
            sock.shutdown(socket.SHUT_WR)
            return
        if mode == "reset":
            reset_at_close(sock)
        else:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    if mode == "reset":
        sock.close()


def body_of(name, size):
    word = name.encode() + b"."
    return (word * (size // len(word) + 1))[:size]


def chunked(rng, body, end=b"0\r\n\r\n"):
    out = []
    while body:
        n = rng.choice((1, 7, 100, 5000, 70000))
        out.append(b"%x%s\r\n%s\r\n" % (len(body[:n]), rng.choice((b"", b"", b";a=b")), body[:n]))
        body = body[n:]
    return b"".join(out) + end


def pieces(rng, data):
    """The same bytes, cut into a few pieces."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
    return [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])]


class KillerUpstream(Upstream):
    """Answers as the request's seed tells."""

    def __init__(self):
        self.broken, self.hold = [], threading.Event()
        super().__init__()

    def _one(self, peer):
        try:
            request = self._head(peer)
        except ValueError as e:
            self.broken.append(("not a request", repr(e), peer.buffer[:200]))
            return False
        if request is None:
            return False
        if request.path.endswith("/hold"):
            self.hold.wait(20)
            peer.answer(200, [("X-Name", request.header("X-Name"))])
            return True
        rng = random.Random(request.header("X-Seed"))
        return self._tunnel(request, peer, rng) if request.all("Upgrade") else self._answer(request, peer, rng)

    def _take(self, request: Request, peer, rng):
        """How much of the body is read before the answer; True when all is."""
        if rng.random() < 0.8:
            self.read_body(request, peer)
            if request.complete and request.body != body_of(request.header("X-Name"), len(request.body)):
                self.broken.append(("a body that was not sent", request.raw_head, request.body[:200]))
            return request.complete
        if rng.random() < 0.5:
            peer.take(rng.randrange(3000))
        return not request.all("Content-Length") and not request.all("Transfer-Encoding")

    @staticmethod
    def _bytes(request, rng):
        name = request.header("X-Name")
        size = rng.choice((0, 1, 100, 100, 5000, 300000))
        status = rng.choice((200, 200, 200, 200, 200, 204, 304, 404, 503, 500))
        shape = rng.choice(("length", "length", "chunked", "close"))
        body = b"" if request.method == "HEAD" or status in (204, 304) else body_of(name, size)
        head = "HTTP/1.1 %d X\r\nX-Name: %s\r\nX-Size: %d\r\n" % (status, name, size)
        if status in (204, 304):
            shape = "none"
        head += {"length": "Content-Length: %d\r\n" % size, "chunked": "Transfer-Encoding: chunked\r\n", "none": "",
                 "close": "X-Shape: close\r\nConnection: close\r\n"}[shape]
        if request.method != "HEAD" and shape == "chunked":
            body = chunked(rng, body)
        data = (head + "\r\n").encode() + body
        interim = rng.choice((b"",) * 6 + (b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"))
        garbage = rng.choice((b"",) * 30 + (b"garbage", b"HTTP/1.1 200 OK\r\nX-Name: nobody\r\nContent-Length: 0\r\n\r\n"))
        if shape == "close":
            garbage = b""                                   # it would be body
        return interim + data + garbage, shape != "close" and not garbage

    def _answer(self, request, peer, rng):
        whole = self._take(request, peer, rng)
        data, keep = self._bytes(request, rng)
        if rng.random() < 0.2:
            time.sleep(rng.choice((0.001, 0.01, 0.05)))
        kill = rng.random() < 0.25
        if kill:
            data = data[:rng.choice((0, rng.randrange(60), rng.randrange(len(data) + 1)))]
        for piece in pieces(rng, data):
            peer.send(piece)
            if rng.random() < 0.1:
                time.sleep(0.002)
        if kill:
            mode = rng.choice(("close", "reset", "half"))
            cut(peer.socket, mode)
            if mode == "half":
                self._read_out(peer)
            return False
        return keep and whole and rng.random() < 0.9

    @staticmethod
    def _read_out(peer):
        peer.socket.settimeout(10)
        while peer.socket.recv(65536):
            pass

    def _tunnel(self, request, peer, rng):
        if rng.random() < 0.1:
            return self._answer(request, peer, rng)         # no upgrade
        peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Name: %s\r\n\r\n"
                  % request.header("X-Name"))
        left = rng.choice((None, None, 0, 1, 1000, 100000))
        data, peer.buffer = peer.buffer, b""
        while left is None or left > 0:
            peer.send(data)
            left = left - len(data) if left is not None else None
            data = peer.socket.recv(65536)
            if not data:
                return False
        mode = rng.choice(("close", "reset", "half"))
        cut(peer.socket, mode)
        if mode == "half":
            self._read_out(peer)
        return False


class Pair:
    """A connection of the gateway and the relay's own to Redis."""

    def __init__(self, near, far):
        self.near, self.far, self.lock, self.dead = near, far, threading.Lock(), False

    def forward(self, source):
        """False: it has ended. What comes behind a cut, or before the gateway gave up, never arrives."""
        with self.lock:
            data = source.recv(65536)
            if self.dead or not data:
                return False
            if source is self.near and select.select([self.near], [], [], 0)[0] and not self.near.recv(1, socket.MSG_PEEK):
                return False
            (self.far if source is self.near else self.near).sendall(data)
            return True

    def cut(self, mode):
        with self.lock:
            self.dead = True
            if mode == "reset":     # the thread that waits for it keeps it open until the other one ends
                reset_at_close(self.near)
                cut(self.far, "half")
            else:
                cut(self.near, mode)

    def close(self):
        self.near.close()
        self.far.close()


class Relay:
    """Between the gateway and its Redis. `harass` cuts and stalls what goes through."""

    def __init__(self, path):
        self.path, self.refuse, self.stall = path, False, threading.Event()
        self.stall.set()
        self.pairs, self.lock = set(), threading.Lock()
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                if self.refuse:
                    raise OSError("refused")
                far.connect(self.path)
            except OSError:
                cut(near, "reset")
                continue
            pair = Pair(near, far)
            with self.lock:
                self.pairs.add(pair)
            threading.Thread(target=self._pump, args=(pair,), daemon=True).start()

    def _pump(self, pair):
        try:
            while True:
                ready, _, _ = select.select([pair.near, pair.far], [], [])
                self.stall.wait(5)
                if not all(pair.forward(s) for s in ready):
                    break
        except (OSError, ValueError):
            pass
        with self.lock:
            self.pairs.discard(pair)
        pair.close()

    def cut(self, mode):
        with self.lock:
            pairs = list(self.pairs)
        for pair in pairs:
            try:
                pair.cut(mode)
            except OSError:
                pass                # it has just ended

    def harass(self, rng, pause):
        kind = rng.choice(("close", "reset", "half", "stall", "refuse", "none"))
        if kind == "stall":
            self.stall.clear()
        elif kind != "none":
            self.refuse = kind == "refuse"
            self.cut("close" if kind == "refuse" else kind)
        pause(rng.random() * 0.6)
        self.refuse = False
        self.stall.set()

    def close(self):
        self.refuse = True
        self.listener.close()
        self.cut("close")


class Killer(threading.Thread):
    """A client: one exchange after the other until `stop`, each with a plan of its own."""

    KINDS = ("get", "get", "get", "head", "post", "post", "chunked", "expect", "upload", "pipeline", "tunnel", "local", "denied",
             "broken")

    def __init__(self, port, seed, stop):
        super().__init__(daemon=True)
        self.port, self.stop = port, stop
        self.rng, self.seed, self.number = random.Random(seed), seed, 0
        self.broken, self.exchanges, self.whole, self.cuts = [], 0, 0, 0
        self.start()

    def run(self):
        while not self.stop.is_set():
            try:
                with Connection("127.0.0.1", self.port, timeout=25) as c:
                    while not self.stop.is_set() and self.exchange(c):
                        pass
            except socket.timeout:
                self.broken.append(("no answer and no end", self.doing))
            except AssertionError as e:
                self.broken.append((str(e), self.doing))
            except (OSError, Malformed):
                pass                                        # cut, by somebody

    # --- what is sent ---

    def head(self, method, path, more=""):
        self.number += 1
        name = "n%s-%d" % (self.seed, self.number)
        seed = self.rng.randrange(1 << 30)
        return name, ("%s %s HTTP/1.1\r\nHost: gw.test\r\nX-API-Key: %s\r\nX-Name: %s\r\nX-Seed: %d\r\n%s\r\n"
                      % (method, path, self.rng.choice(("key",) * 9 + ("bad",)), name, seed, more)).encode()

    def plan(self, kind):
        """(method, name) of each request, and the bytes of all."""
        rng = self.rng
        path = rng.choice(("/free/a", "/slots/a", "/tight/a"))
        if kind in ("get", "head"):
            name, data = self.head("GET" if kind == "get" else "HEAD", path)
            return [(kind.upper(), name)], data
        if kind == "post":
            size = rng.choice((0, 1, 200, 20000))
            name, data = self.head("POST", path, "Content-Length: %d\r\n" % size)
            return [("POST", name)], data + body_of(name, size)
        if kind == "upload":
            size = rng.choice((100000, 1000000))
            name, data = self.head("PUT", path, "Content-Length: %d\r\n" % size)
            return [("PUT", name)], data + body_of(name, size)
        if kind == "chunked":
            name, data = self.head("POST", path, "Transfer-Encoding: chunked\r\n")
            end = rng.choice((b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nX-T: 1\r\n\r\n", b"zz\r\n"))
            return [("POST", name)], data + chunked(rng, body_of(name, rng.choice((1, 3000, 100000))), end)
        if kind == "expect":
            name, data = self.head("POST", path, "Content-Length: 500\r\nExpect: 100-continue\r\n")
            return [("POST", name)], data + body_of(name, 500)
        if kind == "pipeline":
            many = [self.plan(rng.choice(("get", "head", "post", "local"))) for _ in range(rng.randrange(2, 7))]
            return [r for requests, _ in many for r in requests], b"".join(data for _, data in many)
        if kind == "tunnel":
            name, data = self.head("GET", path, HANDSHAKE)
            return [("GET", name)], data
        name, data = self.head("GET", {"local": "/local", "denied": "/denied", "broken": "/free/a/../b"}[kind])
        return [("GET", name)], data

    # --- what happens ---

    def exchange(self, c):
        """False: the connection is not to be used again."""
        kind = self.rng.choice(self.KINDS)
        requests, data = self.plan(kind)
        self.doing = (kind, requests[0][1], data[:300])
        self.exchanges += len(requests)
        kill = self.rng.random() < 0.3
        moment = self.rng.choice(("sending", "waiting", "reading")) if kill else None
        mode = self.rng.choice(("close", "reset", "half"))
        self.doing += (moment, mode)
        self.cuts += kill
        if moment == "sending":
            data = data[:self.rng.randrange(len(data))]
        for piece in pieces(self.rng, data):
            c.send(piece)
            if self.rng.random() < 0.1:
                time.sleep(0.002)
        if moment == "waiting":
            time.sleep(self.rng.choice((0, 0.001, 0.01, 0.05)))
        if moment == "reading":
            self.read_some(c)
        if kill:
            cut(c.socket, mode)
            return c.at_end_of_stream() and False if mode == "half" else False
        for method, name in requests:
            answer = self.believe(c.answer(method), method, name)
            if answer.status == 101:
                return self.tunnel(c)
            if answer.header("Connection") == "close":
                return False
        return True

    def read_some(self, c):
        for _ in range(self.rng.randrange(1, 4)):
            if not c.socket.recv(self.rng.choice((1, 20, 1000, 60000))):
                return

    def believe(self, answer, method, name):
        """An answer of an upstream is this request's own, and whole."""
        self.whole += 1
        if answer.all("X-Name"):
            assert answer.header("X-Name") == name, "somebody else's answer: %r" % answer
            size = int(answer.header("X-Size") or 0) if answer.all("X-Size") else 0
            assert answer.body == body_of(name, len(answer.body)), "another body: %r" % answer.body[-200:]
            if method != "HEAD" and answer.status not in (101, 204, 304) and not answer.all("X-Shape"):
                assert len(answer.body) == size, "%d bytes of %d look complete" % (len(answer.body), size)
        return answer

    def tunnel(self, c):
        for _ in range(self.rng.randrange(6)):
            data = self.rng.randbytes(self.rng.choice((1, 100, 20000)))
            c.send(data)
            assert c.take(len(data)) == data, "another echo"
        mode = self.rng.choice(("close", "reset", "half"))
        cut(c.socket, mode)
        if mode == "half":
            c.at_end_of_stream()
        return False
