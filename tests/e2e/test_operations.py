"""What docs/operations.md says of running the program: bounds of connections, a stuck reader of the log, the command line."""
import os
import signal
import socket
import stat
import subprocess

from harness import client
from harness.gateway import PROGRAM
from harness.wait import until

HELLO = """
server: {listen: "127.0.0.1:0", workers: 2, %s}
admin: {listen: "127.0.0.1:0"}
log: {access: %s}
routes:
  - {name: hello, match: {path: /*}, auth: none, respond: {status: 200, body: "hello"}}
"""


def refused(gateway):
    return gateway.metric("slotgate_refused_requests_total", reason="connection_limit")


def test_bound_of_connections_of_one_address(gateway):
    g = gateway(HELLO % ("max_connections_per_ip: 2", '"@ACCESS@"'))
    first, second = g.connect(), g.connect()
    assert first.request("GET", "/").status == second.request("GET", "/").status == 200
    with g.connect() as third:
        assert third.answer("GET").status == 503
    assert refused(g) == 1
    first.close()
    until("room for another one", lambda: g.get("/").status == 200)
    second.close()
    assert {line["http.response.status_code"] for line in g.access()} == {200}


def test_bound_of_all_connections(gateway):
    g = gateway(HELLO % ("max_connections: 1", '"@ACCESS@"'))
    with g.connect() as only:
        assert only.request("GET", "/").status == 200
        with g.connect() as other:
            assert other.answer("GET").status == 503
        assert only.request("GET", "/").status == 200


def test_unix_socket_of_the_public_listener(gateway, folder):
    path = os.path.join(folder, "public.sock")
    config = (HELLO % ("workers: 2", "off")).replace('"127.0.0.1:0", workers: 2', '"unix:%s"' % path, 1)
    g = gateway(config)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    with client.Connection(None, None, unix=path) as c:
        assert c.request("GET", "/").status == 200
    g.kill()
    assert os.path.exists(path)
    again = gateway(config)
    with client.Connection(None, None, unix=path) as c:
        assert c.request("GET", "/").status == 200
    assert again.stop() == 0
    assert not os.path.exists(path)


def start_with_stuck_reader(g):
    """Its standard output is a pipe that nobody reads."""
    read, write = os.pipe()
    with open(g.log_path, "ab") as log:
        g.process = subprocess.Popen([PROGRAM, "-c", g.config_path], stdout=write, stderr=log, stdin=subprocess.DEVNULL)
    os.close(write)
    until("serving", lambda: g.events("serving"))
    g.port = g.events("listening")[-1]["port"]
    return read


def fill(g):
    """Lines of 1.5 KB and more, until the log's backlog is full."""
    request = b"GET /" + b"x" * 1000 + b" HTTP/1.1\r\nHost: a\r\nUser-Agent: " + b"u" * 256 + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", g.port)) as s:
        s.settimeout(20)
        for _ in range(120):
            s.sendall(request * 100)
            answers = b""
            while answers.count(b"HTTP/1.1 200") < 100 or not answers.endswith(b"hello"):
                answers += s.recv(65536)
            if g.events("access-log lines dropped: what reads them is too slow"):
                return True
    return False


def test_stuck_reader_of_the_access_log(gateway):
    g = gateway(HELLO % ("idle_timeout: 60s", "stdout"), wait=False)
    g.stop()
    read = start_with_stuck_reader(g)
    try:
        fill(g)
        lost = until("dropped lines are told",
                     lambda: g.events("access-log lines dropped: what reads them is too slow"))
        assert lost[0]["lines"] > 0
        assert g.stop(signal.SIGTERM) == 0
        assert g.events("the access log's last lines are lost: nothing reads them")
    finally:
        os.close(read)


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=20, check=False)


def test_unknown_subcommand_is_named():
    done = run("chekc", "-c", "x")
    assert done.returncode == 64
    assert done.stderr.startswith('slotgate: there is no subcommand "chekc"\nusage: ')


def test_exit_codes(gateway, folder):
    g = gateway(HELLO % ("max_connections: 10", "off"))
    taken = os.path.join(folder, "taken.yaml")
    with open(taken, "w", encoding="utf-8") as f:
        f.write(HELLO.replace("127.0.0.1:0", "127.0.0.1:%d" % g.port, 1) % ("max_connections: 10", "off"))
    second = run("-c", taken)
    assert second.returncode == 1
    assert "cannot listen on 127.0.0.1:%d: Address already in use" % g.port in second.stderr
    assert run("-c", os.path.join(folder, "missing.yaml")).returncode == 78
    assert run("-x").returncode == 64
    assert g.stop(signal.SIGQUIT) == 0
