"""One redis-server on a unix socket and a port of its own, and a small RESP client."""
import os
import signal
import socket
import subprocess

from .sockets import free_port
from .wait import until


class ReplyError(Exception):
    pass


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def send(self, *args):
        parts = [a if isinstance(a, bytes) else str(a).encode() for a in args]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise ReplyError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode("utf-8", "replace")
        return None if rest == b"-1" else [self.read() for _ in range(int(rest))]

    def __call__(self, *args):
        self.send(*args)
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()


class Redis:
    def __init__(self, folder, name="redis", options=()):
        self.folder, self.name, self.options = folder, name, list(options)
        self.path = os.path.join(folder, name + ".sock")
        self.port = free_port()
        self.process = None

    def start(self):
        if self.process and self.process.poll() is None:
            return self
        # With restore_signals a file that may not grow would end it, instead of being an error of writing.
        program = "redis-server"
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", self.path, "--save", "", "--appendonly", "no",
             "--dir", self.folder, "--daemonize", "no", "--logfile", os.path.join(self.folder, self.name + ".redis.log")] + self.options,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, restore_signals=False)
        until("Redis answers", self.answers)
        self.is_meant()
        return self

    def is_meant(self):
        """SG_STORE_INFO is what INFO of every server must have, so that nobody tests another one than was meant."""
        meant = os.environ.get("SG_STORE_INFO", "")
        try:
            info = self("INFO", "server")
        except ReplyError:
            return      # NOAUTH, LOADING: the other tests ask
        if meant not in info:
            self.stop()
            raise AssertionError("not %r but %s" % (meant, info))

    def answers(self):
        try:
            c = Client(self.path)
        except OSError:
            return False
        try:
            c.send("PING")
            c.read()
            return True
        except ReplyError:
            return True     # NOAUTH, LOADING: it is there
        except OSError:
            return False
        finally:
            c.close()

    def __call__(self, *args):
        c = Client(self.path)
        try:
            return c(*args)
        finally:
            c.close()

    def keys(self):
        return sorted(self("KEYS", "*"))

    def calls(self, command):
        """Commands of this name that this server has executed."""
        for line in self("INFO", "commandstats").splitlines():
            if line.startswith("cmdstat_%s:" % command):
                return int(line.split("calls=")[1].split(",")[0])
        return 0

    def evalsha_calls(self):
        return self.calls("evalsha")

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.process = None
