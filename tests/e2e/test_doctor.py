"""slotgate doctor: each finding on a Redis that was made to have it, and none on one that is well."""
import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import threading
import time

import pytest

from harness.gateway import PROGRAM, digest
from harness.redis import Client, Redis, ReplyError
from harness.redis_proxy import RedisProxy
from harness.sockets import free_port
from harness.wait import until

CONFIG = """
server: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
log: {access: "@ACCESS@"}
store: {type: redis, %s, timeout: 2s}
identity: {%s}
classes:
  c:
    - {name: day, algorithm: fixed_window, limit: 1000, window: 1d, per: tenant}
    - {name: burst, algorithm: token_bucket, capacity: 100, refill: 1/s, per: key}
    - {name: k, algorithm: sliding_log, limit: 100, window: 1h, per: ip}
tenants: {acme: {keys: [{id: one, sha256: """ + digest("k-acme") + """}]}}
routes: [{name: all, match: {path: /*}, auth: required, classes: [c], respond: {status: 200}}]
"""
TAG = "A" * 22


def config(redis, store=None, identity="secret_file: pepper"):
    return CONFIG % (store or 'url: "unix://%s"' % redis.path, identity)


def write(folder, text):
    path = os.path.join(folder, "doctor.yaml")
    with open(os.path.join(folder, "pepper"), "w", encoding="utf-8") as f:
        f.write("a secret that is long enough for a test\n")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("@ACCESS@", "off"))
    return path


def run(path, *more):
    return subprocess.run([PROGRAM, "doctor", "-c", path, *more], capture_output=True, text=True, timeout=120, check=False)


class Report:
    def __init__(self, path):
        done = run(path, "--json")
        assert done.stderr == "" and done.returncode in (0, 1), (done.returncode, done.stderr)
        self.status, report = done.returncode, json.loads(done.stdout)
        self.checks, self.limits = report["checks"], {e["limit"]: e for e in report["limits"]}
        self.found = [(c["check"], c["text"]) for c in self.checks if c["result"] == "finding"]
        assert report["findings"] == len(self.found) and self.status == (1 if self.found else 0)

    def text(self, check):
        return [c["text"] for c in self.checks if c["check"] == check][-1]

    def only(self, check):
        """The text of the one finding that there is."""
        assert [c for c, _ in self.found] == [check], self.found
        return self.found[0][1]


@pytest.fixture
def doctor(folder, redis):
    path = write(folder, config(redis))
    return lambda: Report(path)


def test_a_redis_that_is_well(gateway, folder, redis):
    text = config(redis)
    path = write(folder, text)
    g = gateway(text)
    for _ in range(5):
        assert g.get("/x", {"X-API-Key": "k-acme"}).status == 200
    before = redis.keys(), redis("INFO", "commandstats").count("cmdstat_set")
    r = Report(path)
    assert r.status == 0 and r.found == []
    assert {c["check"] for c in r.checks} == {"hashes", "role", "eviction", "evicted", "memory", "fragmentation", "persistence",
                                              "clock", "ttl"}
    assert r.text("ttl") == "each of 3 keys has an expiry"
    for name, algorithm in (("c.day", "fixed_window"), ("c.burst", "token_bucket"), ("c.k", "sliding_log")):
        e = r.limits[name]
        assert (e["algorithm"], e["in_config"], e["keys"], e["without_ttl"], e["sampled"]) == (algorithm, True, 1, 0, 1)
        key = [k for k in before[0] if ":%s" % name in k][0]
        assert e["bytes"] == redis("MEMORY", "USAGE", key)
    assert r.limits["identity.failures"]["keys"] == 0
    assert (redis.keys(), redis("INFO", "commandstats").count("cmdstat_set")) == before
    table = run(path)
    assert table.returncode == 0 and table.stdout.startswith("CHECK ") and table.stdout.endswith("\n0 findings\n")
    assert "c.burst " in table.stdout and table.stderr == ""


