"""The reference model: what every algorithm of docs/limits.md admits and tells, slow and obvious.

Written from the definitions alone, in fractions. Every time is found by halving over "how much would be left then". One thread, one
clock, which the caller gives. tests/vectors/oracle.py makes traces from it, tests/e2e/test_model.py holds whole gateways to it.

A limit is a dict: name, algorithm, limit; rate_count and rate_us (lowest terms); window_us; precision; lease_us; dry_run.
"""

import copy
import math
from fractions import Fraction as F


class Refill:
    """Token bucket and GCRA: a level of tokens."""

    def __init__(self):
        self.used = F(0)
        self.at = None
        self.debt = False               # it was put down as more than the limit
        self.given = 0                  # units that settlements have given back since it was last full, each rounded up
        self.since = None               # when it was used again, after it had been full in spite of them

    def most(self, l):
        return max(l["limit"], math.ceil(self.used)) if self.debt else l["limit"]

    def used_at(self, l, t):
        """What has come back in a time that is undone is used again, at most all of it; of a debt what it was, in whole units."""
        if self.at is None:
            return F(0)
        used = self.used - F(t - self.at) * F(l["rate_count"], l["rate_us"])
        return min(max(used, F(0)), F(self.most(l)))

    def left(self, l, t):
        return max(0, math.floor(l["limit"] - self.used_at(l, t)))

    def unused(self, l, t):
        return self.used_at(l, t) == 0

    def settle(self, l, t, rule=None):
        """The old rate to now, the new one from now on. A unit that is partly back keeps that part, cut to what the new rate counts in.
        GCRA has no memory of the old limit. Nothing is put down while the rule is the old one."""
        if self.at is None:
            return
        rule = rule or l
        if l["algorithm"] == "gcra":
            rule = dict(rule, limit=l["limit"])
        used, most = self.used_at(rule, t), F(self.most(l))
        if all(rule[k] == l[k] for k in ("limit", "rate_count", "rate_us")) and used < most:
            return
        used, self.at = used if self.debt else min(used, most), t
        part = math.ceil(used) - used
        if rule["rate_us"] != l["rate_us"]:
            part = F(math.floor(part * l["rate_us"]), l["rate_us"])
        self.used = math.ceil(used) - part
        self.debt = self.used > l["limit"]

    def begin(self, used, t):
        """Nothing that was decided before it was full has anything to give back any more."""
        if used == 0 and self.given > 0:
            self.given, self.since = 0, t

    def take(self, l, t, cost, lease):
        self.begin(self.used_at(l, t), t)
        self.used, self.at, self.debt = self.used_at(l, t) + cost, t, False

    def adjust(self, l, t, rule, done, delta):
        """Under the rule that it was put down by. Of a refund, what time or others have brought back since the decision is not given
        again: what is left of the `level` that was owed then, at least, less what others gave back; or of its own units alone. GCRA has no memory of the old limit: a refund cuts nothing down to the one of the decision."""
        if self.at is None and delta < 0:
            return
        as_now = dict(rule, limit=l["limit"]) if l["algorithm"] == "gcra" else rule
        if l["algorithm"] == "gcra" and delta < 0 and not self.debt:
            as_now = dict(rule, limit=10 ** 18)
        used = self.used_at(as_now, t)
        if delta > 0:
            self.begin(used, t)
            used += delta
        else:
            level = max(done["cost"], l["limit"] - done["remaining"] - 1)
            back = F(t - done["at_us"]) * F(rule["rate_count"], rule["rate_us"])
            others = self.given - done["given"]
            if (self.since is not None and done["at_us"] < self.since <= t) or not 0 <= others < level:
                level, others = 0, 0
            units = min(F(-delta), max(F(0), level - others - back, done["cost"] - back))
            self.given += math.ceil(units)
            used = max(F(0), used - units)
        self.used, self.at, self.debt = used, t, used > as_now["limit"]


