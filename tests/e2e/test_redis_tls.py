"""rediss://: only a server whose certificate is right is asked. Where the program is built without it, nothing goes out in clear."""
import base64
import hashlib
import json
import os
import socket
import subprocess
import threading

from harness.certificates import Authority
from harness.gateway import PROGRAM, digest
from harness.redis import Redis
from harness.sockets import free_port
from harness.wait import until

KEY = {"X-API-Key": "k-acme"}

CONFIG = """
server: {{listen: "127.0.0.1:0"}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
store: {{type: redis, url: "{url}", timeout: 2s, deny_cache: false, {store}}}
classes: {{c: [{{name: l, algorithm: fixed_window, limit: 1000, window: 366d, per: tenant}}]}}
tenants: {{acme: {{keys: [{{id: one, sha256: {acme}}}]}}}}
routes: [{{name: all, match: {{path: /*}}, classes: [c], respond: {{status: 200}}}}]
"""

BUILT = b"(TLS: yes)" in subprocess.run([PROGRAM, "-V"], stdout=subprocess.PIPE, check=True).stdout


def config(url, store=""):
    return CONFIG.format(url=url, store=store, acme=digest("k-acme"))


def ask(g, n=1):
    with g.connect() as c:
        return [c.request("GET", "/", KEY).status for _ in range(n)]


def source(g, name):
    return g.metric("slotgate_limit_decisions_total", source=name)


def decides_in_redis(g):
    before = source(g, "store")
    assert ask(g) == [200]
    return source(g, "store") > before


def last_error(g):
    return json.loads(g.admin("/status")[2])["store"]["last_error"] or ""


def secure_redis(folder, host="localhost", authority=None, name="redis", port=None, options=()):
    """A Redis that speaks TLS on .tls_port, and the authority that signed its certificate."""
    authority = authority or Authority(folder)
    r = Redis(folder, name=name)
    r.certificate, r.key = authority.issue(name, host)
    r.tls_port, r.port = free_port(), r.port if port is None else port
    r.options = ["--tls-port", str(r.tls_port), "--tls-cert-file", r.certificate, "--tls-key-file", r.key,
                 "--tls-ca-cert-file", authority.certificate, "--tls-auth-clients", "no"] + list(options)
    return r.start(), authority


def trusting(authority):
    return dict(os.environ, SSL_CERT_FILE=authority.certificate)


