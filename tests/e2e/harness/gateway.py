"""One slotgate process."""
import hashlib
import json
import os
import re
import shutil
import signal as signals
import subprocess
import urllib.error
import urllib.request

from . import client
from .wait import until

PROGRAM = os.environ.get("SLOTGATE", "slotgate")
# libmicrohttpd 1.0 refuses more by itself, and closes less.
LIBRARY_1 = shutil.which(PROGRAM) and b"\nlibmicrohttpd: 1." in subprocess.run([PROGRAM, "-V"], stdout=subprocess.PIPE, check=True).stdout

# Series of these begin with their first request.
LABELLED = {"slotgate_http_requests_total": {"route", "method", "code"}, "slotgate_tenant_quota_used_ratio": {"tenant", "limit"}}


def digest(key):
    return hashlib.sha256(key.encode()).hexdigest()


class Gateway:
    """Starts with a config text in which ports are 0; `port` and `admin_port` are what the kernel gave."""

    def __init__(self, folder, config, env=None, name="slotgate", wrap=(), pass_fds=()):
        """`wrap`: a command that runs the program it is given as its further arguments."""
        self.folder = folder
        self.config_path = os.path.join(folder, name + ".yaml")
        self.log_path = os.path.join(folder, name + ".log")
        self.access_path = os.path.join(folder, name + ".access")
        self.env, self.wrap, self.pass_fds = env, list(wrap), pass_fds
        self.process = None
        self.write_config(config)

    def write_config(self, text):
        text = text.replace("@ACCESS@", self.access_path).replace("@DIR@", self.folder)
        with open(self.config_path, "w", encoding="utf-8") as f:
            f.write(text)

    def start(self, wait=True):
        before = len(self.events("serving"))        # of a start before this one
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.wrap + [PROGRAM, "-c", self.config_path], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=self.env, pass_fds=self.pass_fds)
        if wait:
            until("serving: " + self.log(), lambda: len(self.events("serving")) > before or
                  self.process.poll() is not None)
            assert self.process.poll() is None, self.log()
            self.admin_port = self.events("admin listening")[-1]["port"] if "port" in self.events("admin listening")[-1] \
                else int(self.events("admin listening")[-1]["address"].rsplit(":", 1)[1])
            self.port = self.events("listening")[-1].get("port")
        return self

    def log(self):
        if not os.path.exists(self.log_path):
            return ""
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def events(self, message):
        """Log lines with this message, as dicts."""
        found = []
        for line in self.log().splitlines():
            if line.startswith("{"):
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if entry.get("message") == message:
                    found.append(entry)
        return found

    def access(self):
        """Access-log entries so far."""
        if not os.path.exists(self.access_path):
            return []
        with open(self.access_path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]

    def access_count(self, n, **want):
        """Wait for exactly n entries (with these values), and return them."""
        def matching():
            return [e for e in self.access() if all(e.get(k.replace("__", ".")) == v for k, v in want.items())]
        until("%d access-log lines with %s" % (n, want), lambda: len(matching()) >= n)
        entries = matching()
        assert len(entries) == n, entries
        return entries

    def signal(self, number):
        self.process.send_signal(number)

    def reload(self, config=None):
        """Returns True when the new config is in use, False when it was refused."""
        good, bad = len(self.events("config reloaded")), len(self.events("config not reloaded: the running one stays"))
        if config is not None:
            self.write_config(config)
        self.signal(signals.SIGHUP)
        until("reload", lambda: len(self.events("config reloaded")) > good or
              len(self.events("config not reloaded: the running one stays")) > bad)
        return len(self.events("config reloaded")) > good

    def stop(self, number=signals.SIGTERM, deadline_s=20):
        """Ends it, and returns its exit status."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.signal(number)
            try:
                self.process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("the gateway did not stop\n" + self.log()) from None
        status, self.process = self.process.returncode, None
        return status

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    # --- asking it ---

    def connect(self, **options):
        return client.Connection("127.0.0.1", self.port, **options)

    def get(self, path="/", headers=(), method="GET", body=None, **options):
        """One request on a connection of its own."""
        with self.connect(**options) as c:
            return c.request(method, path, headers, body)

    def admin(self, path, method="GET", headers=None):
        """(status, headers, text) from the admin listener."""
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.admin_port, path), method=method, headers=headers or {})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=10) as r:
                return r.status, r.headers, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.headers, e.read().decode()

    def metrics(self):
        """{'name{labels}': value}"""
        _, _, text = self.admin("/metrics")
        samples = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def metric(self, name, **labels):
        """Sum of the samples of `name` that have at least these labels. A name or a label that does not exist is an error: what is
        not there is always 0."""
        found = []
        for key, value in self.metrics().items():
            m = re.match(r"([a-zA-Z0-9_:]+)(?:\{(.*)\})?$", key)
            if m.group(1) == name:
                found.append((dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', m.group(2) or "")), value))
        assert found or name in LABELLED, "no metric " + name
        known = set().union(*(have for have, _ in found)) if found else LABELLED[name]
        assert set(labels) <= known, "%s has the labels %s" % (name, known)
        return float(sum(value for have, value in found if all(have.get(k) == v for k, v in labels.items())))

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def rss_bytes(self):
        with open("/proc/%d/statm" % self.process.pid, encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
