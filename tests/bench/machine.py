"""Processes, processor time, memory: what the operating system knows about a measurement."""
import collections
import contextlib
import glob
import os
import re
import resource
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GATEWAY_CORE, OTHER_CORE = "0", "1"
WARM_UP_S = 1

Load = collections.namedtuple("Load", "requests seconds p50_us p99_us non_2xx socket_errors")
Result = collections.namedtuple(
    "Result", "rate p50_us p99_us gateway_us redis_us upstream_us rss_bytes non_2xx socket_errors others_percent")
Gateway = collections.namedtuple("Gateway", "port pids")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(what, condition, deadline_s=20):
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("run.sh: never happened: " + what)
        time.sleep(0.01)


def accepts(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def family(pid):
    """The process and its children: a master and its workers."""
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return [pid] + [int(child) for child in f.read().split()]


def cpu_us(pids):
    """On-CPU time of all their threads. schedstat counts nanoseconds; user and system time would count ticks."""
    total_ns = 0
    for pid in pids:
        for path in glob.glob("/proc/%d/task/*/schedstat" % pid):
            with open(path, encoding="ascii") as f:
                total_ns += int(f.read().split()[0])
    return total_ns / 1000


def rss_bytes(pids):
    pages = 0
    for pid in pids:
        with open("/proc/%d/statm" % pid, encoding="ascii") as f:
            pages += int(f.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def machine_busy_us():
    """What all processes together have used."""
    with open("/proc/stat", encoding="ascii") as f:
        ticks = [int(v) for v in f.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) * 1e6 / os.sysconf("SC_CLK_TCK")


def can_raise_priority():
    """All that is measured gets the same priority, above the rest of the machine's work."""
    if subprocess.run(["nice", "-n", "-15", "true"], stderr=subprocess.PIPE, check=False).stderr:
        return False
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as f:
        f.write("-15")      # where sessions share the processor first, and their processes only then
    return True


def filled(name, values):
    """A file of conf/ with its @NAMES@ replaced."""
    with open(os.path.join(HERE, "conf", name), encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"@include (\S+)@\n", lambda m: filled(m.group(1), values), text)
    return re.sub(r"@([A-Z]+)@", lambda m: str(values[m.group(1)]), text)


class Run:
    """One call of run.sh: the folder, an upstream, a Redis, and how to load and measure a gateway."""

    def __init__(self, folder, stack, seconds, connections):
        self.folder, self.seconds, self.connections = folder, seconds, connections
        self.prefix = ["nice", "-n", "-15"] if can_raise_priority() else []
        self.pin = os.cpu_count() > 1
        self.upstream_port, self.redis_port = free_port(), free_port()
        values = {"DIR": folder, "NAME": "upstream", "PORT": self.upstream_port, "ACCESS": "off", "BODY": "x" * 200}
        self.upstream = self.start(stack, ["nginx", "-c", self.write("upstream.conf", filled("upstream.conf", values))],
                                   self.upstream_port, OTHER_CORE)
        values.update(NAME="redis", PORT=self.redis_port)
        self.redis = self.start(stack, ["redis-server", self.write("redis.conf", filled("redis.conf", values))],
                                self.redis_port, OTHER_CORE)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def on_core(self, core, command):
        return self.prefix + (["taskset", "-c", core] if self.pin else []) + command

    def start(self, stack, command, port, core, ready=None):
        """Runs it until the stack is left; returns its id when it serves."""
        with open(os.path.join(self.folder, "output"), "ab") as output:
            begin = output.tell()
            process = subprocess.Popen(self.on_core(core, command), stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        until("%s serves" % command[0], lambda: process.poll() is not None or (ready() if ready else accepts(port)))
        if process.poll() is not None:
            with open(os.path.join(self.folder, "output"), encoding="utf-8", errors="replace") as f:
                f.seek(begin)
                raise SystemExit("run.sh: %s does not start:\n%s" % (" ".join(command), f.read()))
        return process.pid

    def empty_redis(self):
        subprocess.run(["redis-cli", "-p", str(self.redis_port), "flushall"], stdout=subprocess.DEVNULL, check=True)

    def load(self, port, what, seconds):
        command = self.on_core(OTHER_CORE, [
            "wrk", "-t1", "-c%d" % self.connections, "-d%ds" % seconds, "-s", os.path.join(HERE, "load.lua"),
            "http://127.0.0.1:%d/" % port, "--"] + what)
        text = subprocess.run(command, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
        found = re.search(r"^BENCH (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)$", text, re.M)
        if not found or found.group(1) == "0":
            raise SystemExit("run.sh: wrk got no answers:\n" + text)
        n = [int(v) for v in found.groups()]
        return Load(n[0], n[1] / 1e6, *n[2:])

    def measure(self, gateway, what):
        self.load(gateway.port, what, WARM_UP_S)
        groups = (gateway.pids, family(self.redis), family(self.upstream))
        wrk_before = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy, before = machine_busy_us(), [cpu_us(g) for g in groups]
        load = self.load(gateway.port, what, self.seconds)
        used = [cpu_us(g) - b for g, b in zip(groups, before)]
        busy = machine_busy_us() - busy
        wrk = resource.getrusage(resource.RUSAGE_CHILDREN)
        wrk_us = (wrk.ru_utime + wrk.ru_stime - wrk_before.ru_utime - wrk_before.ru_stime) * 1e6
        per_request = [u / load.requests for u in used]
        return Result(load.requests / load.seconds, load.p50_us, load.p99_us, *per_request, rss_bytes(gateway.pids),
                      load.non_2xx, load.socket_errors, 100 * max(0, busy - wrk_us - sum(used)) / (load.seconds * 1e6))