def test_eviction(doctor, redis):
    redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    r = doctor()
    assert r.status == 0 and "no maxmemory" in r.text("eviction")       # nothing is evicted yet
    redis("CONFIG", "SET", "maxmemory", "100mb")
    assert "allkeys-lru may evict" in doctor().only("eviction")
    redis("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    assert "volatile-ttl may evict" in doctor().only("eviction")
    redis("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert doctor().status == 0


def used_memory(redis):
    return int(redis("INFO", "memory").split("\nused_memory:")[1].split("\r")[0])


def test_evicted_keys(doctor, redis):
    redis("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    redis("CONFIG", "SET", "maxmemory", used_memory(redis) + 300000)
    for i in range(40):
        redis("SET", "x%d" % i, "y" * 20000, "PX", 600000)
    redis("CONFIG", "SET", "maxmemory-policy", "noeviction")
    redis("CONFIG", "SET", "maxmemory", 0)
    assert "keys were evicted" in doctor().only("evicted")


def test_memory_that_is_nearly_full(doctor, redis):
    redis("SET", "filler", "x" * 20000000)
    redis("CONFIG", "SET", "maxmemory", int(used_memory(redis) * 1.05))
    assert "of maxmemory" in doctor().only("memory")
    redis("CONFIG", "SET", "maxmemory", used_memory(redis) * 2)
    assert doctor().status == 0


def test_fragmentation(folder):
    r = Redis(folder, options=["--enable-debug-command", "yes", "--activedefrag", "no"]).start()
    try:
        path = write(folder, config(r))
        r("DEBUG", "POPULATE", 150000, "filler", 500)
        assert Report(path).status == 0
        # Nine of ten go: what is left holds their pages.
        r("EVAL", "for i = 0, 149999 do if i % 10 > 0 then redis.call('DEL', 'filler:' .. i) end end", 0)
        assert "resident for" in Report(path).only("fragmentation")
    finally:
        r.stop()


def test_persistence_that_fails(folder):
    place = os.path.join(folder, "gone")
    os.mkdir(place)
    r = Redis(folder, options=["--dir", place]).start()
    try:
        path = write(folder, config(r))
        report = Report(path)
        assert report.status == 0 and "windows of up to 24.0 h" in report.text("persistence")
        shutil.rmtree(place)
        r("BGSAVE")
        until("the snapshot failed", lambda: "rdb_last_bgsave_status:err" in r("INFO", "persistence"))
        assert "snapshot failed" in Report(path).only("persistence")
    finally:
        r.stop()


@pytest.mark.parametrize("what", ["write", "rewrite"])
def test_an_append_only_file_that_fails(folder, what):
    place = os.path.join(folder, "aof")
    os.mkdir(place)
    r = Redis(folder, options=["--dir", place, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"]).start()
    try:
        path = write(folder, config(r))
        assert Report(path).text("persistence") == "append-only file"
        if what == "write":
            resource.prlimit(r.process.pid, resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            r("SET", "x", "y" * 20000)
            until("the write failed", lambda: "aof_last_write_status:err" in r("INFO", "persistence"))
        else:
            shutil.rmtree(place)
            with contextlib.suppress(ReplyError):
                r("BGREWRITEAOF")
            until("the rewrite failed", lambda: "aof_last_bgrewrite_status:err" in r("INFO", "persistence"))
        assert "append-only file" in Report(path).only("persistence")
    finally:
        r.stop()


def test_persistence_that_is_there(folder):
    r = Redis(folder, options=["--appendonly", "yes"]).start()
    try:
        path = write(folder, config(r))
        assert Report(path).text("persistence") == "append-only file"
        r("CONFIG", "SET", "appendonly", "no")
        r("CONFIG", "SET", "save", "3600 1")
        assert "snapshots only" in Report(path).text("persistence")
    finally:
        r.stop()


def test_keys_without_expiry(doctor, redis):
    redis("SET", "rl:fw:v1:{%s}:c.day:86400:20000" % TAG, 5)
    redis("HSET", "rl:tb:v1:{%s}:k.%s:c.burst" % (TAG, TAG), "tokens", 5)
    redis("SET", "rl:fw:v1:{%s}:c.day:86400:20001" % TAG, 5, "PX", 600000)
    redis("SET", "other:program", "its own affair")
    r = doctor()
    text = r.only("ttl")
    assert text.startswith("2 of 3 keys never expire, for instance rl:")
    assert (r.limits["c.day"]["keys"], r.limits["c.day"]["without_ttl"]) == (2, 1)
    assert r.limits["c.burst"]["without_ttl"] == 1


def test_names_of_keys(doctor, redis):
    """Subs, windows, versions and prefixes are told apart; what the config does not have is a note."""
    sub = "0" * 22
    for key in ("rl:sl:v1:{%s}:i.%s:c.k:3600" % (TAG, sub),         # per ip
                "rl:sl:v1:{%s}:c.k:3600" % TAG,                     # per tenant
                "rl:sl:v1:{%s}:k.%s:3600" % (TAG, sub),             # a limit that is called like a sub
                "rl:tb:v1:{%s}:k.%s:c.gone" % (TAG, sub),           # a limit that was renamed
                "rl:gc:v1:{%s}:k.%s:c.burst" % (TAG, sub),          # another algorithm
                "rl:tb:v0:{%s}:k.%s:c.burst" % (TAG, sub),          # another version
                "rl:nonsense", "rlx:fw:v1:{%s}:c.day:1:1" % TAG):
        redis("SET", key, 1, "PX", 600000)
    r = doctor()
    assert r.status == 0
    assert r.limits["c.k"]["keys"] == 2 and r.limits["c.k"]["in_config"]
    assert not r.limits["k." + sub]["in_config"] and r.limits["k." + sub]["keys"] == 1
    assert not r.limits["c.gone"]["in_config"]
    assert r.limits["c.burst of version v0"]["keys"] == 1
    assert r.limits["other"]["keys"] == 1
    assert "5 keys are of limits that this config does not have" in r.text("leftovers")


def test_many_keys_are_counted_and_sampled(doctor, redis):
    redis("EVAL", "for i = 1, 12000 do redis.call('SET', string.format('rl:fw:v1:{%022d}:c.day:86400:20000', i), 70000, 'PX', "
          "600000) end", 0)
    r = doctor()
    e = r.limits["c.day"]
    assert e["keys"] == 12000 and 500 <= e["sampled"] < 3000
    assert e["bytes"] == 12000 * redis("MEMORY", "USAGE", "rl:fw:v1:{%022d}:c.day:86400:20000" % 1)


def test_addresses_that_can_be_found(folder, redis):
    plain = write(folder, config(redis, identity="failures: {limit: 20, window: 1m}"))
    assert "SHA-256 of client addresses" in Report(plain).only("hashes")
    # Nothing is counted by address: nothing to find.
    none = config(redis, identity="failures: {limit: unlimited}").replace("per: ip", "per: key")
    assert Report(write(folder, none)).status == 0


class Skewed:
    """Between doctor and Redis; answers TIME by a clock of its own."""

    def __init__(self, path, redis, off_s):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(8)
        self.redis, self.off_s = redis, off_s
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(sock,), daemon=True).start()

    def _pass(self, sock):
        back = socket.socket(socket.AF_UNIX)
        back.connect(self.redis.path)
        threading.Thread(target=self._back, args=(back, sock), daemon=True).start()
        while True:
            data = sock.recv(65536)
            if not data:
                back.close()
                return
            if data == b"*1\r\n$4\r\nTIME\r\n":
                now = ("%.6f" % (time.time() + self.off_s)).split(".")
                sock.sendall(b"*2\r\n$%d\r\n%s\r\n$6\r\n%s\r\n" % (len(now[0]), now[0].encode(), now[1].encode()))
            else:
                back.sendall(data)

    @staticmethod
    def _back(back, sock):
        while True:
            try:
                data = back.recv(65536)
                sock.sendall(data)
            except OSError:
                return
            if not data:
                return


@pytest.mark.parametrize("off_s", [90, -90])
def test_clock(folder, redis, off_s):
    path = os.path.join(folder, "skewed.sock")
    skewed = Skewed(path, redis, off_s)
    r = Report(write(folder, config(redis, 'url: "unix://%s"' % path)))
    text = r.only("clock")
    assert text.startswith(("+" if off_s > 0 else "-")) and abs(abs(float(text.split()[0])) - 90) < 10
    skewed.listener.close()


def test_replica(folder, redis):
    replica = Redis(folder, name="replica", options=["--replicaof", "127.0.0.1 %d" % redis.port]).start()
    try:
        assert "READONLY" in Report(write(folder, config(replica))).only("role")
    finally:
        replica.stop()


def test_no_redis(folder, redis):
    path = write(folder, config(redis, 'url: "redis://127.0.0.1:%d"' % free_port()))
    assert "refused" in Report(path).only("connection")
    path = write(folder, config(redis, 'url: "unix://%s/nobody.sock"' % folder))
    assert "No such file" in Report(path).only("connection")


def test_a_redis_that_hangs(folder, redis):
    redis.freeze()
    try:
        assert "no answer in time" in Report(write(folder, config(redis))).only("connection")
    finally:
        redis.thaw()


def test_a_redis_that_is_loading(folder):
    slow = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"]
    r = Redis(folder, options=["--enable-debug-command", "yes"]).start()
    try:
        r("DEBUG", "POPULATE", 50000, "filler", 100)
        r("SAVE")
        r.stop()
        r.options += slow
        r.start()
        assert "loading:1" in r("INFO", "persistence")
        assert "still loads its data" in Report(write(folder, config(r))).only("role")
    finally:
        r.stop()


def test_a_redis_that_goes_away(folder, redis):
    """In the middle of its keys."""
    proxy = RedisProxy(redis)
    proxy.cut_at = ("SCAN",)
    try:
        text = Report(write(folder, config(redis, 'url: "%s"' % proxy.url))).only("connection")
        assert text.startswith("lost: ") and proxy.executed["INFO"] > 0
    finally:
        proxy.close()


def test_password(folder, redis):
    """A wrong one is told, never shown."""
    redis("ACL", "SETUSER", "gw", "on", ">the-right-one", "~*", "+@all")
    for password, status in (("the-wrong-one", 1), ("the-right-one", 0)):
        with open(os.path.join(folder, "redis.pass"), "w", encoding="utf-8") as f:
            f.write(password)
        path = write(folder, config(redis, 'url: "unix://%s", username: gw, password_file: redis.pass' % redis.path))
        done = run(path)
        assert done.returncode == status and password not in done.stdout + done.stderr
        assert ("AUTH refused: WRONGPASS" in done.stdout) == (status == 1)


def test_what_a_user_may_not_ask_is_a_note(folder, redis):
    redis("SET", "rl:fw:v1:{%s}:c.day:86400:20000" % TAG, 5)
    redis("ACL", "SETUSER", "gw", "on", ">pass", "~rl:*", "-@all", "+ping", "+time")
    with open(os.path.join(folder, "redis.pass"), "w", encoding="utf-8") as f:
        f.write("pass")
    r = Report(write(folder, config(redis, 'url: "unix://%s", username: gw, password_file: redis.pass' % redis.path)))
    assert r.status == 0 and "NOPERM" in r.text("info") and "not known" in r.text("ttl")
    redis("ACL", "SETUSER", "gw", "+info", "+scan")
    r = Report(os.path.join(folder, "doctor.yaml"))
    assert r.status == 0 and r.text("role").startswith("master") and "not known" in r.text("ttl")
    redis("ACL", "SETUSER", "gw", "+pttl", "+memory|usage")
    assert Report(os.path.join(folder, "doctor.yaml")).only("ttl").startswith("1 of 1 keys")


def test_sentinel(folder, redis):
    conf = os.path.join(folder, "sentinel.conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write("sentinel monitor mymaster 127.0.0.1 %d 1\n" % redis.port)
    sentinel = Redis(folder, name="sentinel")
    sentinel.process = subprocess.Popen(["redis-server", conf, "--sentinel", "--port", str(sentinel.port), "--bind", "127.0.0.1",
                                         "--unixsocket", sentinel.path, "--dir", folder],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until("the sentinel answers", sentinel.answers)
        nodes = 'mode: sentinel, master: %s, nodes: ["127.0.0.1:' + str(free_port()) + '", "127.0.0.1:' + str(sentinel.port) + '"]'
        r = Report(write(folder, config(redis, nodes % "mymaster")))
        assert r.status == 0 and {c["server"] for c in r.checks} == {"", "127.0.0.1:%d" % redis.port}
        assert 'no master for "other"' in Report(write(folder, config(redis, nodes % "other"))).only("connection")
    finally:
        sentinel.stop()


# --- cluster -------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(folder):
    """Two masters with half of the slots each."""
    nodes = [Redis(folder, name="node%d" % i, options=["--cluster-enabled", "yes", "--cluster-config-file", "node%d.conf" % i,
                                                       "--cluster-require-full-coverage", "no", "--cluster-port", str(free_port())])
             .start() for i in range(2)]
    nodes[0]("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
    nodes[1]("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
    for node in nodes:
        node("CLUSTER", "SET-CONFIG-EPOCH", nodes.index(node) + 1)
    port = int(nodes[1]("INFO", "server").split("tcp_port:")[1].split("\r")[0])
    bus = int(nodes[1].options[-1])
    nodes[0]("CLUSTER", "MEET", "127.0.0.1", port, bus)
    until("both know all slots", lambda: all(len(n("CLUSTER", "SLOTS")) == 2 for n in nodes))
    until("both are well", lambda: all("cluster_state:ok" in n("CLUSTER", "INFO") for n in nodes))
    yield nodes
    for node in nodes:
        node.stop()


def fill(node, count, fmt="rl:fw:v1:{%022d}:c.day:86400:20000"):
    """Keys of many tenants; those of the other server are left out."""
    client, made, i = Client(node.path), 0, 0
    first = min(r[0] for r in client("CLUSTER", "SLOTS") if r[2][1] == node.port)
    while made < count:
        i += 1
        key = fmt % i
        if (client("CLUSTER", "KEYSLOT", key) >= 8192) == (first >= 8192):
            client("SET", key, 1, "PX", 600000)
            made += 1
    client.close()


def test_cluster(folder, cluster):
    nodes = 'mode: cluster, nodes: ["127.0.0.1:%d"]' % cluster[0].port
    path = write(folder, config(cluster[0], nodes))
    for node in cluster:
        fill(node, 600)
    r = Report(path)
    assert r.status == 0, r.found
    spread = [c["text"] for c in r.checks if c["check"] == "spread"]
    assert spread == ["8192 slots, 600 keys"] * 2
    assert r.text("slots").startswith("1200 keys in ") and r.limits["c.day"]["keys"] == 1200
    assert {c["server"] for c in r.checks if c["check"] == "clock"} == {"127.0.0.1:%d" % n.port for n in cluster}
    # A tenant that is most of the traffic: its slot is named.
    fill(cluster[0], 300, "rl:fw:v1:{" + tag_of(cluster[0]) + "}:c.day:86400:%d")
    r = Report(path)
    assert r.status == 0 and "holds most: 300, more than a tenth" in r.text("slots")


def tag_of(node):
    """A tag in a slot of this server."""
    for i in range(1000):
        if node("CLUSTER", "KEYSLOT", "{%022d}" % i) < 8192:
            return "%022d" % i
    raise AssertionError


def test_cluster_with_a_crowded_server(folder, cluster):
    """Three of four slots on one server, and nearly all keys on the other."""
    cluster[0]("CLUSTER", "SETSLOT", 0, "NODE", cluster[0]("CLUSTER", "MYID"))
    ids = [n("CLUSTER", "MYID") for n in cluster]
    for slot in range(0, 6144):
        for n in cluster:
            n("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    until("both agree", lambda: all("cluster_state:ok" in n("CLUSTER", "INFO") for n in cluster))
    client, made, i = Client(cluster[0].path), 0, 0
    while made < 1100:
        i += 1
        key = "rl:fw:v1:{%022d}:c.day:86400:1" % i
        if 6144 <= client("CLUSTER", "KEYSLOT", key) < 8192:
            client("SET", key, 1, "PX", 600000)
            made += 1
    r = Report(write(folder, config(cluster[0], 'mode: cluster, nodes: ["127.0.0.1:%d"]' % cluster[1].port)))
    assert "2048 slots, 1100 keys: more than twice its share" in r.only("spread")


def test_cluster_with_slots_that_nobody_serves(folder, cluster):
    for node in cluster:
        node("CLUSTER", "DELSLOTSRANGE", 100, 199)
    r = Report(write(folder, config(cluster[0], 'mode: cluster, nodes: ["127.0.0.1:%d"]' % cluster[0].port)))
    assert r.only("slots") == "100 of 16384 slots have no server"


def test_a_cluster_that_the_config_takes_for_one_server(folder, cluster):
    r = Report(write(folder, config(cluster[0])))
    assert "set store.mode to cluster" in r.only("role")


# --- the command line ----------------------------------------------------------------------------------


def test_usage(folder):
    for args in ([], ["-c"], ["--nonsense", "-c", "x"], ["-c", "x", "more"]):
        done = subprocess.run([PROGRAM, "doctor", *args], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 64 and "usage: slotgate doctor" in done.stderr and done.stdout == ""
    assert run(os.path.join(folder, "missing.yaml")).returncode == 78
    done = run(write(folder, "routes: [{name: r, match: {path: /}, respond: {status: 200}}]\n"))
    assert done.returncode == 1 and "store.type is memory" in done.stderr
