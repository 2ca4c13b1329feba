"""Whole gateways against the reference model (tests/model): random mixes of limits, four gateways, one Redis.

The first test gives the script a clock of its own (harness/clock.py), so windows end, buckets refill and clocks go back in the middle of
it, and every number is compared exactly, however busy the machine is. The others run by the real clock, with windows that cannot end.

SG_MODEL_SECONDS: how long each test goes on (10); SG_MODEL_SEED: where the seeds begin (1). A failure names its seed."""
import json
import math
import os
import random
import re
import sys
import threading
import time
from collections import deque
from fractions import Fraction

import pytest

from harness.client import Malformed
from harness.clock import ClockedRedis, Release, Settlement, WentBack
from harness.gateway import digest
from harness.redis import Client
from harness.wait import until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))

from model import Model, units_of     # noqa: E402

SECONDS = float(os.environ.get("SG_MODEL_SECONDS", "10"))
SEED = int(os.environ.get("SG_MODEL_SEED", "1"))
S = 1000000
DAY = 86400 * S
CODES = {"token_bucket": "tb", "gcra": "gc", "fixed_window": "fw", "sliding_window": "sw", "sliding_log": "sl", "concurrency": "cc"}
TENANTS = {"acme": ("one", "two"), "umbrella": ("only",)}
CALLERS = [("acme", "one"), ("acme", "two"), ("umbrella", "only"), (None, None)]
ADDRESSES = ["10.1.0.%d" % i for i in range(1, 4)]


# --- limits: as the model has them, and as the config does ------------------------------------------------

