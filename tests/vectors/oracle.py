#!/usr/bin/python3
"""Writes tests/vectors/<algorithm>.json: traces, with the answers that the reference model (tests/model) gives."""

import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))

from model import Model     # noqa: E402

S = 1000000                        # one second
T0 = 1800000000 * S                # a full hour, 8:00 UTC
DAY = 86400 * S


class Trace:
    """limits, then calls in the order of time."""

    def __init__(self, name, *limits):
        self.name, self.limits, self.first, self.steps = name, list(limits), list(limits), []
        self.model = Model()
        self.t, self.changed, self.done = T0, False, {}

    def ask(self, wait_us=0, cost=1, lease=None):
        self.t += wait_us
        lease = lease or "lease%d" % len(self.steps)
        allowed, answers = self.model.ask([l["name"] for l in self.limits], self.limits, self.t, cost, lease)
        self.done[len(self.steps)] = {"counters": [l["name"] for l in self.limits], "limits": self.limits, "at_us": self.t,
                                      "cost": cost, "lease": lease, "allowed": allowed, "answers": answers}
        self.steps.append({"at_us": self.t, "cost": cost, "allowed": allowed, "limits": answers})
        if not lease.startswith("lease"):
            self.steps[-1]["lease"] = lease
        if self.changed:
            self.steps[-1]["change"], self.changed = self.limits, False
        return self

    def times(self, n, wait_us=0, cost=1):
        for _ in range(n):
            self.ask(wait_us, cost)
        return self

    def settle(self, step, cost, wait_us=0):
        """What was decided in that step turns out to cost this."""
        self.t += wait_us
        self.model.settle(self.done.pop(step), cost, self.t)
        self.steps.append({"at_us": self.t, "settle": step, "cost": cost})
        return self

    def change(self, *limits):
        self.limits, self.changed = list(limits), True
        return self

    def release(self, lease):
        for l in self.limits:
            if l["algorithm"] == "concurrency":
                self.model.release(l["name"], lease)
        self.steps.append({"release": lease})
        return self

    def json(self):
        return {"name": self.name, "limits": self.first, "steps": self.steps}


def refill(algo, limit, count, us, name="c.a", **more):
    return dict({"name": name, "algorithm": algo, "limit": limit, "rate_count": count, "rate_us": us}, **more)


def window(algo, limit, us, name="c.a", **more):
    l = dict({"name": name, "algorithm": algo, "limit": limit, "window_us": us}, **more)
    if algo == "sliding_window":
        l.setdefault("precision", 10)
    return l


def slots(limit, lease_us, name="c.a", **more):
    return dict({"name": name, "algorithm": "concurrency", "limit": limit, "lease_us": lease_us}, **more)


