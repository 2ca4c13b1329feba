"""Reload, reopening of logs, drain, the service manager, and the command line."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

from harness.client import Connection, Malformed
from harness.gateway import PROGRAM, digest
from harness.upstream import Upstream
from harness.wait import until

KEY = {"X-API-Key": "k-acme"}

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: {workers}, drain_timeout: {drain}}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "{access}"}}
classes: {{c: [{{name: l, algorithm: fixed_window, limit: {limit}, window: 366d, per: key}}]}}
tenants: {{acme: {{keys: [{{id: one, sha256: {acme}}}]}}}}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes:
  - {{name: limited, match: {{path: /x}}, classes: [c], upstream: up}}
  - {{name: say, match: {{path: /say}}, respond: {{status: 200, body: "{say}"}}}}
  - {{name: all, match: {{path: /*}}, upstream: up}}
"""


def config(upstream, limit=10, say="one", workers=1, drain="30s", access="@ACCESS@"):
    return CONFIG.format(workers=workers, drain=drain, access=access, limit=limit, say=say, upstream=upstream.url,
                         acme=digest("k-acme"))


BAD = """server: {listn: "127.0.0.1:0"}
routes: [{name: r, match: {path: /*}, upstream: nowhere}]
"""


def remaining(gateway):
    return int(gateway.get("/x", KEY).header("RateLimit").split(";r=")[1].split(";")[0])


def says(gateway, word):
    until("the new config is in use", lambda: gateway.get("/say").text == word)


class Stream:
    """An open response: `push` sends a piece through the gateway, and it arrives."""

    def __init__(self, gateway, upstream):
        self.ready, self.go, self.pieces = threading.Event(), threading.Semaphore(0), []
        upstream.on("/stream", self._serve)
        self.client = gateway.connect()
        self.client.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        assert self.ready.wait(20)
        status, _, fields = self.client.head()
        assert status == 200 and ("Transfer-Encoding", "chunked") in fields

    def _serve(self, request, peer):
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.ready.set()
        while self.go.acquire(timeout=60):
            piece = self.pieces.pop(0)
            peer.send("%x\r\n%s\r\n" % (len(piece), piece))
            if not piece:
                return True
        return False

    def push(self, piece):
        self.pieces.append(piece)
        self.go.release()
        if piece:
            size = self.client._line()
            assert self.client.take(int(size, 16) + 2) == piece.encode() + b"\r\n"

    def end(self):
        self.push("")
        assert self.client._line() == b"0" and self.client._line() == b""


# --- reload --------------------------------------------------------------------------------------------


def test_good_reload(gateway, upstream):
    g = gateway(config(upstream))
    assert remaining(g) == 9 and g.get("/say").text == "one"
    hash_before = json.loads(g.admin("/status")[2])["config"]["hash"]
    assert g.reload(config(upstream, limit=20, say="two"))
    says(g, "two")
    assert remaining(g) == 18       # 20 - 2: used stays used
    status = json.loads(g.admin("/status")[2])["config"]
    assert status["hash"] != hash_before and status["last_error"] is None
    assert g.metric("slotgate_config_last_reload_successful") == 1
    assert g.metric("slotgate_config_info", hash=status["hash"]) == 1


def test_bad_reload_changes_nothing(gateway, upstream):
    g = gateway(config(upstream))
    assert remaining(g) == 9
    before = json.loads(g.admin("/status")[2])["config"]
    when = g.metric("slotgate_config_last_reload_success_timestamp_seconds")
    assert not g.reload(BAD)
    assert g.metric("slotgate_config_last_reload_successful") == 0
    assert g.metric("slotgate_config_last_reload_success_timestamp_seconds") == when
    after = json.loads(g.admin("/status")[2])["config"]
    assert (after["hash"], after["loaded"]) == (before["hash"], before["loaded"])
    assert "listn" in after["last_error"] and ":1:" in after["last_error"]
    findings = [e for e in g.events("config") if e["level"] == "error"]
    assert {e["line"] for e in findings} >= {1, 2}          # all errors, not the first
    assert remaining(g) == 8 and g.get("/say").text == "one"
    assert g.admin("/readyz")[0] == 200

    # A file that cannot be read is an error like any other; then all is well again.
    os.unlink(g.config_path)
    assert not g.reload()
    assert json.loads(g.admin("/status")[2])["config"]["last_error"].startswith(g.config_path + ": ")
    assert remaining(g) == 7
    assert g.reload(config(upstream, say="two"))
    says(g, "two")
    assert remaining(g) == 6
    assert g.metric("slotgate_config_last_reload_successful") == 1
    assert json.loads(g.admin("/status")[2])["config"]["last_error"] is None


