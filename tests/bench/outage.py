#!/usr/bin/python3
"""What an outage of Redis costs the caller: for each kind of failure the added latency of the first requests and of the rest, and how
long it takes until Redis decides again.

    SLOTGATE=_build/slotgate /usr/bin/python3 tests/bench/outage.py [RUNS]

Prints a Markdown table: median of RUNS (5), in brackets the lowest and the highest."""
import os
import shutil
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import test_outage as ladder                        # noqa: E402
from harness.gateway import Gateway                 # noqa: E402
from harness.redis import Redis                     # noqa: E402
from harness.redis_proxy import RedisProxy          # noqa: E402
from harness.wait import until                      # noqa: E402

REQUESTS, FIRST, TIMEOUT_MS, PAUSE_S = 400, 10, 100, 0.003


class Slow(ladder.Stopped):
    delay_ms = 0

    def begin(self):
        self.proxy.delay_s = self.delay_ms / 1000


def slow(ms):
    return type("%d ms late" % ms, (Slow,), {"delay_ms": ms})


CASES = [slow(1), slow(20), slow(80), slow(500)] + [r for r in ladder.LADDER if r is not ladder.TooSlow]
NAMES = {"Stopped": "stopped", "Frozen": "hangs (SIGSTOP)", "Loading": "`LOADING`", "LoadingScriptsOnly": "`LOADING`, PING answered",
         "ReadOnly": "`READONLY`", "NoAuth": "`NOAUTH`", "OutOfMemory": "`OOM`", "WrongType": "`WRONGTYPE`", "Unknown": "another error",
         "Garbage": "garbage", "GarbageFromScripts": "garbage, PING answered", "Swallowed": "replies are lost",
         "Cut": "replies are cut off", "Refused": "connections are closed at once"}


def timed(connection, pause_s=0):
    time.sleep(pause_s)
    began = time.perf_counter()
    status = connection.request("GET", "/inherit", ladder.KEY).status
    assert status == 200, status
    return (time.perf_counter() - began) * 1000


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def once(rung):
    """(healthy p99, worst of the first, p50 and p99 of the rest, decided by policy in %, connections, back after), times in ms."""
    folder = tempfile.mkdtemp(prefix="sg-")
    redis = Redis(folder).start()
    proxy = RedisProxy(redis)
    g = Gateway(folder, ladder.config(proxy.url, timeout="%dms" % TIMEOUT_MS).replace("log: {access: \"@ACCESS@\"}", "log: {access: off}"))
    try:
        g.start()
        ladder.settled(g)
        with g.connect() as c:
            healthy = [timed(c, PAUSE_S) for _ in range(REQUESTS)]
            fault, accepted, decided = rung(redis, proxy), proxy.accepted, ladder.source(g, "store")
            fault.begin()
            took = [timed(c, PAUSE_S) for _ in range(REQUESTS)]
            by_policy = 100 - 100 * (ladder.source(g, "store") - decided) / REQUESTS
            connections = proxy.accepted - accepted
            fault.end()
            began, decided = time.perf_counter(), ladder.source(g, "store")
            until("Redis decides", lambda: timed(c) and ladder.source(g, "store") > decided)
            back = (time.perf_counter() - began) * 1000
        rest = took[FIRST:]
        return percentile(healthy, 0.99), max(took[:FIRST]), percentile(rest, 0.5), percentile(rest, 0.99), by_policy, connections, back
    finally:
        g.stop()
        proxy.close()
        redis.stop()
        shutil.rmtree(folder, ignore_errors=True)


def cell(values, digits):
    return "%.*f (%.*f–%.*f)" % (digits, statistics.median(values), digits, min(values), digits, max(values))


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("| Redis | slowest of the first %d, ms | p50 of the rest, ms | p99 of the rest, ms | by policy, %% | connections | back after, ms |" % FIRST)
    print("| --- | --- | --- | --- | --- | --- | --- |")
    healthy = []
    for rung in CASES:
        results = [once(rung) for _ in range(runs)]
        healthy += [r[0] for r in results]
        columns = list(zip(*results))
        digits = (1, 2, 2, 0, 0, 0)
        cells = [NAMES.get(rung.__name__, rung.__name__)] + [cell(c, d) for c, d in zip(columns[1:], digits)]
        print("| %s |" % " | ".join(cells), flush=True)
    print("\n%d requests, %d ms between them, store.timeout %d ms, one worker; healthy, through the same proxy: p99 %s ms." %
          (REQUESTS, PAUSE_S * 1000, TIMEOUT_MS, cell(healthy, 2)))


if __name__ == "__main__":
    main()
