"""Between gateways and a Redis: gives the script the test's own time, and writes down every decision in its order.

The script is the gateway's, but for its one line that asks the time. Everything else (its digest, NOSCRIPT, EVAL) stays as it is:
a script of this digest is in Redis under another one."""
import hashlib
import os
import socket
import threading
import time

TIME = b"local time = call('TIME')\n"
GIVEN_TIME = b"local time = {ARGV[#ARGV - 1], ARGV[#ARGV]}\n"


class Error(Exception):
    pass


class Wire:
    """Redis' protocol over one socket: `read` gives one whole value, `raw` the bytes it was made of."""

    def __init__(self, sock):
        self.socket, self.buffer, self.raw = sock, b"", b""

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        self.raw += line + b"\r\n"
        return line

    def _more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("closed")
        self.buffer += data

    def _value(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            n = int(rest)
            if n < 0:
                return None
            while len(self.buffer) < n + 2:
                self._more()
            data, self.buffer = self.buffer[:n], self.buffer[n + 2:]
            self.raw += data + b"\r\n"
            return data
        if kind == b"*":
            return [self._value() for _ in range(int(rest))]
        return int(rest) if kind == b":" else Error(rest) if kind == b"-" else rest

    def read(self):
        self.raw = b""
        return self._value()


def command(*args):
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in args)


class Decision:
    """One run of the script. `reply` is its list of integers; `before` and `after` are dumps of its keys."""

    def __init__(self, at_us, keys, argv, reply, before, after):
        self.at_us, self.keys, self.argv, self.reply, self.before, self.after = at_us, keys, argv, reply, before, after
        self.real_s = time.monotonic()
        self.cost, self.lease = int(argv[0]), argv[1].decode()
        self.wrong_bucket = len(reply) == 2


class Settlement:
    """One run of the script that settles a decision."""

    def __init__(self, at_us, keys, argv, reply, before, after):
        self.at_us, self.keys, self.reply, self.before, self.after = at_us, keys, reply, before, after
        self.real_s = time.monotonic()
        self.lease, self.taken, self.delta, self.decided_us = argv[1].decode(), int(argv[2]), int(argv[3]), int(argv[4])
        self.wrong_bucket = reply[1] == 2


class Release:
    def __init__(self, key, lease):
        self.key, self.lease = key, lease


class WentBack:
    pass


class ClockedRedis:
    def __init__(self, path, redis, start_us):
        self.path, self.redis = path, redis
        self.lock = threading.Lock()
        self.began, self.start_us, self.jumped_us = time.monotonic(), start_us, 0
        self.log, self.evals, self.noscripts, self.strange = [], 0, 0, []
        self.digests = {}               # of the gateway's text -> of the one that is in Redis
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()
        os.unlink(self.path)

    # Never slower than the real one, by which Redis lets keys expire.
    def now_us(self):
        return self.start_us + self.jumped_us + int((time.monotonic() - self.began) * 1e6)

    def jump(self, us):
        with self.lock:
            self.jumped_us += us
            if us < 0:
                self.log.append(WentBack())

    def take_log(self):
        with self.lock:
            log, self.log = self.log, []
            return log

    # --- inside ---

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        back = socket.socket(socket.AF_UNIX)
        try:
            back.connect(self.redis.path)
            client, server = Wire(sock), Wire(back)
            while True:
                args = client.read()
                sock.sendall(self._answer(args, server))
        except OSError:
            pass
        finally:
            sock.close()
            back.close()

    def _answer(self, args, server):
        name = args[0].upper()
        if name in (b"EVALSHA", b"EVAL"):
            with self.lock:
                return self._decide(name, args, server)
        if name == b"ZREM":
            with self.lock:
                self.log.append(Release(args[1].decode(), args[2].decode()))
                return self._pass(args, server)
        if name not in (b"PING", b"CLIENT", b"SELECT"):
            self.strange.append(args)
        return self._pass(args, server)

    @staticmethod
    def _pass(args, server):
        server.socket.sendall(command(*args))
        server.read()
        return server.raw

    def _decide(self, name, args, server):
        what, count = args[1], int(args[2])
        keys, argv = args[3:3 + count], args[3 + count:]
        if name == b"EVAL":
            self.evals += 1
            assert what.count(TIME) == 1 and what.count(b"'TIME'") == 1
            digest = hashlib.sha1(what).hexdigest().encode()
            what = what.replace(TIME, GIVEN_TIME)
            self.digests[digest] = hashlib.sha1(what).hexdigest().encode()
        else:
            what = self.digests.get(what, what)
        now = self.now_us()
        run = command(name, what, b"%d" % count, *keys, *argv, b"%d" % (now // 1000000), b"%d" % (now % 1000000))
        dumps = b"".join(command(b"DUMP", k) for k in keys)
        server.socket.sendall(dumps + run + dumps)
        before = [server.read() for _ in keys]
        reply, raw = server.read(), server.raw
        after = [server.read() for _ in keys]
        if isinstance(reply, Error):
            self.noscripts += reply.args[0].startswith(b"NOSCRIPT")
            if not reply.args[0].startswith(b"NOSCRIPT"):
                self.strange.append(reply)
        else:
            kind = Settlement if argv[0] == b"settle" else Decision
            self.log.append(kind(now, [k.decode() for k in keys], argv, reply, before, after))
        return raw
