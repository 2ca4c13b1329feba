"""slotgate explain and usage as properties: what they foretell for random requests is what becomes of them, and they write nothing."""
import collections
import json
import random
import re
import subprocess

import pytest

from harness.gateway import LIBRARY_1, PROGRAM
from harness.redis import Client
from harness.wait import until
from test_model import ADDRESSES, CALLERS, CODES, COSTS, World, seeds, units_of

MORE = """  - {name: post, match: {path: /post, methods: [POST]}, auth: required, classes: [c0], upstream: up}
identity: {failures: {limit: 4, window: 366d}}
"""


def foretold(g, method, path, headers):
    args = [PROGRAM, "explain", "-c", g.config_path, "--json", "--peer", "127.0.0.1", method, "http://gw.test" + path]
    for name, value in headers:
        args += ["-H", "%s: %s" % (name, value)]
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "" and done.returncode in (0, 1), (done.returncode, done.stderr)
    told = json.loads(done.stdout)
    assert (told["answer"]["action"] == "refuse") == (done.returncode == 1)
    return told


class Asked:
    """A random request: most of them good, some without a route, with another method, or with a bad key."""

    def __init__(self, rng, world, i):
        number, cost = rng.randrange(len(world.classes)), rng.choice(COSTS)
        tenant, key = rng.choice(CALLERS)
        self.tenant, self.limits, self.cost = tenant, world.classes[number], cost
        self.path = "/%s/%d/%d" % (rng.choice("ru"), number, cost)
        if cost and rng.random() < 0.3:             # reserved, and it costs that
            self.path = "/s/%d/%d?%d" % (number, cost, cost)
        self.method = "GET"
        self.headers = [("X-Forwarded-For", rng.choice(ADDRESSES))] + ([("X-API-Key", "k-" + key)] if key else [])
        odd = i % 30
        if odd == 10:
            self.path += "/nowhere"
        elif odd == 20:
            self.path = "/post"
        elif odd in (12, 29):
            self.headers = self.headers[:1] + [("X-API-Key", "k-nobody")]

    def send(self, g):
        return g.get(self.path, self.headers, method=self.method)

    def __repr__(self):
        return "%s %s %s" % (self.method, self.path, self.headers)


def changes(client):
    """Of all keys, expiries included, since the start."""
    return int(client("INFO", "persistence").split("rdb_changes_since_last_save:")[1].split("\r")[0])


def no_slot_is_held(client):
    return all(client("ZCARD", k) == 0 for k in client("KEYS", "rl:cc:*"))


def check_request(asked, told, answer):
    """What was foretold, and what became of it."""
    said = told["answer"]
    assert answer.status == (200 if said["action"] == "forward" else said["status"])
    limits = {l["name"]: l for l in told["limits"]}
    left = {name: int(n) for name, n in re.findall(r'"([^"]+)";r=(\d+)', answer.header("RateLimit") or "")}
    if answer.status not in (200, 429) or "identity.failures" in limits:
        return
    models = {l.name: l.of(asked.tenant) for l in asked.limits}
    assert set(limits) == set(models)
    assert set(left) == {name for name, l in models.items() if not l["dry_run"]}
    for name, remaining in left.items():
        taken = units_of(models[name], asked.cost) if answer.status == 200 else 0
        assert remaining == limits[name]["remaining"] - taken, name


