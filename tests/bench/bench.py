"""Measures slotgate and its peers; run.sh is its front door and says how to call it."""
import argparse
import contextlib
import os
import shutil
import socket
import sys
import tempfile

import machine
import peers
import table
from machine import Run

DEFAULT_ROUNDS = 5
JOBS = ("compare", "routes", "blocks", "memory")


def parse(argv):
    p = argparse.ArgumentParser(prog="run.sh", add_help=True)
    p.add_argument("what", nargs="*", default=[], help="compare (default), routes, blocks or memory; then the number of rounds")
    p.add_argument("--only", action="append", default=[], metavar="NAME", help="a name of the first column; several times")
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--connections", type=int, default=64)
    p.add_argument("--build", action="append", default=[], metavar="NAME=PROGRAM", help="a build of slotgate to compare")
    a = p.parse_args(argv)
    a.rounds, a.job = DEFAULT_ROUNDS, "compare"
    for word in a.what:
        if word.isdigit():
            a.rounds = int(word)
        elif word in JOBS:
            a.job = word
        else:
            p.error("unknown word %r; expected compare, routes, blocks, memory or a number of rounds" % word)
    a.builds = [b.split("=", 1) for b in a.build] or [("", os.environ["SLOTGATE"])]
    if a.rounds < 1 or any(len(b) != 2 or not os.access(b[1], os.X_OK) for b in a.builds):
        p.error("rounds are at least 1, and --build is NAME=PROGRAM")
    return a


def measure_all(run, contenders, rounds, load):
    """Every contender once in each round, so that a busy minute of the machine hits all of them."""
    results = {c.name: [] for c in contenders}
    for n in range(rounds):
        for c in contenders:
            with c.started(run) as gateway:
                results[c.name].append(run.measure(gateway, load))
            print("round %d of %d: %s" % (n + 1, rounds, c.name), file=sys.stderr, flush=True)
    return results


def compare(run, a):
    contenders = peers.comparison(a.builds)
    known = list(dict.fromkeys(c.kind for c in contenders))
    unknown = [n for n in a.only if n not in known]
    if unknown:
        sys.exit("run.sh: unknown name %s; known: %s" % (unknown[0], "; ".join(known)))
    contenders = [c for c in contenders if not a.only or c.kind in a.only]
    results = measure_all(run, contenders, a.rounds, ["keys", str(peers.KEYS)])
    table.show_comparison(results)


def routes(run, a):
    contenders = [peers.Slotgate(peers.label(build, "%d routes" % n), program, peers.routes_config(n))
                  for build, program in a.builds for n in (10, 1000)]
    results = measure_all(run, contenders, a.rounds, ["one", "/route-7/items/12345"])
    table.show_comparison(results)


def blocks(run, a):
    variants = (("three buckets", peers.config()), ("and one for everybody, in the script", peers.whole_config("")),
                ("and one for everybody, in blocks of 100", peers.whole_config(", block: 100")),
                ("and one for everybody, in blocks of 1000", peers.whole_config(", block: 1000")))
    contenders = [peers.Slotgate(peers.label(build, text), program, c) for build, program in a.builds for text, c in variants]
    table.show_comparison(measure_all(run, contenders, a.rounds, ["keys", str(peers.KEYS)]))


def open_idle(port, count, request):
    """Connections that have had one answer each and stay open."""
    held = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall(request)
        if not s.recv(65536).startswith(b"HTTP/1.1 200"):
            sys.exit("run.sh: an idle connection did not get its 200")
        held.append(s)
    return held


def memory(run, a):
    rows = []
    for build, program in a.builds:
        contender = peers.Slotgate("slotgate", program, peers.memory_config())
        with contender.started(run) as gateway:
            run.load(gateway.port, ["one", "/"], 2)
            before = machine.rss_bytes(gateway.pids)
            rows.append((peers.label(build, "after start and warm-up"), before))
            held = open_idle(gateway.port, 1000, b"GET /idle HTTP/1.1\r\nHost: bench\r\n\r\n")
            rows.append((peers.label(build, "1000 idle connections"), machine.rss_bytes(gateway.pids) - before))
            for s in held:
                s.close()
        with contender.started(run) as gateway:
            run.load(gateway.port, ["one", "/"], 2)
            before, seen = machine.rss_bytes(gateway.pids), 0
            while seen < 100000:
                seen += run.load(gateway.port, ["addresses", str(seen)], 1).requests
            grown = (machine.rss_bytes(gateway.pids) - before) * 100000 / seen
            rows.append((peers.label(build, "100000 identities of three token buckets"), grown))
    table.show_memory(rows)


def main():
    a = parse(sys.argv[1:])
    folder = tempfile.mkdtemp(prefix="slotgate-bench-")
    try:
        with contextlib.ExitStack() as stack:
            run = Run(folder, stack, seconds=a.seconds, connections=a.connections)
            table.show_machine(run, a)
            {"compare": compare, "routes": routes, "blocks": blocks, "memory": memory}[a.job](run, a)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
