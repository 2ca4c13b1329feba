"""Hostile requests made from a grammar of HTTP/1.1 that is broken on purpose, and a reader that takes exactly HTTP/1.1.

A case is a stream of one connection: some requests, each with a few of its parts replaced, and a last good one. Every target holds
the case's number as `c<number>z`, so that a server's log tells which case a request came from."""
import re

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD")
BAD_METHODS = ("get", "FOO", "G(T", "GE\x00T", "CONNECT", "TRACE", "", "GET\t", " GET", "GET" * 20, "P\xd6ST", "PRI")
TARGETS = ("/{c}", "/{c}", "/{c}/a/b?q=1&r", "/{c}/%41%2dx", "http://h.test/{c}", "http://H.test:80/{c}?x", "/{c}?", "/{c}/?a=/../b",
           "/{c}/%E2%82%AC", "/{c}/~a!$&'()*+,=:@", "/{c}?a=%zz", "/{c}?''|{{}}")
BAD_TARGETS = ("//{c}", "/{c}/../x", "/{c}/%2e%2e/x", "/{c}/%2F..", "/{c}#f", "/{c} x", "/{c}\tx", "/{c}\x80", "/{c}%00", "/{c}/%zz",
               "/{c}/%", "/{c};a=b", "http://u@h.test/{c}", "{c}", "/{c}\\..\\x", "/{c}\x00", "/{c}?a\x00b", "/{c}\r", "/{c}\x7f",
               "https://h.test/{c}", "ftp://h.test/{c}", "http:///{c}", "http://h.test:99999/{c}", "h.test:80", "/{c}/.", "?{c}",
               "/{c}/a//b", "/{c}\x0bx", "http://h.test?{c}", "http://h.test#/{c}", "/{c}/..;/x", "*", "/{c}/%5c..")
VERSIONS = ("HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", "HTTP/01.1", "", "HTTP/1.10", "HTTP /1.1", "HTTP/1,1",
            "\tHTTP/1.1")
HOSTS = ("", "h.test, x.test", "h.test/path", "u@h.test", "h.test:x", "h test", "h.test:", "[::1]", "[::1", "h.test:80", "h.test\x00",
         "h.test:80:80", "h_x.test", "h.test#", "127.0.0.1")
LENGTHS = ("{n}", "{n}", "0{n}", "+{n}", "-{n}", "0x{n}", "{n} ", " {n}", "{n}, {n}", "{n},", "{n} 0", "{n}\x00", "{n}.0", "\x0b{n}", "",
           "99999999999999999999", "9223372036854775808", "{n}\x0c", "{n};a", "\t{n}", "{n}a", "١")
CODINGS = ("chunked", "chunked", "Chunked", "CHUNKED", " chunked ", "\tchunked", "xchunked", "chunked, chunked", "chunked,", ", chunked",
           "identity", "gzip, chunked", "gzip", "chunked, identity", "chunked;q=1", "", "\x0bchunked", "chunked\x00", "chunked\x0c",
           "\"chunked\"", "chun\tked", "chunked\x80", "identity, chunked")
FRAMING_NAMES = ("{name} ", "{name}\t", " {name}", "{name}\x00", "\x00{name}", "{name}\x0b", "{name}\x80", "X-A: b\r\n {name}", "X-A: b\r{name}",
                 "X-A: b\n{name}", "X-A: b\r\n\t{name}", "X-A: b\r\r\n{name}", "\r{name}", "\n{name}", "{under}", ":{name}", "{name}:",
                 "{name}\r\n ", "(a){name}", "{name}\xa0")
FIELDS = ("X-Probe: a", "X-Probe: a, b", "X-Probe:", "X-Probe:\t a\t", "X-Probe: \x80\xff", "x_under: 1", "X-Long: {long}", "Cookie: a=b; c=d",
          "Cookie: e=f", "Accept: */*", "Connection: X-Probe", "Connection: close", "Connection: keep-alive", "Connection: Content-Length",
          "Connection: Host, X-Probe", "Connection: Transfer-Encoding", "Proxy-Connection: keep-alive", "Keep-Alive: timeout=5",
          "TE: trailers", "Trailer: X-T", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQ", "X-Forwarded-For: 1.2.3.4", "Via: 1.0 x",
          "X-Forwarded-Host: evil", "X-Request-Id: mine", "traceparent: x", "Forwarded: for=x", "Expect: 100-continue", "content_length: 7",
          "X-Real-IP: 9.9.9.9", "x-real_ip: 9.9.9.9",
          "Transfer_Encoding: chunked", "X-Forwarded_For: 9.9.9.9", "Range: bytes=0-1", "X-HTTP-Method-Override: DELETE",
          "Content-Type: text/plain", "X-A!#$%&'*+-.^_`|~: v", "Max-Forwards: 0", "Authorization: Basic eDp5")