def test_reload_by_the_admin_listener(gateway, upstream):
    g = gateway(config(upstream))
    g.write_config(config(upstream, say="two"))
    status, _, text = g.admin("/reload", method="POST")
    assert status == 200 and json.loads(text)["hash"]
    says(g, "two")
    g.write_config(BAD)
    status, headers, text = g.admin("/reload", method="POST")
    assert status == 422 and headers["Content-Type"] == "application/problem+json"
    assert any("listn" in line for line in json.loads(text)["findings"])
    assert g.admin("/reload")[0] == 405
    assert g.get("/say").text == "two"


def many_tenants(folder, count=2000):
    """So that a config that is not freed shows."""
    with open(os.path.join(folder, "many.yaml"), "w", encoding="utf-8") as f:
        f.writelines("t%d: {keys: [{id: only, sha256: %s}]}\n" % (i, digest("k-%d" % i)) for i in range(count))
    return "tenants_files: [many.yaml]\n"


def lean(env=os.environ):
    """AddressSanitizer keeps freed memory for a while: little of it here, where memory is measured."""
    return dict(env, ASAN_OPTIONS=":".join(filter(None, [env.get("ASAN_OPTIONS"), "quarantine_size_mb=1"])))


def test_100_reloads_under_load(gateway, upstream, folder):
    """Every tenth is bad. No request fails, no counter begins anew, a stream that was open all the time is whole, and memory stays."""
    more = many_tenants(folder)
    g = gateway(config(upstream, limit=1000000, workers=2) + more, env=lean())
    stream = Stream(g, upstream)
    stop, got, broken, rss = threading.Event(), [], [], []

    def load():
        try:
            with g.connect() as c:
                while not stop.is_set():
                    got.append(c.request("GET", "/x", KEY).status)
        except (OSError, Malformed) as e:
            broken.append(repr(e))
    threads = [threading.Thread(target=load) for _ in range(6)]
    for t in threads:
        t.start()
    for i in range(100):
        bad = i % 10 == 9
        text = BAD if bad else config(upstream, limit=1000000 + i, say="n%d" % i, workers=2) + more
        assert g.reload(text) == (not bad)
        stream.push("piece %d" % i)
        rss.append(g.rss_bytes())
    until("there was load all along", lambda: len(got) > 100)
    stop.set()
    for t in threads:
        t.join()
    stream.end()
    assert broken == [] and set(got) == {200}
    says(g, "n98")
    assert 1000098 - remaining(g) == len(got) + 1       # not one of them was lost or counted twice
    # A config takes about 1 MiB; the allocator needs some rounds to find its size.
    assert max(rss[70:]) - max(rss[:30]) < 10 << 20, [n >> 10 for n in rss]
    stream.client.close()


def test_what_needs_a_restart_is_said(gateway, upstream):
    g = gateway(config(upstream))
    assert g.reload(config(upstream, workers=2))
    assert [e["key"] for e in g.events("config: takes effect at the next start")] == ["server.workers"]


# --- logs ----------------------------------------------------------------------------------------------


def test_usr1_reopens_the_access_log(gateway, upstream):
    g = gateway(config(upstream))
    g.get("/say")
    g.access_count(1)
    os.rename(g.access_path, g.access_path + ".1")
    g.get("/say")               # goes to the old file, under its new name
    def lines(path):
        if not os.path.exists(path):
            return 0
        with open(path, encoding="utf-8") as f:
            return len(f.readlines())
    until("the second line", lambda: lines(g.access_path + ".1") == 2)
    assert not os.path.exists(g.access_path)
    g.signal(signal.SIGUSR1)
    until("the file is there again", lambda: os.path.exists(g.access_path))
    g.get("/say")
    g.access_count(1)
    assert lines(g.access_path + ".1") == 2


