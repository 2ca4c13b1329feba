"""A Redis Cluster of three masters and three replicas, made by redis-cli."""
import subprocess

from .redis import Redis, ReplyError
from .sockets import free_port
from .wait import until


class Cluster:
    def __init__(self, folder, node_timeout_ms=1500):
        self.nodes = [Redis(folder, name="n%d" % i, options=[
            "--cluster-enabled", "yes", "--cluster-config-file", "n%d.conf" % i, "--cluster-port", str(free_port()),
            "--cluster-node-timeout", str(node_timeout_ms), "--cluster-require-full-coverage", "no",
            "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]) for i in range(6)]

    def start(self):
        for n in self.nodes:
            n.start()
        places = ["127.0.0.1:%d" % n.port for n in self.nodes]
        done = subprocess.run(["redis-cli", "--cluster", "create"] + places + ["--cluster-replicas", "1", "--cluster-yes"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        assert done.returncode == 0, done.stdout.decode()
        until("the cluster is formed", lambda: all(self._is_formed(n) for n in self.nodes))
        return self

    @staticmethod
    def _is_formed(node):
        info = node("CLUSTER", "INFO")
        return "cluster_state:ok" in info and "cluster_slots_assigned:16384" in info and "cluster_known_nodes:6" in info and \
            (Cluster.is_master(node) or "master_link_status:up" in node("INFO", "replication"))

    def stop(self):
        for n in self.nodes:
            n.stop()

    @staticmethod
    def is_master(node):
        return node("ROLE")[0] == "master"

    def running(self):
        return [n for n in self.nodes if n.process]

    def masters(self):
        return [n for n in self.running() if self.is_master(n)]

    def seed(self):
        return "127.0.0.1:%d" % self.nodes[0].port

    @staticmethod
    def id(node):
        return node("CLUSTER", "MYID")

    def owner(self, slot):
        """The running master that says that it has the slot."""
        for n in self.masters():
            for line in n("CLUSTER", "NODES").splitlines():
                words = line.split()
                if "myself" not in words[2]:
                    continue
                for part in (w for w in words[8:] if not w.startswith("[")):
                    first, _, last = part.partition("-")
                    if int(first) <= slot <= int(last or first):
                        return n
        return None

    def begin_move(self, slot, to):
        """The slot is on its way: its owner answers ASK for keys that are not there any more."""
        source = self.owner(slot)
        to("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(source))
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(to))
        return source

    def move_keys(self, slot, source, to):
        while True:
            names = source("CLUSTER", "GETKEYSINSLOT", slot, 100)
            if not names:
                return
            source("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *names)

    def end_move(self, slot, to):
        for n in [to] + [m for m in self.masters() if m is not to]:
            n("CLUSTER", "SETSLOT", slot, "NODE", self.id(to))

    def value(self, key):
        """GET at whichever master has it."""
        for n in self.masters():
            try:
                return n("GET", key)
            except ReplyError:
                continue
        return None
