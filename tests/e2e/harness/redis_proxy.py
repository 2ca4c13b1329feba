"""Stands in front of a Redis, on a TCP port: late, lost, cut or made-up replies, and a count of all that passed."""
import collections
import queue
import socket
import threading
import time


def read_reply(file):
    """The bytes of one whole reply."""
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("Redis closed the connection")
    if line[:1] == b"$" and int(line[1:]) >= 0:
        return line + file.read(int(line[1:]) + 2)
    if line[:1] == b"*":
        return line + b"".join(read_reply(file) for _ in range(int(line[1:])))
    return line


def command_name(command):
    return command.split(b"\r\n")[2].decode("ascii", "replace").upper()


class RedisProxy:
    """`delay_s`: each reply is that late. `swallow`: commands are executed, and their replies vanish. `cut`: the same, and the
    connection is closed; `cut_at`: at these commands only. `canned`: {command, or "*": bytes} are answered here and not executed. `refuse`: connections are closed
    at once."""

    def __init__(self, redis):
        self.redis = redis
        self.delay_s, self.swallow, self.cut, self.refuse, self.canned, self.cut_at = 0, False, False, False, {}, ()
        self.accepted, self.executed = 0, collections.Counter()
        self._open = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self.url = "redis://127.0.0.1:%d" % self.port
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._open = [s for s in self._open if s.fileno() >= 0] + [peer]
            if self.refuse:
                peer.close()
                continue
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        server, replies = socket.socket(socket.AF_UNIX), queue.SimpleQueue()
        writer = threading.Thread(target=self._write, args=(peer, replies), daemon=True)
        writer.start()
        try:
            server.connect(self.redis.path)
            self._pass_on(peer.makefile("rb"), server, server.makefile("rb"), replies)
        except (OSError, ValueError):
            pass
        finally:
            server.close()
            replies.put((time.monotonic() + self.delay_s, None))
            writer.join()
            peer.close()

    def _pass_on(self, commands, server, answers, replies):
        while True:
            command = read_reply(commands)
            name = command_name(command)
            canned = self.canned.get(name, self.canned.get("*"))
            if canned is None:
                server.sendall(command)
                canned = read_reply(answers)
                self.executed[name] += 1
            if self.cut or name in self.cut_at:
                raise ConnectionError("cut")
            if not self.swallow:
                replies.put((time.monotonic() + self.delay_s, canned))

    @staticmethod
    def _write(peer, replies):
        try:
            while True:
                due, data = replies.get()
                time.sleep(max(0, due - time.monotonic()))
                if data is None:
                    peer.shutdown(socket.SHUT_RDWR)
                    return
                peer.sendall(data)
        except OSError:
            pass

    def heal(self):
        self.delay_s, self.swallow, self.cut, self.refuse, self.canned, self.cut_at = 0, False, False, False, {}, ()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for s in self._open:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