def test_access_log_moves_and_ends_with_a_reload(gateway, upstream, folder):
    g = gateway(config(upstream))
    g.get("/say")
    g.access_count(1)
    other = os.path.join(folder, "other.access")
    assert g.reload(config(upstream, access=other, say="two"))
    says(g, "two")
    def lines():
        with open(other, encoding="utf-8") as f:
            return len(f.readlines())
    until("lines in the other file", lambda: lines() >= 1)
    assert g.reload(config(upstream, access="off", say="three"))
    says(g, "three")
    g.get("/say")
    # The place cannot be opened: the log stays where it was, and the gateway goes on.
    assert g.reload(config(upstream, access="/nonexistent/access.log", say="four"))
    says(g, "four")
    assert g.events("the access log stays where it was")


def test_access_log_is_a_pipe(gateway, upstream, folder):
    """One that nobody reads is an error, not a wait without end; once it is read, lines come."""
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    g = gateway(config(upstream))
    assert g.reload(config(upstream, access=pipe, say="two"))
    says(g, "two")
    assert "No such device" in g.events("the access log stays where it was")[0]["error"]
    assert run("-c", g.config_path).returncode == 1
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    g.signal(signal.SIGUSR1)
    until("lines in the pipe", lambda: g.get("/say") and b'"url.path":"/say"' in (readable(reader) or b""))
    os.close(reader)


def readable(fd):
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return None