class FixedWindow:
    def __init__(self):
        self.counts = {}

    def used(self, l, t):
        """Another window than this one is still to come, and empty."""
        this = self.now // l["window_us"]
        return self.counts.get(this, 0) if t // l["window_us"] == this else 0

    def left(self, l, t):
        return max(0, l["limit"] - self.used(l, t))

    def unused(self, l, t):
        return self.used(l, t) == 0

    def settle(self, l, t, rule=None):
        pass

    def take(self, l, t, cost, lease):
        self.counts[t // l["window_us"]] = self.counts.get(t // l["window_us"], 0) + cost

    def adjust(self, l, t, rule, done, delta):
        """More counts now, less where it was counted."""
        window = (t if delta > 0 else done["at_us"]) // l["window_us"]
        self.counts[window] = max(0, self.counts.get(window, 0) + delta)


class SlidingWindow:
    def __init__(self):
        self.counts = {}

    def used(self, l, t):
        width = -(-l["window_us"] // l["precision"])
        oldest = t // width - l["precision"]
        whole = sum(n for i, n in self.counts.items() if i > oldest)
        return whole + math.ceil(F(self.counts.get(oldest, 0) * (width - t % width), width))

    def left(self, l, t):
        return max(0, l["limit"] - self.used(l, t))

    def unused(self, l, t):
        return self.used(l, t) == 0

    def settle(self, l, t, rule=None):
        """Counts of the future are of now; of another precision, at the end of their sub-window. Then what is out is forgotten."""
        new, old = -(-l["window_us"] // l["precision"]), -(-(rule or l)["window_us"] // (rule or l)["precision"])
        if new == old and all(i <= t // new for i in self.counts):
            return
        counts, self.counts = self.counts, {}
        for i, n in counts.items():
            i = min(((i + 1) * old - 1) // new, t // new)
            if i >= t // new - l["precision"]:
                self.counts[i] = self.counts.get(i, 0) + n

    def take(self, l, t, cost, lease):
        i = t // -(-l["window_us"] // l["precision"])
        self.counts = {k: n for k, n in self.counts.items() if k >= i - l["precision"]}
        self.counts[i] = self.counts.get(i, 0) + cost

    def adjust(self, l, t, rule, done, delta):
        """More is counted like a request of now."""
        if delta > 0:
            self.settle(l, t, rule)
            self.take(l, t, delta, None)
        else:
            i = min(t, done["at_us"]) // -(-l["window_us"] // l["precision"])
            self.counts[i] = max(0, self.counts.get(i, 0) + delta)


class SlidingLog:
    def __init__(self):
        self.times = []

    def used(self, l, t):
        return sum(1 for e, _ in self.times if t - e < l["window_us"])

    def left(self, l, t):
        return max(0, l["limit"] - self.used(l, t))

    def unused(self, l, t):
        return self.used(l, t) == 0

    def settle(self, l, t, rule=None):
        self.times = [(min(e, t), whose) for e, whose in self.times]

    def take(self, l, t, cost, lease):
        self.times = [(e, whose) for e, whose in self.times if t - e < l["window_us"]] + [(t, lease)] * cost

    def adjust(self, l, t, rule, done, delta):
        """Of units beyond the limit no more are kept than have a say: what is older than the newest `limit` goes."""
        if delta > 0:
            self.settle(l, t)
            self.take(l, t, min(delta, l["limit"]), None)
            over = len(self.times) - l["limit"]
            if over > 0:
                self.times.sort(key=lambda e: e[0])
                self.times = [e for e in self.times if e[0] >= self.times[over - 1][0]]
        mine = [e for e in self.times if e[1] == done["lease"]]
        for e in mine[:-delta] if delta < 0 else []:
            self.times.remove(e)


class Concurrency:
    def __init__(self):
        self.ends = {}

    def used(self, l, t):
        return sum(1 for e in self.ends.values() if e > t)

    def left(self, l, t):
        return max(0, l["limit"] - self.used(l, t))

    def unused(self, l, t):
        return self.used(l, t) == 0

    def settle(self, l, t, rule=None):
        self.ends = {k: min(e, t + l["lease_us"]) for k, e in self.ends.items()}

    def take(self, l, t, cost, lease):
        self.ends = {k: e for k, e in self.ends.items() if e > t}
        self.ends[lease] = t + l["lease_us"]

    def adjust(self, l, t, rule, done, delta):
        pass


MAKE = {"token_bucket": Refill, "gcra": Refill, "fixed_window": FixedWindow,
        "sliding_window": SlidingWindow, "sliding_log": SlidingLog, "concurrency": Concurrency}


def first_ms(holds):
    """The fewest whole ms after which `holds`."""
    high = 1
    if holds(0):
        return 0
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def answer(state, l, t, units):
    left = state.left(l, t)
    never = l["limit"] == 0 or units > l["limit"]
    out = {"allowed": 2 if never else int(units <= left), "remaining": left, "reset_ms": 0, "retry_ms": 0, "more_ms": 0}
    if not state.unused(l, t):
        out["reset_ms"] = first_ms(lambda ms: state.unused(l, t + 1000 * ms))
        out["more_ms"] = first_ms(lambda ms: state.left(l, t + 1000 * ms) > left)
    if out["allowed"] == 0:
        out["retry_ms"] = first_ms(lambda ms: state.left(l, t + 1000 * ms) >= units)
    if isinstance(state, Refill) and state.given and not state.unused(l, t):
        out["given"] = state.given
    return out


NOTHING = {"allowed": 2, "remaining": 0, "reset_ms": 0, "retry_ms": 0, "more_ms": 0}


def units_of(l, cost):
    return min(cost, 1) if l["algorithm"] == "concurrency" else cost


class Model:
    """All counters of a store. A counter's name is whatever the caller tells counters apart by."""

    def __init__(self):
        self.states, self.rules = {}, {}

    def _look(self, counter, l, t, cost):
        """The state as this request finds it. A peek changes nothing: it looks at a copy."""
        state = self.states.setdefault(counter, MAKE[l["algorithm"]]())
        if cost == 0:
            state = copy.deepcopy(state)
        state.now = t
        state.settle(l, t, self.rules.get(counter, l))
        if cost > 0:
            self.rules[counter] = l
        return state

    def ask(self, counters, limits, t, cost, lease):
        """One request: limits[i] is counted in counters[i]. (allowed, an answer for each)"""
        states, answers = [], []
        for counter, l in zip(counters, limits):
            states.append(None if l["limit"] == 0 else self._look(counter, l, t, cost))
            answers.append(dict(NOTHING) if l["limit"] == 0 else answer(states[-1], l, t, units_of(l, cost)))
        allowed = all(a["allowed"] == 1 for l, a in zip(limits, answers) if not l.get("dry_run"))
        for i, l in enumerate(limits):
            if allowed and cost > 0 and answers[i]["allowed"] == 1:
                states[i].take(l, t, cost, lease)
                answers[i] = answer(states[i], l, t, 0)
        return allowed, answers

    def settle(self, done, cost, t):
        """A decision turns out to cost so much. done: counters, limits, at_us, cost, lease, allowed and answers of the decision."""
        for counter, l, a in zip(done["counters"], done["limits"], done["answers"]):
            if done["allowed"] and a["allowed"] == 1 and done["cost"] > 0 and cost != done["cost"] and l["limit"] > 0:
                state = self.states.setdefault(counter, MAKE[l["algorithm"]]())
                rule = self.rules.setdefault(counter, l)
                state.adjust(l, t, rule, dict(done, remaining=a["remaining"], given=a.get("given", 0)), cost - done["cost"])

    def look_again(self, counter, l, t, units):
        """The answer to a question for so many units, later, which changes nothing."""
        return dict(NOTHING) if l["limit"] == 0 else answer(self._look(counter, l, t, 0), l, t, units)

    def forget(self, counter, l, t):
        """Its key has expired: of a fixed window that of this time."""
        if l["algorithm"] == "fixed_window" and counter in self.states:
            self.states[counter].counts.pop(t // l["window_us"], None)
        else:
            self.states.pop(counter, None)
            self.rules.pop(counter, None)

    def release(self, counter, lease):
        if counter in self.states:
            self.states[counter].ends.pop(lease, None)