BAD_FIELDS = ("X-Probe : a", "X-Probe", ": a", "X-Probe: a\x00b", "X-Probe: a\rb", "X-Probe: a\nX-Smuggled: 1", "X-Probe: a\r\n b", " X-Probe: a",
              "X(Probe): a", "X-Probe\x80: a", "X-Probe: \x01", "X-Probe: a\x7f", "X-Probe: a\r\n\tX-Smuggled: 1", "X Probe: a", "\x00: a",
              "X-Probe: a\r\r\nX-Smuggled: 1", "Expect: 200-ok", "X-Probe: a\r\nX-Smuggled : 1", "{many}", "[a]: b", "X-Probe\r\n: a")
SIZES = ("{h}", "{h}", "{h}", "0{h}", "00000000000{h}", "{h};a=b", "{h};a=\"b c\"", "{h} ", "{h} ;a", "{h}\t", "0x{h}", "+{h}", "-{h}", "{h}\r",
         "{h}\n", "{h}\x00", " {h}", "", "g", "{h}g", "FFFFFFFFFFFFFFFF{h}", "1000000000000000{h}", "{h};\x00", "{h};a\nb", "{h},{h}")
TRAILERS = ("", "", "X-T: 1\r\n", "Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n", "Host: evil\r\n", "X-T : 1\r\n", " X\r\n", "X\r\n",
            "X-T: 1\n", "X-Smuggled: 1\r\nX-T: \x00\r\n")
CHUNK_ENDS = ("\r\n",) * 12 + ("\n", "", "\r", "\r\n\r\n", "x\r\n", " \r\n")
LINE_ENDS = ("\r\n",) * 40 + ("\n", "\r", "\r\r\n", "\n\r\n", "\x0b\r\n")


class Case:
    def __init__(self, rng, number):
        self.rng, self.word = rng, "c%dz" % number
        self.wild = rng.choice((0.0, 0.02, 0.05, 0.1, 0.2))        # how often a part is replaced

    def bad(self):
        return self.rng.random() < self.wild

    def smuggled(self):
        return "GET /%s/smuggled HTTP/1.1\r\nHost: s.test\r\nX-Smuggled: 1\r\n\r\n" % self.word

    def body(self):
        return self.rng.choice(("", "a", "hello", self.smuggled(), "0\r\n\r\n" + self.smuggled(), "\r\n" + self.smuggled(),
                                "\x00\xff\r\n", "x" * 3000))

    def pick(self, good, bad):
        return self.rng.choice(bad if self.bad() else good)

    def field(self):
        text = self.pick(FIELDS, BAD_FIELDS)
        return text.replace("{long}", "v" * 2000).replace("{many}", "\r\n".join("X-%d: v" % i for i in range(150)))

    def framed(self, name, value):
        if not self.bad():
            return "%s: %s" % (name, value)
        return "%s: %s" % (self.rng.choice(FRAMING_NAMES).format(name=name, under=name.replace("-", "_")), value)

    def chunks(self, body):
        out = ""
        while body:
            n = self.rng.choice((1, 3, 50, 5000))
            part, body = body[:n], body[n:]
            size = "%x" % len(part)
            out += self.pick((size,), SIZES).replace("{h}", size) + self.pick(("\r\n",), LINE_ENDS) + part + self.pick(("\r\n",), CHUNK_ENDS)
        return out + self.pick(("0",), SIZES).replace("{h}", "0") + self.pick(("\r\n",), LINE_ENDS) + self.pick(("", "X-T: 1\r\n"), TRAILERS) + \
            self.pick(("\r\n",), CHUNK_ENDS)

    def framing(self):
        """(fields, body)"""
        body = self.body()
        kind = self.rng.choice(("none", "length", "length", "chunked", "both" if self.wild else "none"))
        if kind == "none" and not self.bad():
            return [], ""
        lengths = [self.framed("Content-Length", self.pick(("{n}",), LENGTHS).replace("{n}", str(len(body))))
                   for _ in range(1 if not self.bad() else 2)]
        codings = [self.framed("Transfer-Encoding", self.pick(("chunked",), CODINGS)) for _ in range(1 if not self.bad() else 2)]
        if kind == "length":
            return lengths, self.pick((body,), (body + self.smuggled(), body[:-1], body + "\r\n", ""))
        if kind == "both" and self.bad():
            return lengths + codings, self.rng.choice((body, self.chunks(body)))
        return codings, self.chunks(body)

    def request(self):
        rng = self.rng
        fields, body = self.framing()
        method = self.pick(METHODS if body else ("GET",) + METHODS, BAD_METHODS)
        hosts = ["Host: h.test"] if not self.bad() else ["Host: " + rng.choice(HOSTS) for _ in range(rng.randrange(3))]
        lines = hosts + [self.field() for _ in range(rng.randrange(5))] + fields
        once = [line for line in lines if line.startswith("Authorization")]     # nginx refuses a second one
        lines = [line for line in lines if line not in once] + once[:1]
        if rng.random() < 0.3:
            rng.shuffle(lines)
        version = self.pick(("HTTP/1.1",), VERSIONS)
        target = self.pick(TARGETS, BAD_TARGETS).replace("{c}", self.word)
        between = self.pick((" ",), ("  ", "\t", "\x0b", " \x00", "\x0c"))
        head = self.pick(("",), ("\r\n", "\r\n\r\n", "\n", " ", "\x00", "\r")) + method + between + target + " " + version
        return "".join(line + self.pick(("\r\n",), LINE_ENDS) for line in [head] + lines + [""]) + body

    def stream(self):
        """The bytes of the connection."""
        rng = self.rng
        text = "".join(self.request() for _ in range(rng.choice((1, 1, 1, 2, 3))))
        text += "GET /%s/last HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n\r\n" % self.word
        data = text.encode("utf-8" if any(ord(c) > 255 for c in text) else "latin-1")
        return self.mutate(data) if rng.random() < 0.15 else data

    def mutate(self, data):
        """A few bytes changed, taken out, put in or said twice; never one of the case's number."""
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(data))
            if any(m.start() - 1 <= at <= m.end() for m in re.finditer(self.word.encode(), data)):
                continue
            new = rng.choice((b"\r", b"\n", b"\r\n", b"\x00", b" ", b":", b"\t", b"\xff", b"x", b",", b";"))
            end = at + rng.choice((0, 1, 1, 3))
            if self.word.encode() in data[at:end + 8]:
                continue
            data = data[:at] + rng.choice((new, b"", data[at:end] * 2)) + data[end:]
        return data