def refill_traces(algo):
    def r(*a, **k):
        return refill(algo, *a, **k)

    def t(name, *limits):
        out.append(Trace(name, *(limits or [r(20, 10, S)])))
        return out[-1]
    out = []
    t("starts full, is exhausted, refills").times(22).ask(S // 10).ask().ask(S // 10 - 1).ask(1).ask(2 * S)
    t("5 of 5", r(5, 5, 60 * S)).times(6).ask(12 * S).ask()
    t("one token every 10 minutes", r(1, 1, 600 * S)).times(2).ask(599 * S).ask(S - 1).ask(1).ask(600 * S)
    t("half a token a second", r(3, 1, 2 * S)).times(4).ask(S).ask(S).ask(2 * S).ask(3 * S).ask(S)
    t("7 an hour loses no fraction", r(7, 7, 3600 * S)).ask(cost=7).times(30, 128571428).ask(3600 * S, 7)
    t("7777 a day, capacity 1000000", r(1000000, 7777, DAY)).ask(cost=1000000).times(4, 11109682).ask(10 * DAY, 77770)
    t("30000000000 a month in costs above 2^32", r(30000000000, 30000000000, 30 * DAY)).times(8, 0, 4294967296)
    t("29999999999 a month", r(29999999999, 29999999999, 30 * DAY)).times(8, 86400, 4294967296).ask(S, 1)
    t("1000000 a second", r(1000000, 1000000, S)).ask(cost=999999).times(3).ask(1).ask(1).ask(10, 9)
    t("3 a microsecond", r(1000, 3, 1)).ask(cost=1000).ask().ask(1, 3).ask(1, 4).ask(1, 5)
    t("never above capacity", r(2, 1, S)).times(3).ask(3600 * S).times(2)
    t("idle for a year", r(2, 1, S)).times(2).ask(365 * DAY).times(2)
    t("cost of the whole capacity", r(10, 1, S)).ask(cost=10).ask(9999999, 10).ask(1, 10)
    t("9, 2, 1 of 10", r(10, 1, 3600 * S)).ask(cost=9).ask(cost=2).ask(cost=1).ask()
    t("cost above capacity never passes", r(10, 1, S)).ask(cost=11).ask(cost=10).ask(cost=11)
    t("cost 0 is a peek").ask(cost=0).times(20).ask(cost=0).ask(S // 20, 0).ask(S // 20, 0).ask(0, 1)
    t("limit 0 denies all", r(0, 1, S)).times(2).ask(S, 0).ask(3600 * S)
    t("the clock goes back a little").times(5).ask(-S // 10).ask().ask(S // 10).ask(S)
    t("the clock goes back far: one window at most").times(20).ask(-3600 * S).ask(S // 10 - 1).ask(1).ask(2 * S)
    t("the clock goes back a year, unused tokens").ask().ask(-365 * DAY).ask(S // 10).ask(2 * S, 20)
    t("the clock goes back and forth").times(20).ask(-S).ask(S).ask(-S).ask(S // 10).ask(S)
    t("capacity grows: used stays used").times(15).change(r(50, 10, S)).ask().ask(S)
    t("capacity shrinks: used stays used").times(15).change(r(18, 10, S)).ask().ask(S)
    t("capacity shrinks below what is used").times(15).change(r(10, 10, S)).ask().ask(S // 10 - 1).ask(1).ask(S)
    t("capacity shrinks, then grows").times(5).change(r(4, 10, S)).ask().change(r(20, 10, S)).ask().ask(S)
    t("the rate grows: used stays used").times(20).change(r(20, 100, S)).ask().ask(S // 100).ask(S // 5, 20)
    t("the rate falls: used stays used").times(20).change(r(20, 1, S)).ask().ask(S - 1).ask(1).ask(20 * S, 20)
    t("a new rate is not for the time before it").times(20).change(r(20, 1, S)).ask(S).ask().times(9).ask()
    t("rate and capacity grow", r(10, 10, 60 * S)).times(3).change(r(20, 20, 60 * S)).ask().times(16).ask()
    t("limit 0, then back").times(5).change(r(0, 10, S)).ask().change(r(20, 10, S)).ask()
    t("dry run never denies", r(2, 1, S, dry_run=True)).times(4).ask(S)
    t("dry run beside an enforced one", r(2, 1, S, dry_run=True), r(5, 1, S, "c.b")).times(7).ask(S)
    t("dry run is not counted when denied", r(9, 1, 60 * S, dry_run=True), r(2, 1, S, "c.b")).times(5).ask(S).ask()
    t("all or nothing", r(2, 1, 60 * S), r(10, 1, S, "c.b")).times(6).ask(60 * S).ask(cost=2)
    t("all or nothing with a cost", r(10, 1, S), r(7, 1, S, "c.b")).ask(cost=4).ask(cost=4).ask(cost=3).ask(S, 2)
    t("one of two never passes", r(10, 1, S), r(2, 1, S, "c.b")).ask(cost=3).ask(cost=2).ask()
    t("three limits, the tightest wins", r(3, 1, S), r(30, 3, S, "c.b"), r(300, 1, 3600 * S, "c.c")).times(5).ask(S)
    t("retry-after of a cost").ask(cost=20).ask(cost=7).ask(7 * S // 10 - 1, 7).ask(1, 7)
    t("capacity 1", r(1, 1, S)).times(2).ask(S - 1).ask(1).ask()
    t("settled for more").ask(cost=5).settle(0, 12).ask().times(7).ask(S)
    t("settled for less").ask(cost=15).settle(0, 4).times(17).ask(S // 10)
    t("settled for nothing").ask(cost=15).settle(0, 0).ask(cost=20).ask()
    t("settled for what was reserved").ask(cost=15).settle(0, 15).times(6)
    t("a debt is paid first").ask(cost=5).settle(0, 45).ask().ask(cost=0).ask(2 * S + S // 2 - 1, 0).ask(1).ask(S // 10).ask(S, 20)
    t("a debt upon a debt").ask(cost=5).ask().settle(0, 45).ask(S).settle(1, 47).ask(S, 0).ask(S).ask(0, 20).ask(4 * S, 20)
    t("two settle into debt").ask(cost=5).ask(cost=5).settle(0, 30).settle(1, 30, S).ask().ask(4 * S).ask(S)
    t("settled late: what time brought back is not given twice").ask(cost=10).ask(S, 5).settle(0, 1).ask(0, 20).ask(0, 15)
    t("settled late, while others used the bucket").ask(cost=10).ask(cost=10).ask(S // 2, 5).settle(0, 1).ask(0, 9).ask(0, 1)
    t("what others gave back is not given again", r(10, 1, S)).ask(cost=5).ask(cost=5).settle(0, 0).ask(5 * S, 10).settle(1, 0).ask(0, 3).ask(10 * S, 10)
    t("two give all back", r(10, 1, S)).ask(cost=5).ask(1000, 5).settle(0, 0, 1000).settle(1, 0, 1000).ask(0, 10)
    t("two give back, the second one late", r(10, 1, S)).ask(cost=5).ask(S // 3, 5).settle(0, 0).settle(1, 0, 2 * S).ask(0, 10).ask(0, 11)
    t("full in spite of what was given back, and used again", r(10, 1, S)).ask(cost=4).ask(cost=4).settle(0, 0).ask(4 * S, 3).ask(4 * S, 3).settle(1, 0) \
        .ask(0, 8).ask(S, 1)
    t("many give back", r(50, 1, S)).times(9, S // 7, 5).settle(8, 1).settle(0, 1).settle(4, 0).ask(S, 20).settle(7, 2, S).settle(1, 1) \
        .settle(2, 0).settle(6, 3).settle(5, 0, S).settle(3, 1).ask(0, 50).ask(0, 20)
    t("given back under another rate", r(10, 1, S)).ask(cost=5).ask(S // 3, 4).change(r(10, 2, 3 * S)).settle(0, 0, S).ask().settle(1, 0).ask(0, 9)
    t("settled much later").ask(cost=10).times(15, S).settle(0, 0).ask(0, 20).ask(0, 10).settle(18, 0, 3600 * S).ask(0, 20)
    t("settled for less twice as late as it refills").ask(cost=20).ask(S).ask(S, 20).settle(0, 10).ask(0, 1).ask(0, 11)
    t("settled by fractions", r(7, 7, 3600 * S)).ask(cost=7).settle(0, 2, 3 * S).times(5).ask(510 * S).settle(2, 9).ask(600 * S).ask(4000 * S)
    t("settled with two limits", r(20, 10, S), r(8, 1, S, "c.b")).ask(cost=5).settle(0, 1).ask(cost=7).ask(cost=1).settle(2, 20).ask(3 * S).ask(20 * S, 8)
    t("a dry run is settled, too", r(9, 1, 60 * S, dry_run=True), r(20, 1, S, "c.b")).ask(cost=9).settle(0, 12).ask().ask(60 * S).ask(240 * S)
    t("a dry run that took nothing is not settled", r(2, 1, S, dry_run=True), r(20, 1, S, "c.b")).ask(cost=5).settle(0, 1).ask(cost=2)
    t("settled in debt, capacity grows").ask(cost=5).settle(0, 30).change(r(50, 10, S)).ask().ask(S).ask(cost=30)
    t("settled in debt, the rate grows").ask(cost=5).settle(0, 30).change(r(20, 100, S)).ask().ask(S // 10).ask(S // 10).ask(S, 20)
    t("a settlement changes no rule").ask(cost=10).change(r(40, 20, S)).ask(cost=20).settle(0, 4).ask(cost=16).ask().ask(S, 20)
    t("in debt the clock goes back").ask(cost=5).settle(0, 30).ask(-3600 * S).ask(S).ask(S // 10).ask(S)
    t("settled after the clock went back").ask(cost=15).ask(-S).settle(0, 5).ask(0, 5).ask(S, 10)
    t("the largest capacity", r(9000000000000000, 1000, 1)).ask(cost=8999999999999999).times(2).ask(1, 1000).ask(0, 9)
    return out


def settled(t, w):
    """What windows and log have in common."""
    t("settled for more", w(5, 60 * S)).ask(cost=2).settle(0, 4).ask().ask().ask(60 * S)
    t("settled for less", w(5, 60 * S)).ask(cost=4).settle(0, 1).times(5).ask(60 * S)
    t("settled for nothing", w(5, 60 * S)).ask(cost=4).settle(0, 0).ask(cost=5).ask()
    t("settled for what was reserved", w(5, 60 * S)).ask(cost=4).settle(0, 4).times(2)
    t("beyond the limit", w(5, 60 * S)).ask(cost=2).settle(0, 9).ask().ask(cost=0).ask(59 * S).ask(S).ask(5 * S).ask(5 * S)
    t("one after the other, each beyond the limit", w(5, 60 * S)).ask(cost=2).ask(cost=1).settle(0, 9).settle(1, 8, S).ask(58 * S).ask(S).ask(S) \
        .ask(6 * S).ask(60 * S)
    t("a refund goes where it was taken", w(5, 60 * S)).ask(50 * S, 3).ask(cost=2).ask(20 * S, 1).settle(0, 1).times(5).ask(40 * S).times(2, 10 * S)
    t("a charge counts from now on", w(5, 60 * S)).ask(50 * S, 1).ask(20 * S, 1).settle(0, 4).times(3).ask(39 * S).ask(S).ask(10 * S).ask(10 * S)
    t("a refund of what no longer counts", w(5, 60 * S)).ask(cost=5).ask(70 * S, 3).settle(0, 0).times(3)
    t("a charge after the window", w(5, 60 * S)).ask(cost=5).settle(0, 8, 200 * S).times(3)
    t("two limits", w(5, 60 * S), w(9, 60 * S, "c.b")).ask(cost=4).settle(0, 2).ask(cost=3).ask().settle(2, 9).ask(60 * S).ask(60 * S)
    t("a dry run that took nothing is not settled", w(2, 60 * S, dry_run=True), w(9, 60 * S, "c.b")).ask(cost=5).settle(0, 1).ask(cost=2)
    t("the limit grows, then it settles", w(5, 60 * S)).ask(cost=4).change(w(10, 60 * S)).ask().settle(0, 1).times(9)
    t("two at once, one settles for less", w(5, 60 * S)).ask(cost=2).ask(cost=2).settle(0, 1).times(3).settle(1, 0).times(3)


def fixed_traces():
    def w(*a, **k):
        return window("fixed_window", *a, **k)

    def t(name, *limits):
        out.append(Trace(name, *(limits or [w(5, 60 * S)])))
        return out[-1]
    out = []
    settled(t, w)
    t("5 a minute").times(7).ask(59 * S).ask(S - 1).ask(1).ask()
    t("resets at the boundary, not a window after the first").ask(50 * S).times(5).ask(10 * S - 1).ask(1)
    t("twice the limit around a boundary").ask(59 * S, 5).ask().ask(S, 5).ask()
    t("a day begins at midnight UTC", w(2, DAY)).times(3).ask(16 * 3600 * S - 1).ask(1).times(2)
    t("an hour", w(2, 3600 * S)).times(3).ask(3599 * S).ask(S).ask()
    t("a window of 250 ms", w(2, 250000)).times(3).ask(100000).ask(149999).ask(1).times(2)
    t("a window of 1.5 s", w(2, 1500000)).times(3).ask(S).ask(S // 2).ask()
    t("a window of 1 ms", w(1, 1000)).times(2).ask(999).ask(1).ask()
    t("366 days", w(2, 366 * DAY)).times(3).ask(100 * DAY).ask(366 * DAY)
    t("1 per 700 ms", w(1, 700000)).times(2).ask(700000).ask()
    t("9, 2, 1 of 10", w(10, 60 * S)).ask(cost=9).ask(cost=2).ask(cost=1).ask()
    t("cost of the whole limit").ask(cost=5).ask(cost=1).ask(60 * S, 5)
    t("cost above the limit never passes").ask(cost=6).ask(cost=5).ask(cost=6)
    t("cost 0 is a peek").ask(cost=0).times(5).ask(cost=0).ask(60 * S, 0)
    t("limit 0 denies all", w(0, 60 * S)).times(2).ask(cost=0).ask(60 * S)
    t("costs above 2^32", w(30000000000, 30 * DAY)).times(8, 0, 4294967296)
    t("the largest limit", w(9007199254740991, DAY)).ask(cost=9007199254740990).times(2).ask(cost=2)
    t("the clock goes back inside a window").ask(30 * S).times(3).ask(-20 * S).times(2).ask(20 * S)
    t("the clock goes back into the window before").ask(30 * S, 5).ask(40 * S, 5).ask(-40 * S).ask(40 * S).ask(60 * S)
    t("the clock goes back a day").times(5).ask(-DAY).ask(DAY).ask(60 * S)
    t("the limit grows: used stays used").times(4).change(w(10, 60 * S)).ask().times(5).ask()
    t("the limit shrinks").times(4).change(w(4, 60 * S)).ask().ask(60 * S)
    t("the limit shrinks below what is used").times(4).change(w(2, 60 * S)).ask().ask(cost=0).ask(60 * S).times(2)
    t("the limit shrinks, then grows").times(4).change(w(2, 60 * S)).ask().change(w(6, 60 * S)).ask().ask().ask()
    t("limit 0, then back").times(3).change(w(0, 60 * S)).ask().change(w(5, 60 * S)).ask().ask().ask()
    t("dry run never denies", w(2, 60 * S, dry_run=True)).times(4).ask(60 * S)
    t("dry run beside an enforced one", w(2, 60 * S, dry_run=True), w(5, 60 * S, "c.b")).times(7).ask(60 * S)
    t("dry run is not counted when denied", w(9, 60 * S, dry_run=True), w(2, S, "c.b")).times(5).ask(S).ask()
    t("all or nothing", w(2, 60 * S), w(10, 60 * S, "c.b")).times(8).ask(60 * S)
    t("all or nothing with a cost", w(10, 60 * S), w(7, 60 * S, "c.b")).ask(cost=4).ask(cost=4).ask(cost=3).ask()
    t("one of two never passes", w(10, 60 * S), w(2, 60 * S, "c.b")).ask(cost=3).ask(cost=2).ask()
    t("three windows", w(2, S), w(3, 60 * S, "c.b"), w(5, DAY, "c.c")).times(3).ask(S).ask().ask(60 * S).ask(S).ask(S)
    t("two windows that end together", w(3, 30 * S), w(4, 60 * S, "c.b")).times(4).ask(30 * S).ask().ask(30 * S)
    t("nothing for long").times(5).ask(1000 * DAY).ask()
    t("every second of a window", w(60, 60 * S)).times(10, S)
    t("at the last microsecond").ask(59999999).times(4).ask().ask(1)
    t("reset counts down", w(1, 60 * S)).ask(7 * S + 1).ask(13 * S + 500).ask(S)
    t("limit 1", w(1, S)).times(2).ask(S).ask()
    return out


def sliding_traces():
    def w(*a, **k):
        return window("sliding_window", *a, **k)

    def t(name, *limits):
        out.append(Trace(name, *(limits or [w(10, 60 * S)])))
        return out[-1]
    out = []
    settled(t, w)
    t("10 at once, then one by one as the sub-window leaves").times(11).ask(60 * S).ask(599999).ask(1).ask(600000).ask(6 * S)
    t("spread evenly", w(10, 10 * S)).times(12, S).ask(S // 2).ask(S // 2)
    t("no burst of twice the limit at a boundary").ask(59 * S, 10).ask(2 * S).ask(57 * S).ask(S).ask(3 * S)
    t("the oldest sub-window counts in proportion", w(100, 10 * S)).ask(cost=100).ask(10 * S).ask(S // 4, 25).ask(S // 4, 26)
    t("rounded against the caller", w(3, 10 * S)).ask(cost=3).ask(10 * S).ask(333333).ask(1).ask(333333).ask(1)
    t("precision 1", w(10, 10 * S, precision=1)).ask(cost=10).ask(10 * S).ask(S).ask(S).ask(5 * S, 5)
    t("precision 100", w(10, 10 * S, precision=100)).times(11, 50000).ask(10 * S, 5).ask(100000, 5)
    t("precision 7 of a minute", w(10, 60 * S, precision=7)).times(11, S).ask(60 * S, 3).ask(6 * S, 3)
    t("a window of 250 ms", w(2, 250000)).times(3).ask(250000).ask(12500).ask(12500)
    t("366 days", w(2, 366 * DAY)).times(3).ask(366 * DAY).ask(20 * DAY).ask(20 * DAY)
    t("9, 2, 1 of 10").ask(cost=9).ask(cost=2).ask(cost=1).ask()
    t("cost of the whole limit").ask(cost=10).ask(cost=1).ask(66 * S - 1, 10).ask(1, 10)
    t("retry-after of a cost").ask(cost=10).ask(cost=7).ask(60 * S, 7).ask(4 * S + 199999, 7).ask(1, 7)
    t("retry-after over several sub-windows", w(10, 10 * S)).times(10, S // 2).ask(cost=8).ask(9 * S, 8).ask(S, 8)
    t("cost above the limit never passes").ask(cost=11).ask(cost=10).ask(cost=11)
    t("cost 0 is a peek").ask(cost=0).times(10).ask(cost=0).ask(63 * S, 0)
    t("limit 0 denies all", w(0, 60 * S)).times(2).ask(cost=0).ask(60 * S)
    t("costs above 2^32", w(30000000000, 30 * DAY)).times(8, 3600 * S, 4294967296).ask(30 * DAY, 4294967296)
    t("the largest limit", w(4503599627370495, DAY)).ask(cost=4503599627370494).times(2).ask(DAY, 2).ask(3600 * S, 1)
    t("the clock goes back inside a sub-window").times(9).ask(-S).ask().ask(60 * S).ask(6 * S)
    t("the clock goes back some sub-windows").times(10, S).ask(-8 * S).ask(52 * S).ask(8 * S, 5)
    t("the clock goes back far: one window at most").times(10).ask(-DAY).ask(60 * S).ask(6 * S).ask()
    t("the clock goes back and forth").times(5).ask(-30 * S).ask(30 * S).ask(-30 * S).ask(60 * S).ask(36 * S, 9)
    t("the limit grows: used stays used").times(8).change(w(20, 60 * S)).ask().times(11).ask()
    t("the limit shrinks").times(4).change(w(5, 60 * S)).ask().ask().ask(66 * S)
    t("the limit shrinks below what is used").times(8).change(w(4, 60 * S)).ask().ask(60 * S).ask(3 * S).ask(3 * S)
    t("the limit shrinks, then grows").times(8).change(w(4, 60 * S)).ask().change(w(12, 60 * S)).ask().times(4)
    t("finer precision keeps the count").times(6, 5 * S).change(w(10, 60 * S, precision=20)).ask().times(4).ask(40 * S, 3)
    t("coarser precision keeps the count").times(6, 5 * S).change(w(10, 60 * S, precision=3)).ask().times(4).ask(40 * S, 3)
    t("limit 0, then back").times(3).change(w(0, 60 * S)).ask().change(w(10, 60 * S)).ask()
    t("dry run never denies", w(2, 60 * S, dry_run=True)).times(4).ask(66 * S)
    t("dry run beside an enforced one", w(2, 60 * S, dry_run=True), w(5, 60 * S, "c.b")).times(7).ask(66 * S)
    t("dry run is not counted when denied", w(9, 60 * S, dry_run=True), w(2, S, "c.b")).times(5).ask(2 * S).ask()
    t("all or nothing", w(2, 60 * S), w(10, 60 * S, "c.b")).times(8).ask(66 * S)
    t("all or nothing with a cost", w(10, 60 * S), w(7, 60 * S, "c.b")).ask(cost=4).ask(cost=4).ask(cost=3).ask()
    t("one of two never passes", w(10, 60 * S), w(2, 60 * S, "c.b")).ask(cost=3).ask(cost=2).ask()
    t("three windows", w(2, S), w(5, 60 * S, "c.b"), w(9, DAY, "c.c")).times(3).ask(2 * S).ask().ask(S).ask(2 * S).ask(2 * S)
    t("nothing for long").times(10).ask(1000 * DAY).ask()
    t("at the last microsecond of a sub-window").ask(5999999, 10).ask(1).ask(60 * S - 1).ask(1).ask(S)
    t("limit 1", w(1, S)).times(2).ask(S).ask(99999).ask(1)
    return out


def log_traces():
    def w(*a, **k):
        return window("sliding_log", *a, **k)

    def t(name, *limits):
        out.append(Trace(name, *(limits or [w(3, S)])))
        return out[-1]
    out = []
    settled(t, w)
    t("3 per 1000 ms: five in a row").times(5).ask(S).ask()
    t("an entry leaves when it is one window old").times(3, 100000).ask(799999).ask(1).ask(99999).ask(1)
    t("never more than the limit in any window").times(12, 250000)
    t("2 in one instant are 2").times(2).ask(0, 1).ask(0, 1).ask(S, 3)
    t("a minute", w(5, 60 * S)).times(6, 7 * S).ask(25 * S).ask(7 * S)
    t("a window of 1 ms", w(1, 1000)).times(2).ask(999).ask(1)
    t("366 days", w(2, 366 * DAY)).times(3, DAY).ask(363 * DAY).ask(DAY)
    t("1 per 700 ms", w(1, 700000)).times(2).ask(699999).ask(1)
    t("9, 2, 1 of 10", w(10, 60 * S)).ask(cost=9).ask(cost=2).ask(cost=1).ask()
    t("cost of the whole limit").ask(cost=3).ask(cost=3).ask(S - 1, 3).ask(1, 3)
    t("retry-after is the exit of the entry that makes room", w(10, S)).times(10, 50000).ask(cost=4).ask(700000, 4)
    t("costs of several units leave together", w(10, S)).ask(cost=4).ask(300000, 5).ask(cost=5).ask(700000, 5).ask(0, 1)
    t("cost above the limit never passes").ask(cost=4).ask(cost=3).ask(cost=4)
    t("cost 0 is a peek").ask(cost=0).times(3).ask(cost=0).ask(S, 0)
    t("limit 0 denies all", w(0, S)).times(2).ask(cost=0).ask(S)
    t("500 units in one request", w(1000, S)).ask(cost=500).ask(1, 499).ask(cost=2).ask(S - 1, 500).ask(cost=2)
    t("the clock goes back inside the window").times(2, 100000).ask(-150000).ask().ask(S).ask(0, 2)
    t("the clock goes back far: one window at most").times(3).ask(-DAY).ask(S - 1).ask(1).times(2)
    t("the clock goes back and forth").times(3).ask(-S // 2).ask(S // 2).ask(S // 2).ask(S, 3)
    t("old entries do not come back").times(3).ask(S).ask(-S // 2).ask().ask(S)
    t("the limit grows: used stays used").times(3).change(w(5, S)).ask().ask().ask()
    t("the limit shrinks").times(1).change(w(2, S)).ask().ask().ask(S)
    t("the limit shrinks below what is used").times(3, 100000).change(w(1, S)).ask().ask(799999).ask(200000).ask(1)
    t("the limit shrinks, then grows").times(3).change(w(1, S)).ask().change(w(4, S)).ask().ask()
    t("a cost when the limit has shrunk", w(10, S)).times(10, 10000).change(w(5, S)).ask(cost=3).ask(900000, 3).ask(80000, 3)
    t("limit 0, then back").times(2).change(w(0, S)).ask().change(w(3, S)).ask().ask()
    t("dry run never denies", w(2, S, dry_run=True)).times(4).ask(S)
    t("dry run beside an enforced one", w(2, S, dry_run=True), w(5, S, "c.b")).times(7).ask(S)
    t("dry run is not counted when denied", w(9, 60 * S, dry_run=True), w(2, S, "c.b")).times(5).ask(S).ask()
    t("all or nothing", w(2, 60 * S), w(10, 60 * S, "c.b")).times(8).ask(60 * S)
    t("all or nothing with a cost", w(10, S), w(7, S, "c.b")).ask(cost=4).ask(cost=4).ask(cost=3).ask()
    t("one of two never passes", w(10, S), w(2, S, "c.b")).ask(cost=3).ask(cost=2).ask()
    t("three windows", w(2, S), w(5, 60 * S, "c.b"), w(9, DAY, "c.c")).times(3).ask(S).ask().ask(S).ask(58 * S).ask(S)
    t("nothing for long").times(3).ask(1000 * DAY).ask()
    t("limit 1", w(1, S)).times(2).ask(S - 1).ask(1)
    t("steady at the limit", w(4, S)).times(12, 250000)
    t("just above the limit", w(4, S)).times(12, 249999)
    return out


def slot_traces():
    def t(name, *limits):
        out.append(Trace(name, *(limits or [slots(2, 60 * S)])))
        return out[-1]
    out = []
    t("two slots").ask(lease="a").ask(lease="b").ask(lease="c").release("a").ask(lease="d").ask(lease="e")
    t("a lease lapses").ask(lease="a").ask(S, lease="b").ask(58 * S).ask(S - 1).ask(1).ask().ask(S)
    t("releasing what is not held").ask(lease="a").release("x").ask(lease="b").release("x").ask()
    t("releasing twice").ask(lease="a").ask(lease="b").release("a").release("a").ask(lease="c").ask()
    t("releasing what has lapsed").ask(lease="a").ask(60 * S, lease="b").release("a").ask(lease="c").ask()
    t("one slot whatever the cost").ask(cost=50).ask(cost=2).ask(cost=3)
    t("cost 0 is a peek").ask(cost=0).times(2).ask(cost=0).ask(60 * S, 0)
    t("limit 0 denies all", slots(0, 60 * S)).times(2).ask(cost=0)
    t("one slot", slots(1, S)).ask(lease="a").ask().release("a").ask().ask(S)
    t("a short lease", slots(1, 1000)).ask().ask(999).ask(1)
    t("366 days", slots(1, 366 * DAY)).ask().ask(365 * DAY).ask(DAY)
    t("retry-after is the earliest expiry", slots(3, 60 * S)).times(4, 5 * S).ask(44 * S).ask(S)
    t("the longest run first", slots(3, 60 * S)).ask(lease="a").ask(S, lease="b").ask(S, lease="c").ask().release("a").ask(S)
    t("all released at once", slots(3, S)).times(3).release("lease0").release("lease1").release("lease2").ask()
    t("many slots", slots(20, 60 * S)).times(21, S).release("lease4").ask().ask()
    t("the clock goes back: one lease at most").times(2).ask(-DAY).ask(60 * S - 1).ask(1).ask()
    t("the clock goes back a little").ask().ask(-S).ask().ask(59 * S).ask(S)
    t("the clock goes back and forth").times(2).ask(-30 * S).ask(30 * S).ask(30 * S).ask(60 * S)
    t("the limit grows: used stays used").times(2).change(slots(3, 60 * S)).ask().ask()
    t("the limit shrinks below what is used", slots(4, 60 * S)).times(4, S).change(slots(2, 60 * S)).ask().ask(58 * S).ask(S)
    t("shrunk: a release makes no room yet", slots(3, 60 * S)).times(3, S).change(slots(1, 60 * S)).ask() \
        .release("lease0").ask().release("lease1").ask().release("lease2").ask()
    t("a shorter lease applies at once").times(2).change(slots(2, S)).ask().ask(S - 1).ask(1)
    t("a longer lease is for new ones").times(2).change(slots(2, 600 * S)).ask().ask(60 * S).ask().ask(60 * S)
    t("limit 0, then back").ask().change(slots(0, 60 * S)).ask().change(slots(2, 60 * S)).ask().ask()
    t("dry run never denies", slots(1, 60 * S, dry_run=True)).times(3).ask(60 * S)
    t("dry run beside an enforced one", slots(1, 60 * S, dry_run=True), slots(3, 60 * S, "c.b")).times(5).ask(60 * S)
    t("a denied request holds no other slot", slots(1, 60 * S), slots(5, 60 * S, "c.b")).times(4).release("lease0").ask()
    t("beside a counter", slots(1, 60 * S), window("fixed_window", 3, 60 * S, "c.b")).ask(lease="a").ask() \
        .release("a").ask(lease="b").release("b").ask(lease="c").release("c").ask()
    t("a counter that denies holds no slot", slots(5, 60 * S), window("fixed_window", 2, 60 * S, "c.b")).times(4).ask(60 * S)
    t("beside a bucket with a cost", slots(2, 60 * S), refill("token_bucket", 10, 1, S, "c.b")).ask(cost=5).ask(cost=6).ask(cost=5)
    t("a peek beside a log", slots(2, 60 * S), window("sliding_log", 2, S, "c.b")).ask().ask(cost=0).ask().ask(cost=0)
    t("nothing for long").times(2).ask(1000 * DAY).ask()
    t("two limits, two leases", slots(1, S), slots(2, 60 * S, "c.b")).ask().ask(S).ask(S).ask(58 * S).ask(S)
    t("the same moment").times(3).ask(60 * S).ask().ask()
    t("one after the other", slots(1, 60 * S)).ask(lease="a").release("a").ask(S, lease="b").release("b").ask(S, lease="c")
    return out


def random_trace(algo, rng, i):
    def limit(name):
        n = rng.choice([1, 2, 3, 5, 10, 17, 100])
        dry = {"dry_run": True} if rng.random() < 0.2 else {}
        if algo in ("token_bucket", "gcra"):
            return refill(algo, n, rng.choice([1, 2, 3, 7, 10, 30]), rng.choice([S, 60 * S, 3600 * S]), name, **dry)
        if algo == "concurrency":
            return slots(n, rng.choice([S, 60 * S]), name, **dry)
        return window(algo, n, rng.choice([250000, S, 7 * S, 60 * S]), name, **dry)

    def span(l):
        if "rate_us" in l:
            return l["limit"] * l["rate_us"] // l["rate_count"]
        return l.get("window_us") or l["lease_us"]
    trace = Trace("random %d" % i, *[limit("c." + "abc"[k]) for k in range(rng.randint(1, 3))])
    for _ in range(15):
        l = rng.choice(trace.limits)
        wait = rng.choice([0, 0, 0, 1, rng.randint(0, span(l) // 3 + 1), rng.randint(0, span(l) + 1), span(l) // l["limit"]])
        trace.ask(wait, rng.choice([1, 1, 1, 2, 0, rng.randint(1, l["limit"] + 1)]))
        if i % 3 == 2 and trace.done and rng.random() < 0.5:
            step = rng.choice(list(trace.done))
            cost = trace.steps[step]["cost"]
            trace.settle(step, rng.choice([0, cost // 2, cost + 1, cost + l["limit"] // 2, cost + 2 * l["limit"]]), rng.choice([0, 1, 1000]))
    return trace


def one_line_each(traces):
    parts = []
    for t in traces:
        t = t.json()
        steps = ",\n      ".join(json.dumps(s) for s in t["steps"])
        parts.append('{"name": %s,\n    "limits": %s,\n    "steps": [\n      %s]}'
                     % (json.dumps(t["name"]), json.dumps(t["limits"]), steps))
    return ",\n   ".join(parts)


def main():
    where = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    made = {"token_bucket": refill_traces("token_bucket"), "gcra": refill_traces("gcra"), "fixed_window": fixed_traces(),
            "sliding_window": sliding_traces(), "sliding_log": log_traces(), "concurrency": slot_traces()}
    for algo, traces in made.items():
        rng = random.Random("slotgate")
        traces += [random_trace(algo, rng, i) for i in range(24)]
        with open(os.path.join(where, algo + ".json"), "w") as out:
            out.write('{"algorithm": "%s",\n "traces": [\n   %s]}\n' % (algo, one_line_each(traces)))


main()
