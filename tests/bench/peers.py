"""The gateways that are measured, and their configs."""
import contextlib
import hashlib
import json
import os

import machine

KEYS = 1000
# Requests per second and capacity of three buckets; nothing is ever denied by these.
PLENTY = ((1000000, 1000000), (100000, 10000000), (10000, 100000000))
# The first bucket holds one token for an hour: after it everything is denied.
NOTHING = ((1 / 3600, 1),) + PLENTY[1:]


def digest(key):
    return hashlib.sha256(key.encode()).hexdigest()


# --- slotgate ---

def refill(per_second):
    return "%d/s" % per_second if per_second >= 1 else "%d/h" % round(per_second * 3600)


def limits(buckets, per):
    names = ("second", "minute", "day")
    return "".join("    - {name: %s, algorithm: token_bucket, capacity: %d, refill: %s, per: %s}\n"
                   % (name, capacity, refill(rate), per) for name, (rate, capacity) in zip(names, buckets))


def tenants(count):
    return "".join("  tenant-%d: {keys: [{id: k, sha256: %s}]}\n" % (i, digest("key-%06d" % i))
                   for i in range(1, count + 1))


HEAD = """server: {listen: "127.0.0.1:0", workers: 1}
admin: {listen: "127.0.0.1:0"}
log: {format: json, access: %s}
"""


def config(store="redis", access="off", buckets=PLENTY, deny_cache=True, whole=""):
    where = "type: memory" if store == "memory" else 'type: redis, url: "redis://127.0.0.1:@REDIS@", timeout: 1s'
    return (HEAD % access + "store: {%s, deny_cache: %s, on_failure: closed}\n" % (where, str(deny_cache).lower()) +
            "classes:\n  api:\n" + limits(buckets, "tenant") + whole +
            "tenants:\n" + tenants(KEYS) +
            'upstreams:\n  up: {targets: [{url: "http://127.0.0.1:@UPSTREAM@"}]}\n'
            "routes:\n  - {name: all, match: {path: /*}, classes: [api], upstream: up}\n")


def whole_config(more):
    """With a budget for everybody besides the three buckets of each tenant."""
    return config(whole="    - {name: whole, algorithm: fixed_window, limit: 1000000000, window: 366d, per: all%s}\n" % more)


def routes_config(count):
    """Routes of their own first segment each; the request goes to the seventh."""
    return (HEAD % "off" + 'upstreams:\n  up: {targets: [{url: "http://127.0.0.1:@UPSTREAM@"}]}\nroutes:\n' +
            "".join("  - {name: r%d, match: {path: /route-%d/items/:id}, auth: none, upstream: up}\n" % (i, i) for i in range(count)))


def memory_config():
    """Callers without a key, told apart by the address that a trusted proxy names."""
    return ((HEAD % "off").replace("workers: 1", "workers: 1, trusted_proxies: [127.0.0.1]") +
            "store: {type: memory}\nclasses:\n  api:\n" + limits(PLENTY, "ip") +
            "routes:\n  - {name: all, match: {path: /*}, auth: optional, classes: [api], respond: {status: 200, body: hello}}\n"
            "  - {name: idle, match: {path: /idle}, auth: none, respond: {status: 200, body: hello}}\n")


class Slotgate:
    def __init__(self, name, program, text, kind="slotgate"):
        self.name, self.program, self.text, self.kind = name, program, text, kind

    @contextlib.contextmanager
    def started(self, run):
        text = self.text.replace("@REDIS@", str(run.redis_port)).replace("@UPSTREAM@", str(run.upstream_port))
        text = text.replace("@ACCESS@", os.path.join(run.folder, "slotgate.access"))
        path, output = run.write("slotgate.yaml", text), os.path.join(run.folder, "output")
        run.empty_redis()
        from_byte = os.path.getsize(output)

        def port():
            with open(output, encoding="utf-8", errors="replace") as f:
                f.seek(from_byte)
                for line in f:
                    entry = json.loads(line) if line.startswith("{") and line.endswith("}\n") else {}
                    if entry.get("message") == "listening":
                        return entry["port"]
            return None
        with contextlib.ExitStack() as stack:
            pid = run.start(stack, [self.program, "-c", path], None, machine.GATEWAY_CORE, ready=port)
            yield machine.Gateway(port(), [pid])
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(run.folder, "slotgate.access"))


# --- the others ---

class Other:
    def __init__(self, name, program, conf, access="off", buckets=PLENTY):
        self.name = self.kind = name
        self.program, self.conf, self.access, self.buckets = program, conf, access, buckets

    @contextlib.contextmanager
    def started(self, run):
        with open(os.path.join(machine.HERE, "three_buckets.lua"), "rb") as f:
            sha = hashlib.sha1(f.read()).hexdigest()
        port, access = machine.free_port(), os.path.join(run.folder, "peer.access")
        values = {"DIR": run.folder, "NAME": "peer", "HERE": machine.HERE, "PORT": port, "SHA": sha,
                  "UPSTREAM": run.upstream_port, "REDIS": run.redis_port,
                  "ACCESS": "off" if self.access == "off" else access + " combined buffer=64k flush=1s",
                  "BUCKETS": ", ".join("%.10f, %d" % (rate / 1000, capacity) for rate, capacity in self.buckets)}
        path = run.write(self.conf, machine.filled(self.conf, values))
        run.empty_redis()
        with contextlib.ExitStack() as stack:
            pid = run.start(stack, [self.program, "-f" if self.program == "haproxy" else "-c", path], port,
                            machine.GATEWAY_CORE)
            if self.program == "nginx":     # its master listens before there is a worker
                machine.until("nginx has a worker", lambda: len(machine.family(pid)) > 1)
            yield machine.Gateway(port, machine.family(pid))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(access)


def label(build, text):
    return "%s: %s" % (build, text) if build else text


def comparison(builds):
    variants = (("slotgate", config()),
                ("slotgate, access log", config(access="@ACCESS@")),
                ("slotgate, memory store", config(store="memory")),
                ("slotgate, denied", config(buckets=NOTHING)),
                ("slotgate, denied by Redis", config(buckets=NOTHING, deny_cache=False)))
    ours = [Slotgate(label(build, kind), program, text, kind)
            for kind, text in variants for build, program in builds]
    return ours + [
        Other("nginx+Lua+Redis", "nginx", "nginx-lua.conf"),
        Other("nginx+Lua+Redis, access log", "nginx", "nginx-lua.conf", access="on"),
        Other("nginx+Lua+Redis, denied", "nginx", "nginx-lua.conf", buckets=NOTHING),
        Other("nginx, no limits", "nginx", "nginx-plain.conf"),
        Other("HAProxy, no limits", "haproxy", "haproxy-plain.cfg"),
    ]