# --- the reader -----------------------------------------------------------------------------------------------------------

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
LINE = re.compile(rb"(" + TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([0-9])\r\n")
FIELD = re.compile(rb"(" + TOKEN + rb"):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[ \t]*\r\n")
# Empty lines before a request (RFC 9112 section 2.2). libmicrohttpd before 1.0 takes one that begins with a NUL for empty, too.
EMPTY = re.compile(rb"(?:(?:\x00[^\n]*)?\r?\n)*")
SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(;[^\r\n]*)?(\r?\n)")       # extensions are dropped, whatever they hold


class Read:
    """A request as RFC 9112 reads it: fields in order, body decoded."""

    def __init__(self, method, target, minor, fields):
        self.method, self.target, self.minor, self.fields, self.body = method, target, minor, fields, ""

    def all(self, name):
        return [v for k, v in self.fields if k.lower() == name]


def read_head(data):
    """(Read, length) or None: the head is not HTTP/1.1 to the letter, or not there."""
    m = LINE.match(data)
    if not m:
        return None
    at, fields = m.end(), []
    while not data.startswith(b"\r\n", at):
        f = FIELD.match(data, at)
        if not f:
            return None
        fields.append((f.group(1).decode(), f.group(2).decode("latin-1")))
        at = f.end()
    return Read(m.group(1).decode(), m.group(2).decode(), int(m.group(3)), fields), at + 2


def read_chunks(data):
    """(body, length, all lines end with CRLF) or None."""
    at, body, exact = 0, b"", True
    while True:
        m = SIZE.match(data, at)
        if not m:
            return None
        exact = exact and m.group(3) == b"\r\n"
        n, at = int(m.group(1), 16), m.end()
        if n == 0:
            break
        body, at = body + data[at:at + n], at + n
        end = re.compile(rb"\r?\n").match(data, at)
        if not end:
            return None
        exact, at = exact and end.group() == b"\r\n", end.end()
    while True:                                     # the trailer section is dropped, whatever it holds
        end = data.find(b"\n", at)
        if end < 0:
            return None
        line, exact = data[at:end], exact and data[end - 1:end] == b"\r"
        at = end + 1
        if line in (b"", b"\r"):
            return body, at, exact


def read_one(data):
    """(Read, length, whether more may follow) or None."""
    head = read_head(data)
    if not head:
        return None
    r, at = head
    lengths, codings = r.all("content-length"), r.all("transfer-encoding")
    if codings:
        if lengths or len(codings) > 1 or codings[0].lower() != "chunked" or r.minor == 0:
            return None
        chunks = read_chunks(data[at:])
        if not chunks:
            return None
        r.body = chunks[0].decode("latin-1")
        return r, at + chunks[1], chunks[2]
    if lengths:
        if len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,18}", lengths[0]) or len(data) - at < int(lengths[0]):
            return None
        r.body = data[at:at + int(lengths[0])].decode("latin-1")
        at += int(lengths[0])
    return r, at, True


def read_all(data):
    """All requests that stand in the stream one after the other, up to the first thing that is not HTTP/1.1."""
    found = []
    while True:
        data = data[EMPTY.match(data).end():]
        one = read_one(data)
        if not one:
            return found
        found.append(one[0])
        if not one[2]:
            return found
        data = data[one[1]:]
