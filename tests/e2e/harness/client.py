"""A raw HTTP/1.1 client with a strict parser: what is not exactly HTTP/1.1 is an error, not repaired."""
import re
import socket

from .sockets import reset_at_close

STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2}) ([\t\x20-\x7e\x80-\xff]*)\Z")
FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[ \t\x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[ \t]*\Z")


class Malformed(Exception):
    """The answer is not HTTP/1.1, or it broke off."""


class Answer:
    def __init__(self, status, minor, headers, body, interim):
        self.status, self.minor, self.headers, self.body, self.interim = status, minor, headers, body, interim

    def all(self, name):
        return [v for k, v in self.headers if k.lower() == name.lower()]

    def header(self, name):
        values = self.all(name)
        assert len(values) <= 1, (name, values)
        return values[0] if values else None

    @property
    def text(self):
        return self.body.decode("utf-8")

    def __repr__(self):
        return "<%d %r %r>" % (self.status, self.headers, self.body[:200])


class Connection:
    def __init__(self, host, port, timeout=20, unix=None, receive_buffer=None, tls=None):
        family = socket.AF_UNIX if unix else socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(unix if unix else (host, port))
        if not unix:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:     # an ssl.SSLContext
            self.socket = tls.wrap_socket(self.socket, server_hostname="gw.test")
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.socket.close()

    def abort(self):
        """End with a reset."""
        reset_at_close(self.socket)
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        return self

    def request(self, method, path, headers=(), body=None):
        lines = ["%s %s HTTP/1.1" % (method, path)]
        headers = list(headers.items() if isinstance(headers, dict) else headers)
        if not any(k.lower() == "host" for k, _ in headers):
            headers.insert(0, ("Host", "gw.test"))
        if body is not None:
            headers.append(("Content-Length", str(len(body))))
        lines += ["%s: %s" % h for h in headers]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b""))
        return self.answer(method)

    # --- reading ---

    def _more(self):
        data = self.socket.recv(65536)
        self.buffer += data
        return bool(data)

    def _line(self):
        while b"\n" not in self.buffer:
            if not self._more():
                raise Malformed("ended inside a line: %r" % self.buffer[:80])
        line, self.buffer = self.buffer.split(b"\n", 1)
        if not line.endswith(b"\r"):
            raise Malformed("bare LF after %r" % line[:80])
        return line[:-1]

    def take(self, n):
        while len(self.buffer) < n:
            if not self._more():
                raise Malformed("ended %d bytes short" % (n - len(self.buffer)))
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def head(self):
        line = self._line()
        m = STATUS.match(line)
        if not m:
            raise Malformed("status line %r" % line[:80])
        fields = []
        while True:
            line = self._line()
            if not line:
                return int(m.group(2)), int(m.group(1)), fields
            f = FIELD.match(line)
            if not f:
                raise Malformed("field line %r" % line[:80])
            fields.append((f.group(1).decode("latin-1"), f.group(2).decode("latin-1")))

    def _chunks(self):
        body = b""
        while True:
            size = self._line()
            if not re.match(rb"[0-9A-Fa-f]{1,16}(;.*)?\Z", size):
                raise Malformed("chunk size %r" % size[:80])
            n = int(size.split(b";")[0], 16)
            if n == 0:
                while self._line():
                    pass
                return body
            body += self.take(n)
            if self.take(2) != b"\r\n":
                raise Malformed("chunk end")

    def _rest(self):
        while self._more():
            pass
        body, self.buffer = self.buffer, b""
        return body

    def _body(self, method, status, fields):
        lengths = [v for k, v in fields if k.lower() == "content-length"]
        codings = [v for k, v in fields if k.lower() == "transfer-encoding"]
        if len(lengths) > 1 or len(codings) > 1 or (lengths and codings):
            raise Malformed("two framings: %r %r" % (lengths, codings))
        if method == "HEAD" or status in (204, 304) or status < 200:
            return b""
        if codings:
            if codings != ["chunked"]:
                raise Malformed("transfer coding %r" % codings)
            return self._chunks()
        return self.take(int(lengths[0])) if lengths else self._rest()

    def answer(self, method="GET"):
        interim = []
        while True:
            status, minor, fields = self.head()
            if status >= 200 or status == 101:
                break
            interim.append(status)
        return Answer(status, minor, fields, self._body(method, status, fields), interim)

    def at_end_of_stream(self):
        """Read and drop what comes, until the peer closes."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True

    def at_end(self):
        """True when the peer has closed (in order or by reset) and nothing is left to read."""
        if self.buffer:
            return False
        try:
            data = self.socket.recv(1)
        except ConnectionResetError:
            return True
        self.buffer += data
        return not data