def test_a_start_without_access_log_fails(upstream, folder):
    path = os.path.join(folder, "c.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(config(upstream, access="/nonexistent/access.log"))
    r = run("-c", path)
    assert r.returncode == 1 and "/nonexistent/access.log: No such file" in r.stdout + r.stderr
    assert "runtime error" not in r.stderr


# --- the end -------------------------------------------------------------------------------------------


def refused(gateway):
    try:
        gateway.connect(timeout=5).close()
    except OSError:
        return True
    return False


def outcomes(g):
    return [(e["http.response.status_code"], e["slotgate.result"], e.get("error.type")) for e in g.access()]


def test_term_drains(gateway, upstream):
    g = gateway(config(upstream))
    stream = Stream(g, upstream)
    idle = g.connect()
    assert idle.request("GET", "/say").status == 200
    g.signal(signal.SIGTERM)
    until("draining", lambda: g.events("draining"))
    until("no new connections", lambda: refused(g))
    status, _, text = g.admin("/readyz")
    assert status == 503 and "draining" in text
    assert g.admin("/healthz")[0] == 200
    assert json.loads(g.admin("/status")[2])["draining"] is True
    assert idle.at_end()                    # nothing was under way on it
    stream.push("still here")
    assert g.process.poll() is None
    stream.end()
    assert g.process.wait(20) == 0
    entry = [e for e in g.access() if e["url.path"] == "/stream"]
    assert len(entry) == 1 and entry[0]["slotgate.result"] == "allowed"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_second_signal_ends_at_once(gateway, upstream, second):
    g = gateway(config(upstream, drain="10m"))
    stream = Stream(g, upstream)
    g.signal(signal.SIGINT)
    until("draining", lambda: g.events("draining"))
    stream.push("still here")
    g.signal(second)
    assert g.process.wait(20) == 0
    assert stream.client.at_end()
    assert outcomes(g) == [(200, "failed", "drained")]


def test_drain_ends_in_time(gateway, upstream):
    g = gateway(config(upstream, drain="200ms"))
    stream = Stream(g, upstream)
    g.signal(signal.SIGTERM)
    assert g.process.wait(20) == 0
    assert g.events("drain time is over: open requests are cut")
    assert stream.client.at_end()
    assert outcomes(g) == [(200, "failed", "drained")]


# --- the service manager -------------------------------------------------------------------------------


class Manager:
    """The receiving end of NOTIFY_SOCKET."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(20)
        self.env = dict(os.environ, NOTIFY_SOCKET=path)

    def next(self):
        """The next message that is no status and no sign of life."""
        while True:
            message = self.socket.recv(4096).decode()
            if not message.startswith(("STATUS=", "WATCHDOG=")):
                return message


def test_notifications(gateway, upstream, folder):
    manager = Manager(os.path.join(folder, "notify"))
    g = gateway(config(upstream), env=manager.env)
    assert manager.next() == "READY=1"
    assert g.reload(config(upstream, limit=11))
    message = manager.next()
    assert re.match(r"RELOADING=1\nMONOTONIC_USEC=[0-9]+$", message), message
    assert manager.next() == "READY=1"
    assert not g.reload(BAD)                # a bad file too: the reload is over, and the gateway serves
    assert manager.next().startswith("RELOADING=1\n")
    assert manager.next() == "READY=1"
    g.signal(signal.SIGTERM)
    assert manager.next() == "STOPPING=1"


def test_watchdog(gateway, upstream, folder):
    manager = Manager(os.path.join(folder, "notify"))
    gateway(config(upstream), env=dict(manager.env, WATCHDOG_USEC="300000"))
    seen = 0
    while seen < 3:
        seen += manager.socket.recv(4096) == b"WATCHDOG=1"


# As the service manager does it: the sockets from 3 on, and variables that name the process itself.
ACTIVATE = """
import os, sys
fd = int(sys.argv[1])
if fd != 3:
    os.dup2(fd, 3)
    os.close(fd)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execvp(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_socket_activation(gateway, upstream, workers):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        fd = listener.fileno()
        g = gateway(config(upstream, workers=workers), wrap=[sys.executable, "-c", ACTIVATE, str(fd)], pass_fds=(fd,))
        assert g.port == listener.getsockname()[1]
        for _ in range(8):
            assert g.get("/say").text == "one"
        # A stop leaves the manager's socket open: the next start takes over where this one ended.
        assert g.stop() == 0
        g.start()
        assert g.get("/say").text == "one"


# --- the command line ----------------------------------------------------------------------------------


def run(*args, stdin=""):
    return subprocess.run([PROGRAM] + list(args), input=stdin, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("args", [[], ["-c"], ["--nonsense"], ["nonsense"], ["check"], ["check", "-c"], ["key"], ["key", "old"],
                                  ["explain"], ["check", "--nonsense", "-c", "x"], ["-c", "x", "more"],
                                  ["check", "--schema", "--json"], ["check", "--schema", "--print"], ["check", "--schema", "-c", "x"]])
def test_usage_errors(args):
    r = run(*args)
    assert r.returncode == 64 and "usage:" in r.stderr and r.stdout == ""


def test_help_and_version():
    r = run("-h")
    assert r.returncode == 0 and "usage:" in r.stdout
    r = run("-V")
    assert r.returncode == 0 and r.stdout.startswith("slotgate ")


THREE = """server: {listn: "127.0.0.1:0"}
store: {timeout: 5 parsecs}
upstreams: {up: {targets: [{url: "http://127.0.0.1:1"}]}}
routes: [{name: a, match: {path: /*}, classes: [c], upstream: upp}]
"""


def test_check_names_every_error(folder):
    path = os.path.join(folder, "three.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(THREE)
    r = run("check", "-c", path)
    assert r.returncode == 78 and r.stdout == ""
    lines = r.stderr.splitlines()
    assert all(line.startswith(path + ":") for line in lines), lines
    places = [tuple(int(n) for n in line[len(path) + 1:].split(":")[:2]) for line in lines]
    assert [p[0] for p in places] == [1, 2, 4, 4]
    assert places[0][1] == THREE.splitlines()[0].index("listn") + 1
    assert 'did you mean "listen"?' in lines[0] and "expected a duration" in lines[1] and 'did you mean "up"?' in lines[3]
    # The same, for programs; and the gateway itself says the same and does not start.
    found = json.loads(run("check", "--json", "-c", path).stdout)
    assert found["ok"] is False and [f["line"] for f in found["findings"]] == [1, 2, 4, 4]
    assert json.loads(run("check", "--print", "--json", "-c", path).stdout) == found
    r = run("-c", path)
    assert r.returncode == 78 and r.stderr.splitlines() == lines


def test_check_of_files_that_are_well_or_not_there(folder, upstream):
    path = os.path.join(folder, "good.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(config(upstream, access="off"))
    r = run("check", "-c", path)
    assert (r.returncode, r.stdout, r.stderr) == (0, "configuration OK\n", "")
    assert json.loads(run("check", "--json", "-c", path).stdout) == {"ok": True, "findings": []}
    printed = run("check", "--print", "-c", path).stdout
    assert printed.startswith("# ") and "\nroutes:" in printed
    assert json.loads(run("check", "--print", "--json", "-c", path).stdout) == {"ok": True, "findings": [], "config": printed}
    assert run("check", "-c", path + ".not").returncode == 78
    assert run("-c", path + ".not").returncode == 78


def test_port_that_is_taken(gateway, upstream, folder):
    """Not an error of the file: 1, so that a service manager tries again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        path = os.path.join(folder, "taken.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(config(upstream, access="off").replace('listen: "127.0.0.1:0", workers', 'listen: "127.0.0.1:%d", workers' %
                                                           taken.getsockname()[1]))
        r = run("-c", path)
        assert r.returncode == 1 and "in use" in r.stdout + r.stderr


def test_a_new_key_works(gateway, upstream):
    r = run("key", "new")
    assert r.returncode == 0
    key = re.search(r"^key: (\S+)$", r.stdout, re.M).group(1)
    line = re.search(r"^- (\{.*\})$", r.stdout, re.M).group(1)
    hashed = run("key", "hash", stdin=key + "\n")
    assert hashed.returncode == 0 and digest(key) in hashed.stdout and digest(key) in line
    assert key not in hashed.stdout + hashed.stderr
    assert run("key", "new").stdout != r.stdout

    g = gateway(config(upstream))
    assert g.get("/x", {"X-API-Key": key}).status == 401
    assert g.reload(config(upstream).replace("keys: [", "keys: [%s, " % line))
    until("the new key is known", lambda: g.get("/x", {"X-API-Key": key}).status == 200)


def test_key_hash_of_nothing():
    assert run("key", "hash", stdin="").returncode == 64
    assert run("key", "hash", stdin="\n").returncode == 64


def test_explain_says_what_happens(gateway, upstream, redis):
    """What explain names is what the request then uses, and explain itself uses nothing."""
    text = config(upstream) + 'store: {type: redis, url: "unix://%s", timeout: 2s}\n' % redis.path
    g = gateway(text)
    def explain():
        r = run("explain", "-c", g.config_path, "GET", "http://gw.test/x", "-H", "X-API-Key: k-acme")
        assert r.returncode == 0, r.stderr
        assert "k-acme" not in r.stdout
        return r.stdout
    before = explain()
    assert redis.keys() == [] and "limited" in before and "acme" in before
    assert remaining(g) == 9
    names = redis.keys()
    assert len(names) == 1 and names[0] in before
    explain()
    assert remaining(g) == 8


def test_watch_takes_every_kind_of_replacement_once(gateway, upstream, folder):
    """In place, mv over, symlink swap, delete and create anew, an editor's rename dance."""
    def text(n):
        return """
server: {listen: "127.0.0.1:0", workers: 1, watch: true}
admin: {listen: "127.0.0.1:0"}
log: {access: "off"}
upstreams: {up: {targets: [{url: "%s"}]}}
routes: [{name: all, match: {path: /*}, auth: none, upstream: up, response_headers: {set: {X-Version: "%d"}}}]
""" % (upstream.url, n)
    g = gateway(text(0))
    path = g.config_path

    def write(name, n):
        with open(name, "w", encoding="utf-8") as f:
            f.write(text(n))

    def in_place(n):
        write(path, n)

    def moved_over(n):
        write(path + ".new", n)
        os.rename(path + ".new", path)

    def symlink_swap(n):
        write(os.path.join(folder, "v%d" % n), n)
        link = os.path.join(folder, "link")
        os.symlink(os.path.join(folder, "v%d" % n), link)
        os.rename(link, path)

    def deleted_and_created(n):
        os.unlink(path)
        until("the missing file is told", lambda: len(g.events("config not reloaded: the running one stays")) > failed)
        write(path, n)

    def editor(n):
        os.rename(path, path + "~")
        write(path, n)
    failed = 0
    for n, replace in enumerate([in_place, moved_over, symlink_swap, symlink_swap, deleted_and_created, editor], 1):
        failed = len(g.events("config not reloaded: the running one stays"))
        replace(n)
        until("version %d" % n, lambda: g.get("/x").header("X-Version") == str(n))
        until("reload %d is told" % n, lambda: len(g.events("config reloaded")) >= n)
        assert len(g.events("config reloaded")) == n
    good = g.get("/x").header("X-Version")
    with open(path, "a", encoding="utf-8") as f:
        f.write("nonsense: 1\n")
    until("the bad file is told", lambda: len(g.events("config not reloaded: the running one stays")) > failed)
    assert g.get("/x").header("X-Version") == good


# --- more that a reload changes ------------------------------------------------------------------------


def test_the_admin_listener_moves(gateway, upstream, folder):
    g = gateway(config(upstream))
    old = g.admin_port
    path = os.path.join(folder, "admin.sock")
    assert g.reload(config(upstream, say="two").replace('admin: {listen: "127.0.0.1:0"}',
                                                        'admin: {listen: ["127.0.0.1:0", "unix:%s"]}' % path))
    says(g, "two")
    addresses = [e["address"] for e in g.events("admin listening")]
    assert "unix:" + path in addresses
    g.admin_port = int([a for a in addresses if a.startswith("127.")][-1].rsplit(":", 1)[1])
    assert g.admin("/healthz")[0] == 200
    with Connection("", 0, unix=path) as c:
        assert c.request("GET", "/healthz").text == "ok\n"
    assert os.stat(path).st_mode & 0o777 == 0o660
    # An address that cannot be had: the listener stays, and so does all else of the new config.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        assert g.reload(config(upstream, say="three").replace('admin: {listen: "127.0.0.1:0"}',
                                                              'admin: {listen: "127.0.0.1:%d"}' % taken.getsockname()[1]))
        says(g, "three")
        assert g.events("the admin listener stays as it was")
        assert g.admin("/healthz")[0] == 200
    assert old > 0


def test_log_level_and_format_of_a_reload(gateway, upstream):
    g = gateway(config(upstream))
    g.write_config(config(upstream, say="two").replace("log: {", "log: {format: text, "))
    g.signal(signal.SIGHUP)
    until("a line of text", lambda: re.search(r"^\S+ info config reloaded hash=", g.log(), re.M))
    says(g, "two")
    lines = g.log().count("\n")
    g.write_config(config(upstream, say="three").replace("log: {", "log: {level: error, "))
    g.signal(signal.SIGHUP)
    says(g, "three")
    assert g.stop() == 0
    assert g.log().count("\n") == lines       # neither the reload nor the end is an error


def test_a_route_and_its_upstream_go_and_come(gateway, upstream):
    """A request under way keeps the route that it began with."""
    with Upstream() as other:
        g = gateway(config(upstream))
        stream = Stream(g, upstream)
        without = config(upstream, say="two").replace("  - {name: all, match: {path: /*}, upstream: up}\n", "")
        assert g.reload(without)
        says(g, "two")
        assert g.get("/y").status == 404
        assert g.reload(config(other, say="three"))
        says(g, "three")
        assert g.get("/y").status == 200 and other.count("/y") == 1 and upstream.count("/y") == 0
        stream.push("still the old one")
        stream.end()
        g.access_count(1, url__path="/stream", slotgate__result="allowed")