def run(folder, text, *args, env=None):
    path = os.path.join(folder, "cli.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("@ACCESS@", os.path.join(folder, "access")))
    return subprocess.run([PROGRAM, args[0], "-c", path] + list(args[1:]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                          check=False)


def never_decides(g, redis, word):
    until("/status says why", lambda: word in last_error(g))
    assert ask(g, 5) == [200] * 5
    assert source(g, "store") == 0 and source(g, "local") == 5
    assert redis.evalsha_calls() == 0 and redis.keys() == []


if not BUILT:
    def test_without_tls_nothing_is_sent(gateway, folder, redis):
        done = run(folder, config("rediss://127.0.0.1:%d" % redis.port), "check")
        assert done.returncode == 0 and b"built without Redis TLS" in done.stdout, done.stdout
        g = gateway(config("rediss://127.0.0.1:%d" % redis.port))
        never_decides(g, redis, "built without Redis TLS")
        assert run(folder, config("rediss://127.0.0.1:%d" % redis.port), "doctor").returncode == 1


if BUILT:
    def test_by_name_and_by_address(gateway, folder):
        redis, authority = secure_redis(folder)
        try:
            assert b"Redis TLS" not in run(folder, config("rediss://localhost"), "check").stdout
            for host in ("localhost", "127.0.0.1"):
                g = gateway(config("rediss://%s:%d/3" % (host, redis.tls_port)), env=trusting(authority))
                until("connected", lambda: g.metric("slotgate_store_up") == 1)
                assert ask(g, 50) == [200] * 50
                assert source(g, "store") == 50
                g.stop()
        finally:
            redis.stop()

    def test_password_and_subcommands(gateway, folder):
        redis, authority = secure_redis(folder)
        try:
            redis("CONFIG", "SET", "requirepass", "correct-horse")
            with open(os.path.join(folder, "password"), "w", encoding="ascii") as f:
                f.write("correct-horse\n")
            text = config("rediss://localhost:%d" % redis.tls_port, "password_file: password")
            g = gateway(text, env=trusting(authority))
            until("Redis decides", lambda: decides_in_redis(g))
            assert g.admin("/tenants/acme/reset", method="POST")[0] == 200
            env = trusting(authority)
            doctor = run(folder, text, "doctor", "--json", env=env)
            assert b'"connection"' not in doctor.stdout or b"finding" not in doctor.stdout.split(b'"connection"')[1][:80], doctor.stdout
            assert b"localhost:%d" % redis.tls_port in doctor.stdout
            assert run(folder, text, "usage", "acme", env=env).returncode == 0
            assert run(folder, text, "doctor").returncode == 1      # not a certificate that this machine trusts
        finally:
            redis.stop()

    def test_a_cluster(gateway, folder):
        """Nodes that are named, and nodes that are heard of."""
        authority = Authority(folder)
        options = ["--cluster-enabled", "yes", "--tls-cluster", "yes"]
        nodes = [secure_redis(folder, authority=authority, name="n%d" % i, port="0", options=options + [
            "--cluster-config-file", "n%d.conf" % i, "--cluster-port", str(free_port())])[0] for i in range(2)]
        try:
            nodes[0]("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
            nodes[1]("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
            nodes[0]("CLUSTER", "MEET", "127.0.0.1", nodes[1].tls_port, nodes[1].options[-1])
            until("the cluster is formed", lambda: all("cluster_state:ok" in n("CLUSTER", "INFO") for n in nodes))
            slot = nodes[0]("CLUSTER", "KEYSLOT", base64.urlsafe_b64encode(hashlib.sha256(b"tenant:acme").digest()).decode()[:22])
            there, seed = (nodes[0], nodes[1]) if slot < 8192 else (nodes[1], nodes[0])
            g = gateway(config("rediss://unused", 'mode: cluster, nodes: ["127.0.0.1:%d"]' % seed.tls_port), env=trusting(authority))
            until("the node that has the slot decides", lambda: decides_in_redis(g))
            assert len(there.keys()) == 1 and seed.keys() == []
        finally:
            for n in nodes:
                n.stop()

    def test_sentinels(gateway, folder):
        redis, authority = secure_redis(folder)
        conf, port = os.path.join(folder, "sentinel.conf"), free_port()
        with open(conf, "w", encoding="ascii") as f:
            f.write("port 0\ntls-port %d\nbind 127.0.0.1\ndir %s\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\n"
                    "tls-auth-clients no\ntls-replication yes\nsentinel monitor mymaster 127.0.0.1 %d 1\n" %
                    (port, folder, redis.certificate, redis.key, authority.certificate, redis.tls_port))
        sentinel = subprocess.Popen(["redis-server", conf, "--sentinel"], stdout=subprocess.DEVNULL)
        try:
            g = gateway(config("rediss://unused", 'mode: sentinel, master: mymaster, nodes: ["localhost:%d"]' % port),
                        env=trusting(authority))
            until("the master decides", lambda: decides_in_redis(g))
            assert len(redis.keys()) == 1
        finally:
            sentinel.kill()
            sentinel.wait()
            redis.stop()

    def test_unknown_authority(gateway, folder):
        redis, _ = secure_redis(folder)
        try:
            never_decides(gateway(config("rediss://localhost:%d" % redis.tls_port)), redis, "certificate not accepted")
        finally:
            redis.stop()

    def test_certificate_of_another_name(gateway, folder):
        redis, authority = secure_redis(folder, "other.test")
        try:
            g = gateway(config("rediss://localhost:%d" % redis.tls_port), env=trusting(authority))
            never_decides(g, redis, "certificate not accepted: ")
            assert "mismatch" in last_error(g)
        finally:
            redis.stop()

    def test_a_server_that_speaks_no_tls(gateway, redis):
        g = gateway(config("rediss://127.0.0.1:%d" % redis.port))
        never_decides(g, redis, "no answer to a connection attempt")       # it waits for the end of what it takes for a line

    def test_a_server_that_answers_in_clear(gateway):
        with socket.create_server(("127.0.0.1", 0)) as plain:
            def answer():
                try:
                    while True:
                        peer, _ = plain.accept()
                        peer.sendall(b"-ERR in clear\r\n")
                        peer.close()
                except OSError:
                    pass
            threading.Thread(target=answer, daemon=True).start()
            g = gateway(config("rediss://127.0.0.1:%d" % plain.getsockname()[1]))
            assert ask(g, 3) == [200] * 3
            until("/status says why", lambda: "TLS: " in last_error(g))
            assert g.metric("slotgate_store_errors_total", kind="connect") > 0
            plain.shutdown(socket.SHUT_RDWR)

    def test_a_server_that_says_nothing(gateway):
        """The handshake has the time of a connection attempt, and the gateway sleeps meanwhile."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            g = gateway(config("rediss://127.0.0.1:%d" % silent.getsockname()[1]))
            assert ask(g, 3) == [200] * 3
            until("attempts are given up", lambda: g.metric("slotgate_store_errors_total", kind="timeout") >= 2)
            assert "no answer to a connection attempt" in last_error(g)
            with open("/proc/%d/stat" % g.process.pid, encoding="ascii") as f:
                ticks = sum(int(n) for n in f.read().rsplit(")", 1)[1].split()[11:13])
            assert ticks < os.sysconf("SC_CLK_TCK"), "a busy loop"

    def test_restarts_under_load(gateway, folder):
        redis, authority = secure_redis(folder)
        try:
            g = gateway(config("rediss://localhost:%d" % redis.tls_port), env=trusting(authority))
            until("Redis decides", lambda: decides_in_redis(g))
            fds = g.fds()
            for _ in range(3):
                redis.stop()
                assert ask(g, 20) == [200] * 20
                redis.start()
                until("Redis decides again", lambda: decides_in_redis(g))
            until("as many descriptors as before", lambda: g.fds() <= fds)
        finally:
            redis.stop()
