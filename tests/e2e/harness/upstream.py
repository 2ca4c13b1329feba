"""A raw upstream: it records the exact bytes of every request, and answers what a test tells it to.

The answer is chosen by path: handlers set with `on(path, handler)` get the request and the connection; everything else is echoed as
JSON."""
import json
import socket
import threading

from .sockets import reset_at_close


class Request:
    def __init__(self, method, target, version, headers, body, raw_head, connection):
        self.method, self.target, self.version = method, target, version
        self.headers, self.body, self.raw_head, self.connection = headers, body, raw_head, connection
        self.complete = True

    def all(self, name):
        return [v for k, v in self.headers if k.lower() == name.lower()]

    def header(self, name):
        values = self.all(name)
        assert len(values) <= 1, (name, values)
        return values[0] if values else None

    @property
    def path(self):
        return self.target.split("?")[0]


class Peer:
    """One connection of the gateway."""

    def __init__(self, sock, number):
        self.socket, self.number, self.buffer = sock, number, b""

    def more(self):
        data = self.socket.recv(65536)
        self.buffer += data
        return bool(data)

    def line(self):
        while b"\r\n" not in self.buffer:
            if not self.more():
                return None
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, n):
        while len(self.buffer) < n and self.more():
            pass
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def send(self, data):
        self.socket.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def answer(self, status=200, headers=(), body=b"", reason="OK"):
        body = body.encode() if isinstance(body, str) else body
        lines = ["HTTP/1.1 %d %s" % (status, reason), "Content-Length: %d" % len(body)] + ["%s: %s" % h for h in headers]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)

    def reset(self):
        reset_at_close(self.socket)
        self.close()

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()

    def closed_by_peer(self, timeout_s=10):
        """Wait until the gateway closes; True when it did."""
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(65536):
                pass
            return True
        except ConnectionResetError:
            return True
        except OSError:
            return False


class Upstream:
    def __init__(self, unix=None, tls=None):
        """tls: an ssl.SSLContext."""
        self.listener = socket.socket(socket.AF_UNIX if unix else socket.AF_INET, socket.SOCK_STREAM)
        if not unix:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(unix if unix else ("127.0.0.1", 0))
        self.listener.listen(512)
        self.port = None if unix else self.listener.getsockname()[1]
        self.url = "unix:" + unix if unix else "%s://127.0.0.1:%d" % ("https" if tls else "http", self.port)
        self.tls = tls
        self.handlers = {}
        self.requests = []
        self.heads = []                 # raw heads, also of requests that never became complete
        self.connections = 0
        self.open = set()
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def on(self, path, handler):
        """handler(request, peer): sends what it likes; a true result keeps the connection. The request's body has been read unless
        handler.early is true."""
        self.handlers[path] = handler

    def count(self, path):
        with self.lock:
            return sum(1 for r in self.requests if r.path == path)

    def last(self, path=None):
        with self.lock:
            return [r for r in self.requests if path is None or r.path == path][-1]

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.drop()

    def drop(self):
        """Close every connection."""
        with self.lock:
            peers, self.open = self.open, set()
        for p in peers:
            p.close()

    # --- inside ---

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                peer = Peer(sock, self.connections)
                self.open.add(peer)
            if sock.family == socket.AF_INET:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        try:
            if self.tls:
                peer.socket = self.tls.wrap_socket(peer.socket, server_side=True)
            while self._one(peer):
                pass
        except OSError:
            pass
        with self.lock:
            self.open.discard(peer)
        peer.close()

    def _head(self, peer):
        while b"\r\n\r\n" not in peer.buffer:
            if not peer.more():
                return None
        raw, peer.buffer = peer.buffer.split(b"\r\n\r\n", 1)
        lines = raw.decode("latin-1").split("\r\n")
        method, target, version = lines[0].split(" ")
        headers = [tuple(part.strip(" \t") for part in line.split(":", 1)) for line in lines[1:]]
        with self.lock:
            self.heads.append(raw + b"\r\n\r\n")
        return Request(method, target, version, headers, b"", raw + b"\r\n\r\n", peer.number)

    @staticmethod
    def read_body(request, peer):
        length, coding = request.header("Content-Length"), request.header("Transfer-Encoding")
        if length is not None:
            request.body = peer.take(int(length))
            request.complete = len(request.body) == int(length)
        elif coding is not None:
            assert coding == "chunked", coding
            while True:
                size = peer.line()
                n = int(size, 16) if size is not None else -1
                request.body += peer.take(n) if n > 0 else b""
                if peer.line() != b"" or n < 0:
                    request.complete = False
                if n <= 0 or not request.complete:
                    break

    def _one(self, peer):
        request = self._head(peer)
        if request is None:
            return False
        handler = self.handlers.get(request.path, echo)
        if not getattr(handler, "early", False):
            self.read_body(request, peer)
        with self.lock:
            self.requests.append(request)
        return handler(request, peer)


def echo(request, peer):
    body = json.dumps({"method": request.method, "target": request.target, "headers": request.headers,
                       "body": request.body.decode("latin-1"), "connection": request.connection}).encode()
    if request.method == "HEAD":
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
    else:
        peer.answer(200, [("Content-Type", "application/json")], body)
    return True


def script(answer, then="keep", late=None, go=None):
    """A handler that sends these bytes as they are. Then: keep the connection, close it, or reset it. With `late` it waits until `go`
    (an Event) is set, and sends that too, on a connection that nobody uses any more; `go.sent` is set afterwards."""
    answer = answer.encode("latin-1") if isinstance(answer, str) else answer

    def handler(request, peer):
        peer.send(answer)
        if late is not None:
            go.wait(10)
            try:
                peer.send(late)
            finally:
                go.sent.set()
        if then == "reset":
            peer.reset()
        return then == "keep"
    return handler