def check_usage(g, world):
    """What `usage` says is left of each limit of a tenant is what explain says for its keys."""
    done = subprocess.run([PROGRAM, "usage", "-c", g.config_path, "--json", "acme"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    used = {(u["name"], u.get("key")): u["remaining"] for u in json.loads(done.stdout)["limits"] if "remaining" in u}
    for number in range(len(world.classes)):
        for key in ("one", "two"):
            told = foretold(g, "GET", "/r/%d/0" % number, [("X-Forwarded-For", ADDRESSES[0]), ("X-API-Key", "k-" + key)])
            for l in told["limits"]:
                if l["per"] == "key" or (l["per"] == "tenant" and key == "one"):
                    assert used.pop((l["name"], key if l["per"] == "key" else None)) == l["remaining"], l["name"]
    assert used == {}


def test_explain_foretells_what_becomes_of_a_request(gateway, upstream, redis):
    total = collections.Counter()
    for seed in seeds():
        rng, client = random.Random(seed), Client(redis.path)
        client("FLUSHALL")
        store = '{type: redis, url: "unix://%s", timeout: 20s, deny_cache: false, on_failure: closed}' % redis.path
        world = World(rng, upstream, store, True, sorted(CODES))
        for l in sum(world.classes, []):
            l.per = "tenant" if l.per == "all" else l.per
        g = gateway(world.config() + MORE)
        seen = collections.Counter()
        for i in range(150):
            asked = Asked(rng, world, i)
            before = changes(client)
            told = foretold(g, asked.method, asked.path, asked.headers)
            assert changes(client) == before, "explain wrote"
            keys = set(client("KEYS", "*"))
            answer = asked.send(g)
            try:
                check_request(asked, told, answer)
                named = {l.get("key") for l in told["limits"]}
                assert set(client("KEYS", "*")) - keys <= named, "another key than explain names"
            except AssertionError as e:
                raise AssertionError("seed %d, request %d: %r: %s, told %s" % (seed, i, asked, e, told)) from e
            until("slots are given back", lambda: no_slot_is_held(client))
            seen[answer.status] += 1
        assert seen[200] > 20 and seen[429] > 20, seen
        total.update(seen)
        before = changes(client)
        check_usage(g, world)
        assert changes(client) == before, "usage wrote"
        client.close()
        assert g.stop() == 0
    assert all(total[status] for status in (200, 401, 404, 405, 429)), total


HEADS = """
server: {{listen: "127.0.0.1:0", workers: 1, max_header_size: 2KiB, max_body_size: 1KiB}}
admin: {{listen: "127.0.0.1:0"}}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes:
  - {{name: here, match: {{path: /here/*}}, auth: none, upstream: up}}
  - {{name: large, match: {{path: /large}}, auth: none, upstream: up, max_body_size: 4KiB}}
"""
BARE = len("GET / HTTP/1.1\r\nHost: gw.test\r\n\r\n")
LONG = len("X-Long: \r\n")


@pytest.mark.parametrize("target,fields,status,reason", [
    ("/nowhere", (), 404, "no_route"),
    ("/" + "n" * (2048 - BARE), (), 404, "no_route"),
    ("/" + "n" * (2049 - BARE), (), 431, "header_too_large"),
    ("/" + "n" * 2048, (), 414, "target_too_long"),
    ("/here/a", ("X-Long: " + "n" * (2048 - BARE - LONG - 6),), 200, None),
    ("/here/a", ("X-Long: " + "n" * (2049 - BARE - LONG - 6),), 431, "header_too_large"),
    ("/nowhere", ("Content-Length: 1025",), 404, "no_route"),
    ("/here/a", ("Content-Length: 1025",), 413, "body_too_large"),
    ("/large", ("Content-Length: 4097",), 413, "body_too_large"),
    ("/here/a", ("Content-Length: 5", "Transfer-Encoding: chunked"), 400, "bad_framing"),
    ("/nowhere", ("Transfer-Encoding: gzip",), 501, "bad_coding"),
    ("/nowhere", ("Expect: miracles",), 417, "bad_expect"),
    ("/nowhere", ("Host: gw.test",), 400, "bad_host")])
def test_explain_foretells_what_becomes_of_a_head(gateway, upstream, target, fields, status, reason):
    g = gateway(HEADS.format(upstream=upstream.url))
    args = [PROGRAM, "explain", "-c", g.config_path, "--json", "GET", target]
    for field in ("Host: gw.test",) + fields:
        args += ["-H", field]
    said = json.loads(subprocess.run(args, capture_output=True, text=True, timeout=60, check=False).stdout)["answer"]
    with g.connect() as c:
        c.send("GET %s HTTP/1.1\r\n%s\r\n\r\n" % (target, "\r\n".join(("Host: gw.test",) + fields)))
        if fields and fields[-1].startswith("Content-Length: "):    # a small body is taken before the answer
            c.send("x" * int(fields[-1].split()[1]))
        assert c.answer().status == (400 if LIBRARY_1 and reason == "bad_coding" else status)       # the library's own answer
    assert (said["action"], said.get("status"), said.get("reason")) == (("forward", None, None) if status == 200 else
                                                                       ("refuse", status, reason))