def text_of(us):
    return "%dms" % (us // 1000)


def rate(rng, slow):
    """(units, unit of time, µs) of a rate as it is written."""
    word, us = rng.choice([("d", DAY)] if slow else [("s", S), ("m", 60 * S), ("h", 3600 * S)])
    return rng.choice([1] if slow else [1, 2, 3, 7, 10, 50]), word, us


class Limit:
    """One limit of one class. `slow`: nothing of it comes back during a test; so some must be `large`, or soon all is used up."""

    def __init__(self, rng, name, slow, algorithms, large=False):
        self.name, self.slow, self.algorithms, self.large = name, slow, algorithms, large
        self.begin_anew(rng)
        self.change(rng)

    def begin_anew(self, rng):
        """What stands in the names of its keys: other counters, and the old ones again when it comes back."""
        self.algorithm = rng.choice(self.algorithms)
        self.per = rng.choice(["tenant", "key", "ip", "tenant", "key", "ip", "all"])
        slow = self.slow
        self.window_us = rng.choice([3600 * S] if slow else [250000, S, 7 * S, 60 * S, 3600 * S])
        if self.algorithm == "fixed_window":
            self.window_us = 366 * DAY if slow else max(S, self.window_us)

    def change(self, rng):
        """Other numbers: what is used stays used."""
        self.limit = rng.choice([0, 1, 2, 3, 5, 10, 17, 40, 100]) if rng.random() < 0.9 else rng.randint(10, 400)
        self.rate = rate(rng, self.slow)
        self.precision = rng.choice([1, 2, 3, 7, 10, 10, 60])
        self.lease_us = rng.choice([5 * S, 60 * S])
        self.dry_run = rng.random() < 0.2
        self.gold = rng.choice([None, None, 0, 2, 25, 1000])
        if self.large:
            self.limit, self.gold = 300 + self.limit, self.gold and 300 + self.gold

    def of(self, tenant, share=Fraction(1)):
        """As the model has it, for this tenant; of a stand-in, its share."""
        limit = self.gold if tenant == "acme" and self.has_override() else self.limit
        limit = max(1, math.floor(limit * share)) if limit else 0
        l = {"name": self.name, "algorithm": self.algorithm, "limit": limit, "dry_run": self.dry_run}
        if self.algorithm in ("token_bucket", "gcra"):
            count, _, us = self.rate
            count, us = count * share.numerator, us * share.denominator
            common = math.gcd(count, us)
            l.update(rate_count=count // common, rate_us=us // common)
        elif self.algorithm == "concurrency":
            l.update(lease_us=self.lease_us)
        else:
            l.update(window_us=self.window_us, precision=self.precision)
        return l

    def has_override(self):
        return self.gold is not None and self.per != "all"

    def field(self):
        return {"token_bucket": "capacity", "gcra": "burst"}.get(self.algorithm, "limit")

    def yaml(self):
        words = ["name: " + self.name.split(".")[1], "algorithm: " + self.algorithm, "%s: %d" % (self.field(), self.limit),
                 "per: " + self.per]
        if self.algorithm in ("token_bucket", "gcra"):
            words.append("%s: %d/%s" % ("refill" if self.algorithm == "token_bucket" else "rate", *self.rate[:2]))
        elif self.algorithm == "concurrency":
            words.append("lease: " + text_of(self.lease_us))
        else:
            words.append("window: " + text_of(self.window_us))
        if self.algorithm == "sliding_window":
            words.append("precision: %d" % self.precision)
        return "    - {%s}\n" % ", ".join(words + ["dry_run: true"] * self.dry_run)

    def counter(self, who):
        """Whose counter it is: what the caller shares with others decides."""
        tenant, key, ip = who
        owner = tenant or "address " + ip
        if self.per == "all":
            owner = "everybody"
        elif self.per == "key":
            owner = (owner, key or ip)
        elif self.per == "ip":
            owner = (owner, ip)
        windowed = self.algorithm in ("fixed_window", "sliding_window", "sliding_log")
        return self.name, self.algorithm, self.window_us if windowed else 0, owner


CONFIG = """
server: {{listen: "127.0.0.1:0", workers: {workers}, trusted_proxies: ["127.0.0.1"], headers: both}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
store: {store}
classes:
{classes}
plans: {{gold: {{{gold}}}}}
tenants:
  acme: {{plan: gold, keys: [{{id: one, sha256: {one}}}, {{id: two, sha256: {two}}}]}}
  umbrella: {{keys: [{{id: only, sha256: {only}}}]}}
upstreams: {{up: {{targets: [{{url: "{upstream}"}}]}}}}
routes:
  - {{name: say, match: {{path: /say}}, auth: none, respond: {{status: 200, body: "{generation}"}}}}
{routes}
"""
COSTS = [1, 1, 1, 1, 2, 2, 3] + list(range(11))


def say_the_cost(request, peer):
    """An upstream that says what the query does."""
    peer.answer(200, [("X-Cost", request.target.split("?")[1])])
    return True


class World:
    """Classes of 1 to 8 limits, and routes for each class and cost: answered by the gateway (r) or an upstream (u); and with a cost
    that is reserved and then settled (s)."""

    def __init__(self, rng, upstream, store, slow, algorithms, workers=1, classes=8, share=Fraction(1)):
        self.upstream, self.store, self.workers, self.generation, self.share = upstream, store, workers, 0, share
        self.classes = [[Limit(rng, "c%d.l%d" % (c, i), slow, algorithms, slow and c % 2 == 1) for i in range(1 + (c if c < 8 else rng.randrange(8)))]
                        for c in range(classes)]
        for c in range(classes):
            for cost in range(1, 11):
                upstream.on("/s/%d/%d" % (c, cost), say_the_cost)

    def change(self, rng):
        for limits in rng.sample(self.classes, 3):
            for l in limits:
                if rng.random() < 0.1:
                    l.begin_anew(rng)
                if rng.random() < 0.6:
                    l.change(rng)
        self.generation += 1

    def reload(self, gateways):
        for g in gateways:
            assert g.reload(self.config()), g.log()
        for g in gateways:
            until("the new config is in use", lambda g=g: g.get("/say").text == str(self.generation))

    def config(self):
        routes = ""
        for c in range(len(self.classes)):
            for cost in range(11):
                for kind, action in (("r", "respond: {status: 200}"), ("u", "upstream: up")):
                    routes += "  - {name: %s%dx%d, match: {path: /%s/%d/%d}, auth: optional, classes: [c%d], cost: %d, %s}\n" % \
                        (kind, c, cost, kind, c, cost, c, cost, action)
            for cost in range(1, 11):
                routes += "  - {name: s%dx%d, match: {path: /s/%d/%d}, auth: optional, classes: [c%d], upstream: up, " \
                    "cost: {reserve: %d, from: {response_header: X-Cost}}}\n" % (c, cost, c, cost, c, cost)
        limits = [l for c in self.classes for l in c]
        return CONFIG.format(
            workers=self.workers, store=self.store, generation=self.generation, upstream=self.upstream.url, routes=routes,
            classes="".join("  c%d:\n%s" % (i, "".join(l.yaml() for l in c)) for i, c in enumerate(self.classes)),
            gold=", ".join("%s: {%s: %d}" % (l.name, l.field(), l.gold) for l in limits if l.has_override()),
            one=digest("k-one"), two=digest("k-two"), only=digest("k-only"))


class Request:
    """`real`: what it turns out to cost, where that is known only afterwards."""

    def __init__(self, rng, world, kinds="rrruss"):
        self.number, self.cost, self.real = rng.randrange(len(world.classes)), rng.choice(COSTS), None
        tenant, key = rng.choice(CALLERS)
        self.who = (tenant, key, rng.choice(ADDRESSES))
        self.limits, self.share = world.classes[self.number], world.share
        kind = rng.choice(kinds)
        if kind == "s":
            self.cost = max(1, self.cost)
            self.real = rng.choice([0, rng.randrange(self.cost), self.cost, self.cost + 1, self.cost + rng.randrange(60)])
        self.path = "/%s/%d/%d%s" % (kind, self.number, self.cost, "" if self.real is None else "?%d" % self.real)
        self.answer = self.gateway = None

    def send(self, connection):
        headers = [("X-Forwarded-For", self.who[2])] + ([("X-API-Key", "k-" + self.who[1])] if self.who[1] else [])
        self.answer = connection.request("GET", self.path, headers)
        return self.answer

    def ask(self, model, t, lease="x"):
        limits = [l.of(self.who[0], self.share) for l in self.limits]
        allowed, answers = model.ask([l.counter(self.who) for l in self.limits], limits, t, self.cost, lease)
        return limits, allowed, answers

    def done(self, limits, allowed, answers, t, lease):
        """The decision as the model settles it."""
        return {"counters": [l.counter(self.who) for l in self.limits], "limits": limits, "answers": answers, "at_us": t,
                "cost": self.cost, "lease": lease, "allowed": allowed, "request": self}

    def shown(self):
        """The RateLimit field: {name: (remaining, seconds until one more or 0)}"""
        found = re.findall(r'"([^"]+)";r=(\d+)(?:;t=(\d+))?', self.answer.header("RateLimit") or "")
        return {name: (int(r), int(t or 0)) for name, r, t in found}

    def __repr__(self):
        return "%s by %s: %s" % (self.path, self.who, self.answer)


def seconds(ms):
    return -(-ms // 1000)


def took(done):
    """The limits of a decision that a settlement is about: those that counted units."""
    return [l for l, x in zip(done["limits"], done["answers"])
            if done["allowed"] and x["allowed"] == 1 and l["limit"] > 0 and l["algorithm"] != "concurrency"]


def is_to_settle(done):
    return done["request"].real not in (None, done["cost"]) and took(done) != []


def retry_after(limits, answers):
    """Of the limits that deny: the longest, and none when one will never allow it."""
    denying = [a for l, a in zip(limits, answers) if not l["dry_run"] and a["allowed"] != 1]
    return None if any(a["allowed"] == 2 for a in denying) else max(1, seconds(max(a["retry_ms"] for a in denying)))


def violated(limits, answers):
    return [l["name"] for l, a in zip(limits, answers) if not l["dry_run"] and a["allowed"] != 1]


def check_legacy(a, enforced):
    """X-RateLimit fields tell of the tightest limit: the smallest share left, then the longest to wait for."""
    if not enforced:
        assert a.all("X-RateLimit-Limit") == []
        return
    l, x = min(enforced, key=lambda e: (Fraction(e[1]["remaining"], e[0]["limit"] or 1), -e[1]["reset_ms"]))
    assert [int(a.header("X-RateLimit-" + f)) for f in ("Limit", "Remaining", "Reset")] == \
        [l["limit"], x["remaining"], seconds(x["reset_ms"])]


def check_answer(request, limits, allowed, answers):
    """Status and fields, when the numbers are known exactly."""
    a = request.answer
    assert a.status == (200 if allowed else 429)
    want = {l["name"]: (x["remaining"], seconds(x["more_ms"])) for l, x in zip(limits, answers) if not l["dry_run"]}
    assert request.shown() == want
    check_legacy(a, [(l, x) for l, x in zip(limits, answers) if not l["dry_run"]])
    if not allowed:
        after = a.header("Retry-After")
        assert (after and int(after)) == retry_after(limits, answers)
        assert all('"%s"' % name in a.text.split("violated-policies")[1] for name in violated(limits, answers))


def seeds():
    """One after the other until the time is over; at least one."""
    end, seed = time.monotonic() + SECONDS, SEED
    while True:
        yield seed
        seed += 1
        if time.monotonic() >= end:
            return


# --- the script by a clock of the test's ------------------------------------------------------------------

class Replay:
    """Goes through the proxy's log, decision by decision, with the model."""

    def __init__(self):
        self.model, self.names, self.owners, self.sure = Model(), {}, {}, set()
        self.lost, self.found, self.history = [], {}, {}
        self.went_back, self.touched = False, {}
        self.open, self.requests, self.finals = {}, {}, {}
        self.decisions = self.denied = self.settled = 0

    def doubt(self):
        """After a reload or a clock that went back a denial may put right what is stored, once for each counter."""
        self.sure = set()

    @staticmethod
    def names_of(request, decision):
        """(counter, its key without a fixed window's number)"""
        return [(l.counter(request.who), key.rsplit(":", 1)[0] if l.algorithm == "fixed_window" else key)
                for l, key in zip(request.limits, decision.keys)]

    def keys_are_told_apart(self, request, decision):
        """Equal counters have equal keys, and different ones different keys."""
        for (counter, name), l in zip(self.names_of(request, decision), request.limits):
            assert name.startswith("rl:%s:v1:{" % CODES[l.algorithm]) and ":%s" % l.name in name
            assert self.names.setdefault(counter, name) == name
            assert self.owners.setdefault(name, counter) == counter

    def fits(self, request, decision):
        return request.cost == decision.cost and len(request.limits) == len(decision.keys) and all(
            ":%s" % counter[0] in name and self.names.get(counter, name) == name and self.owners.get(name, counter) == counter
            for counter, name in self.names_of(request, decision))

    def nothing_changed(self, request, decision):
        for l, key, before, after in zip(request.limits, decision.keys, decision.before, decision.after):
            assert key not in self.sure or before == after, ("a request that took nothing changed", key)

    def forget_expired(self, entry, counters, limits, at_us, renewed):
        """Redis lets keys live by the real clock: what the test's own has gone back behind may be gone, a second after it was renewed.
        What is used of it is renewed; a log of which all is out is not."""
        for i, (counter, l, key) in enumerate(zip(counters, limits, entry.keys)):
            if self.went_back and entry.before[i] is None and entry.real_s - self.touched.get(key, entry.real_s) > 0.9:
                self.model.forget(counter, l, at_us)
            if renewed[i] and entry.after[i] is not None:
                self.touched[key] = entry.real_s

    def decide(self, request, d):
        self.decisions += 1
        assert len(d.keys) == len(request.limits) and d.cost == request.cost
        self.keys_are_told_apart(request, d)
        if d.wrong_bucket:
            assert d.before == d.after, "a wrong bucket wrote"
            return
        counters, limits = [l.counter(request.who) for l in request.limits], [l.of(request.who[0]) for l in request.limits]
        self.forget_expired(d, counters, limits, d.at_us, [d.cost > 0 and reset_ms > 0 for reset_ms in d.reply[4::5]])
        limits, allowed, answers = request.ask(self.model, d.at_us, d.lease)
        want = [d.at_us, int(allowed)]
        for a in answers:
            want += [a["allowed"], a["remaining"], a["reset_ms"], a.get("given", 0) if a["allowed"] == 1 else a["retry_ms"], a["more_ms"]]
        if d.reply != want:
            different = [i for i in range(len(limits)) if d.reply[2 + 5 * i:7 + 5 * i] != want[2 + 5 * i:7 + 5 * i]] or [0]
            at = ([i for i in different if d.reply[2 + 5 * i] != want[2 + 5 * i]] or different)[0]
            raise AssertionError("%s answers %s, expected %s: %s; stored %r; history of the counter: %s" % (
                d.keys[at], d.reply[:2] + d.reply[2 + 5 * at:7 + 5 * at], want[:2] + want[2 + 5 * at:7 + 5 * at], limits[at],
                d.before[at], self.history.get(request.limits[at].counter(request.who))))
        for l, line, x in zip(limits, request.limits, answers):
            self.history.setdefault(line.counter(request.who), deque(maxlen=8)).append((d.at_us, d.cost, int(allowed), x, l))
        if not allowed or d.cost == 0:
            self.nothing_changed(request, d)
            self.denied += not allowed
        if d.cost > 0:
            self.sure.update(k for k, l in zip(d.keys, limits) if l["limit"] > 0)
        if request.answer:
            check_answer(request, limits, allowed, answers)
        if request.real is not None and allowed:
            self.open[d.lease] = request.done(limits, allowed, answers, d.at_us, d.lease)

    def settle(self, s):
        """Once for each decision, for the limits that counted something, by what the cost was more or less."""
        assert s.lease in self.open, "settled twice, or without a decision"
        if s.wrong_bucket:
            assert s.before == s.after, "a wrong bucket wrote"
            return
        done = self.open.pop(s.lease)
        request = done["request"]
        if s.lease in self.found:       # one of several that were lost
            request.real = request.cost + s.delta
        assert s.delta == request.real - request.cost and s.delta != 0
        assert (s.taken, s.decided_us, s.reply) == (done["cost"], done["at_us"], [s.at_us, 1])
        limits = took(done)
        counters = [l.counter(request.who) for l, own in zip(request.limits, done["limits"]) if own in limits]
        assert [self.names[c] for c in counters] == [k.rsplit(":", 1)[0] if c[1] == "fixed_window" else k for c, k in zip(counters, s.keys)]
        self.forget_expired(s, counters, limits, s.at_us if s.delta > 0 else s.decided_us, [s.delta > 0] * len(limits))
        self.model.settle(done, request.real, s.at_us)
        self.settled += 1

    def release(self, r):
        assert r.key in self.owners, r.key
        self.model.release(self.owners[r.key], r.lease)

    def request_of(self, decision, requests):
        """A decision that no answer belongs to is of a request whose gateway was killed."""
        request = requests.get(decision.lease) or self.found.get(decision.lease)
        if request is None:
            fits = [r for r in self.lost if self.fits(r, decision)]
            assert fits, "a decision that nobody asked for"
            request = self.found[decision.lease] = fits[0]
            self.lost.remove(request)
        return request

    def run(self, clock, batch):
        """What the proxy has written down of a batch, to the last settlement."""
        self.lost += batch.lost
        self.requests, self.finals = batch.done, {}
        self.go_on(clock.take_log())
        assert all(self.finals.get(lease) == 1 for lease in batch.done), "not decided exactly once"
        owed = [lease for lease, done in self.open.items() if is_to_settle(done) and lease in batch.done and
                done["request"].gateway is not batch.kill]

        def settled():
            self.go_on(clock.take_log())
            return not any(lease in self.open for lease in owed)
        until("all is settled", settled)

    def go_on(self, log):
        for entry in log:
            if isinstance(entry, WentBack):
                self.went_back = True
                self.doubt()
            elif isinstance(entry, Release):
                self.release(entry)
            elif isinstance(entry, Settlement):
                self.settle(entry)
            else:
                self.decided(entry)

    def decided(self, entry):
        request = self.request_of(entry, self.requests)
        try:
            self.decide(request, entry)
        except AssertionError as e:
            raise AssertionError("%r at %d, lease %s: %s" % (request, entry.at_us, entry.lease, e)) from e
        self.finals[entry.lease] = self.finals.get(entry.lease, 0) + (not entry.wrong_bucket)


JUMPS = [1, 40, 999, 1000, 100000, 250000, 999999, S, 3 * S, 7 * S, 60 * S, 3600 * S]


class Batch:
    """Four gateways at once, one client each; then everything that was decided is replayed."""

    def __init__(self, rng, world, gateways, clock, count, kill=None, flush=False, back=0.0):
        self.back = back
        self.world, self.clock, self.done, self.lost, self.errors = world, clock, {}, [], []
        self.kill = kill
        self.lock = threading.Lock()
        threads = [threading.Thread(target=self._client, args=(random.Random(rng.random()), g, count)) for g in gateways]
        for t in threads:
            t.start()
        if kill:
            until("some requests are done", lambda: len(self.done) > count // 2)
            kill.kill()
        if flush:
            until("some requests are done", lambda: len(self.done) > count // 3)
            clock.redis("SCRIPT", "FLUSH")
        for t in threads:
            t.join()
        assert not self.errors, self.errors[:3]

    def _client(self, rng, gateway, count):
        request = None
        try:
            with gateway.connect(timeout=60) as c:
                for _ in range(count):
                    if rng.random() < 0.06:
                        self.clock.jump(rng.choice(JUMPS) * (-1 if rng.random() < self.back else 1))
                    request = Request(rng, self.world)
                    request.gateway = gateway
                    answer = request.send(c)
                    with self.lock:
                        self.done[answer.header("X-Request-Id")] = request
        except (OSError, Malformed) as e:
            if gateway is self.kill:
                self.lost.append(request)
            else:
                self.errors.append(repr(e))
        except Exception as e:      # pylint: disable=broad-except
            self.errors.append(repr(e))


def test_four_gateways_and_a_clock_of_ones_own(gateway, upstream, redis, folder):
    for seed in seeds():
        rng = random.Random(seed)
        redis("FLUSHALL")
        clock = ClockedRedis(os.path.join(folder, "clock%d.sock" % seed), redis, 1800000000 * S + rng.randrange(3600 * S))
        store = '{type: redis, url: "unix://%s", timeout: 20s, deny_cache: false, on_failure: closed}' % clock.path
        world = World(rng, upstream, store, False, sorted(CODES))
        gateways = [gateway(world.config()) for _ in range(4)]
        replay = Replay()
        try:
            for _ in range(12):
                what = rng.choice(["nothing", "flush", "kill", "reload", "back", "reload"])
                if what == "reload":
                    world.change(rng)
                    world.reload(gateways)
                    replay.doubt()
                kill = rng.choice(gateways) if what == "kill" else None
                batch = Batch(rng, world, gateways, clock, 30, kill, what == "flush", 0.3 if what == "back" else 0.0)
                replay.run(clock, batch)
                if kill:
                    kill.start()
            assert replay.denied > 50 and replay.decisions > 1000 and replay.settled > 10
            assert clock.strange == []
            assert clock.evals <= clock.noscripts <= 4 * 13
        except AssertionError as e:
            raise AssertionError("seed %d: %s" % (seed, e)) from e
        finally:
            for g in gateways:
                assert g.stop() in (0, None)
            clock.close()


# --- by the real clock, with windows that cannot end ------------------------------------------------------

class Span:
    """Redis' time, or this machine's, before and after a request."""

    def __init__(self, now):
        self.now, self.worst_us = now, 0

    def around(self, act):
        before = self.now()
        act()
        after = self.now()
        self.worst_us = max(self.worst_us, after - before)
        return before, after


def redis_now(client):
    seconds_, us = client("TIME")
    return int(seconds_) * S + int(us)


def check_bounds(request, limits, allowed, early, late, worst_us):
    """What is counted is known exactly; times are within what the request may have taken, with all before it."""
    a, worst_s = request.answer, worst_us // S + 1
    assert a.status == (200 if allowed else 429)
    shown = request.shown()
    assert set(shown) == {l["name"] for l in limits if not l["dry_run"]}
    for l, x, y in zip(limits, early, late):
        if not l["dry_run"]:
            remaining, more_s = shown[l["name"]]
            assert remaining == x["remaining"], l
            assert seconds(y["more_ms"]) - worst_s <= more_s <= seconds(x["more_ms"]) + worst_s, (l, more_s, x, y)
    if not allowed:
        after, first, last = a.header("Retry-After"), retry_after(limits, early), retry_after(limits, late)
        assert (after is None) == (first is None)
        assert after is None or last - worst_s <= int(after) <= first + worst_s
        assert re.findall(r'"(c\d+\.l\d+)"', a.text.split("violated-policies")[1]) == violated(limits, early)


def dump(client):
    """All keys: {name: value}"""
    keys = client("KEYS", "*")
    for k in keys:
        client.send("DUMP", k)
    return {k: client.read() for k in keys}


class Ends:
    """Waits for the line in the access log: what a request does to the memory store is done before it is written."""

    def __init__(self, g):
        self.g, self.at, self.rest, self.seen = g, 0, b"", set()

    def begin(self):
        pass

    def has(self, request):
        with open(self.g.access_path, "rb") as f:
            f.seek(self.at)
            data = f.read()
        self.at += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        self.seen.update(json.loads(line)["slotgate.request_id"] for line in lines)
        return request.answer.header("X-Request-Id") in self.seen


class Calls:
    """Waits for two calls of the script: a decision and its settlement."""

    def __init__(self, redis):
        self.redis, self.count = redis, 0

    def begin(self):
        self.count = good_calls(self.redis)

    def has(self, _):
        return good_calls(self.redis) >= self.count + 2


class Serial:
    """One request after the other, from random gateways, with the model beside them. A cost that is told afterwards is settled before
    the next one, which is what `settling` waits for."""

    def __init__(self, seed, world, gateways, now, settling, exact=True):
        """Not exact: a denial may be an old one, whose numbers may be up to a second old, too; so units that come back are not seen at
        once."""
        self.exact, self.settling, self.settled = exact, settling, 0
        self.rng, self.world, self.gateways = random.Random(seed), world, list(gateways)
        self.model, self.span, self.sent, self.denied = Model(), Span(now), 0, 0
        self.connections, self.by_gateway = {}, {}

    def drop(self, gateway):
        connection = self.connections.pop(gateway, None)
        if connection:
            connection.close()

    def step(self):
        """(allowed, cost)"""
        request, g = Request(self.rng, self.world, "rrs"), self.rng.choice(self.gateways)
        if request.real is not None and not self.exact and request.real < request.cost:
            request = Request(self.rng, self.world, "r")
        if g not in self.connections:
            self.connections[g] = g.connect(timeout=60)
        self.settling.begin()
        before, after = self.span.around(lambda: request.send(self.connections[g]))
        assert before // (366 * DAY) == after // (366 * DAY)
        self.sent += 1
        self.by_gateway[g] = self.by_gateway.get(g, 0) + 1
        try:
            lease = "lease%d" % self.sent
            limits, allowed, early = request.ask(self.model, before, lease)
            late = [self.model.look_again(line.counter(request.who), l, after, 0 if allowed else units_of(l, request.cost))
                    for line, l in zip(request.limits, limits)]
            if self.exact or allowed:
                check_bounds(request, limits, allowed, early, late, self.span.worst_us)
            assert request.answer.status == (200 if allowed else 429)
            done = request.done(limits, allowed, early, before, lease)
            if is_to_settle(done):
                self.settled += 1
                until("it is settled", lambda: self.settling.has(request))
                self.model.settle(done, request.real, self.span.now())
        except AssertionError as e:
            raise AssertionError("%r: %s" % (request, e)) from e
        self.denied += not allowed
        return allowed, request.cost

    def close(self):
        for g in list(self.connections):
            self.drop(g)


def script_calls(redis):
    """EVALSHA, EVALSHA that failed, EVAL"""
    def number(name, field):
        found = re.search(r"cmdstat_%s:.*?%s=(\d+)" % (name, field), redis("INFO", "commandstats"))
        return int(found.group(1)) if found else 0
    return number("evalsha", "calls"), number("evalsha", "failed_calls"), number("eval", "calls")


def good_calls(redis):
    calls, failed, evals = script_calls(redis)
    return calls - failed + evals


def logged(run, g):
    """The sources of all decisions of this gateway; every request is in the access log, once."""
    def lines():
        return [e["slotgate.limit.source"] for e in g.access() if e["url.path"].startswith(("/r/", "/s/"))]
    until("all are logged", lambda: len(lines()) >= run.by_gateway.get(g, 0))
    assert len(lines()) == run.by_gateway.get(g, 0)
    return lines()


COUNTED = sorted(set(CODES) - {"concurrency"})      # a slot is given back a moment after the answer


@pytest.mark.parametrize("deny_cache", ["false", "true"])
def test_four_gateways_and_the_real_clock(gateway, upstream, redis, deny_cache):
    """One EVALSHA for each request that is no repeated denial, and one for its settlement; a denial, or a peek, changes nothing in the
    whole Redis."""
    for seed in seeds():
        rng, client = random.Random(seed), Client(redis.path)
        store = '{type: redis, url: "unix://%s", timeout: 20s, deny_cache: %s, on_failure: closed}' % (redis.path, deny_cache)
        world = World(rng, upstream, store, True, COUNTED)
        gateways = [gateway(world.config()) for _ in range(4)]
        client("FLUSHALL")
        client("CONFIG", "RESETSTAT")
        run = Serial(seed, world, gateways, lambda c=client: redis_now(c), Calls(redis), deny_cache == "false")
        try:
            stored = {}
            for _ in range(700):
                event = rng.random()
                if event < 0.01:
                    client("SCRIPT", "FLUSH")
                elif event < 0.015:
                    g = rng.choice(gateways)
                    run.drop(g)
                    logged(run, g)          # what is still in the memory of the process would be lost
                    g.kill()
                    g.start()
                elif event < 0.02:
                    world.generation += 1
                    world.reload(gateways)
                allowed, cost = run.step()
                before, stored = stored, dump(client)
                assert (allowed and cost > 0) or stored == before, "it took nothing, and something changed"
            calls, failed, evals = script_calls(redis)
            repeated = sum(logged(run, g).count("deny_cache") for g in gateways)
            assert failed == evals and calls - failed + evals == run.sent + run.settled - repeated
            assert run.denied > 100 and run.settled > 20 and (repeated > 0) == (deny_cache == "true")
        except AssertionError as e:
            raise AssertionError("seed %d, request %d: %s" % (seed, run.sent, e)) from e
        finally:
            run.close()
            client.close()
            for g in gateways:
                assert g.stop() in (0, None)


@pytest.mark.parametrize("kind,workers", [("memory", 1), ("memory", 3), ("local", 2)])
def test_the_memory_store_through_the_gateway(gateway, upstream, folder, kind, workers):
    """Also where it stands in for a Redis that is away: the same scopes and counters, with a share of each limit and rate."""
    store, share = "{type: memory}", Fraction(1)
    if kind == "local":
        share = Fraction(1, 2)
        store = '{type: redis, url: "unix://%s/nobody.sock", timeout: 20s, deny_cache: false, local_share: 0.5}' % folder
    for seed in seeds():
        rng = random.Random(seed)
        world = World(rng, upstream, store, True, COUNTED, workers=workers, share=share)
        g = gateway(world.config())
        run = Serial(seed, world, [g], lambda: time.time_ns() // 1000, Ends(g))
        try:
            for _ in range(700):
                if rng.random() < 0.02:
                    run.drop(g)             # another connection, perhaps another worker
                if rng.random() < 0.005:
                    world.generation += 1
                    world.reload([g])
                run.step()
            assert run.denied > 100 and run.settled > 20
            assert set(logged(run, g)) == {"local" if kind == "local" else "store"}
        except AssertionError as e:
            raise AssertionError("seed %d, request %d: %s" % (seed, run.sent, e)) from e
        finally:
            run.close()
            assert g.stop() == 0
