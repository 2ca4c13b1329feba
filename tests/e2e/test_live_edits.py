"""Limits that change while they are in use: every row of the table in docs/limits.md, for every algorithm and both stores."""
import os
import re
import threading

import pytest

from harness.gateway import digest
from harness.wait import until

ROOT = os.environ.get("SG_SRCDIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ALGORITHMS = ["token_bucket", "gcra", "fixed_window", "sliding_window", "sliding_log", "concurrency"]
NUMBER = {"token_bucket": "capacity", "gcra": "burst"}
SPAN = {"token_bucket": "refill", "gcra": "rate", "fixed_window": "window", "sliding_window": "window", "sliding_log": "window",
        "concurrency": "lease"}
REQUEST = object()          # a request of cost 1


def words(algorithm, limit=10, twice=False, name="l", per="key", **more):
    """A limit as the config has it. Nothing comes back during a test."""
    spans = {"refill": ("10/d", "5/d"), "rate": ("10/d", "5/d"), "window": ("100d", "200d"), "lease": ("1h", "2h")}
    found = {"name": name, "algorithm": algorithm, NUMBER.get(algorithm, "limit"): limit, "per": per,
             SPAN[algorithm]: spans[SPAN[algorithm]][twice]}
    found.update(more)
    return "{%s}" % ", ".join("%s: %s" % e for e in found.items())


def other(algorithm):
    return ALGORITHMS[(ALGORITHMS.index(algorithm) + 1) % len(ALGORITHMS)]


# What is done, step by step: other words for the limit, another plan, another route; then what is looked at.
EDITS = {
    "none": [{}],
    "raised to 20": [{"limit": 20}],
    "lowered to 6": [{"limit": 6}],
    "lowered to 3": [{"limit": 3}],
    "lowered to 3, and back": [{"limit": 3}, {}],
    "lowered to 3, a request is denied, and back": [{"limit": 3}, REQUEST, {}],
    "0, a request is denied, and back": [{"limit": 0}, REQUEST, {}],
    "20 by the tenant's plan": [{"plan": 20}],
    "`unlimited` for the tenant, a request, and back": [{"plan": "unlimited"}, REQUEST, {}],
    "half the rate, twice the window or lease": [{"twice": True}],
    "twice the window, and back": [{"twice": True}, {}],
    "lease of 1 s, a request, and a second later": [{"lease": "1s"}, REQUEST],
    "`precision` 5 instead of 10": [{"precision": 5}],
    "`precision` 60 instead of 10": [{"precision": 60}],
    "another algorithm": [{"algorithm": other}],
    "another algorithm, and back": [{"algorithm": other}, {}],
    "renamed": [{"name": "m"}],
    "renamed, and back": [{"name": "m"}, {}],
    "another limit is added": [{"added": True}],
    "removed, a request, and added again": [{"removed": True}, REQUEST, {}],
    "the class is on another route": [{"route": "/elsewhere"}],
    "`per: tenant` instead of `per: key`": [{"per": "tenant"}],
    "`dry_run`, a request, and enforced again": [{"dry_run": "true"}, REQUEST, {}],
}


def table():
    """{edit: {algorithm: remaining, None where there is none}}"""
    with open(os.path.join(ROOT, "docs", "limits.md"), encoding="utf-8") as f:
        part = f.read().split("| edit | ")[1].split("\n\n")[0]
    rows = [[c.strip() for c in line.strip().strip("|").split("|")] for line in ("| edit | " + part).splitlines()]
    assert rows[0][1:] == ALGORITHMS
    return {r[0]: {a: int(c) if c else None for a, c in zip(ALGORITHMS, r[1:])} for r in rows[2:]}


def test_each_row_of_the_table_is_tested():
    assert list(table()) == list(EDITS)


CONFIG = """
server: {{listen: "127.0.0.1:0"}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: off}}
store: {store}
classes: {{c: [{limits}]}}
plans: {{p: {{{plan}}}}}
tenants:
{tenants}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes:
  - {{name: say, match: {{path: /say}}, auth: none, respond: {{status: 200, body: "{generation}"}}}}
  - {{name: hold, match: {{path: /hold}}, auth: required, classes: [c], upstream: up}}
  - {{name: look, match: {{path: "{route}"}}, auth: required, classes: [c], cost: 0, respond: {{status: 200}}}}
  - {{name: all, match: {{path: /*}}, auth: required, classes: [c], respond: {{status: 200}}}}
"""


class Bench:
    """One gateway; each row of the table has a tenant and a key of its own, so that it begins anew."""

    def __init__(self, gateway, upstream, algorithm, store):
        self.algorithm, self.store, self.upstream, self.generation = algorithm, store, upstream, 0
        self.tenants = "".join("  t%d: {plan: p, keys: [{id: k, sha256: %s}]}\n" % (i, digest("k-%d" % i)) for i in range(len(EDITS)))
        self.gate, self.held = threading.Event(), []
        upstream.on("/hold", self._hold)
        self.edit = {}
        self.g = gateway(self.config())

    def _hold(self, request, peer):
        self.gate.wait(120)
        peer.answer(200)
        return True

    def config(self):
        e = dict(self.edit)
        plan, added, removed, self.route = e.pop("plan", None), e.pop("added", False), e.pop("removed", False), e.pop("route", "/look")
        algorithm = e.pop("algorithm", lambda a: a)(self.algorithm)
        self.name = "c." + e.get("name", "l")
        limits = ["{name: wide, algorithm: fixed_window, limit: 1000000, window: 366d, per: key}"]
        limits += ["{name: more, algorithm: gcra, burst: 10, rate: 1/d, per: key}"] * added
        limits += [words(algorithm, **e)] * (not removed)
        return CONFIG.format(store=self.store, limits=", ".join(limits), tenants=self.tenants, upstream=self.upstream.url,
                             plan="%s: {%s: %s}" % (self.name, "limit" if plan == "unlimited" else NUMBER.get(algorithm, "limit"), plan) if plan else "",
                             generation=self.generation, route=self.route)

    def change(self, edit):
        self.generation, self.edit = self.generation + 1, edit
        assert self.g.reload(self.config()), self.g.log()[-2000:]
        until("the new config is in use", lambda: self.g.get("/say").text == str(self.generation))

    def request(self, key, path="/x"):
        return self.g.get(path, {"X-API-Key": key})

    def use_four(self, key):
        if self.algorithm != "concurrency":
            assert [self.request(key).status for _ in range(4)] == [200] * 4
            return
        before = self.upstream.count("/hold")
        for _ in range(4):
            self.held.append(self.g.connect(timeout=120).send("GET /hold HTTP/1.1\r\nHost: h\r\nX-API-Key: %s\r\n\r\n" % key))
        until("four are open", lambda: self.upstream.count("/hold") == before + 4)

    def remaining(self, key):
        found = dict(re.findall(r'"([^"]+)";r=(\d+)', self.request(key, self.route).header("RateLimit")))
        assert ("c.more" in found) == ("added" in self.edit) and found.get("c.more", "10") == "10"
        return int(found[self.name])

    def row(self, number, edit, expected):
        """None, or what is wrong."""
        key = "k-%d" % number
        self.change({})
        self.use_four(key)
        for step in EDITS[edit]:
            if step is REQUEST:
                self.request(key)
            else:
                self.change(step)
        got = [self.remaining(key)]
        if got[0] != expected and self.algorithm == "concurrency":      # the slot of the one request is given back a moment later
            until("%d remain after: %s" % (expected, edit), lambda: self.remaining(key) == expected)
        elif got[0] != expected:
            return edit, got[0], expected
        return None

    def close(self):
        self.gate.set()
        for c in self.held:
            assert c.answer().status == 200         # whatever became of its limit
            c.close()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_what_remains(gateway, upstream, request, kind, algorithm):
    store = "{type: memory}"
    if kind == "redis":
        store = '{type: redis, url: "unix://%s", timeout: 10s}' % request.getfixturevalue("redis").path
    bench = Bench(gateway, upstream, algorithm, store)
    wrong = [bench.row(i, edit, row[algorithm]) for i, (edit, row) in enumerate(table().items()) if row[algorithm] is not None]
    bench.close()
    assert [w for w in wrong if w] == [], "edit, remaining, expected"
