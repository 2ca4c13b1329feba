"""Results as Markdown."""
import os
import platform
import re
import statistics
import subprocess

COLUMNS = (("requests/s", "rate", "%.0f"), ("p50 µs", "p50_us", "%.0f"), ("p99 µs", "p99_us", "%.0f"),
           ("gateway CPU µs/request", "gateway_us", "%.1f"), ("Redis CPU µs/request", "redis_us", "%.1f"))
PLAIN = (("RSS MiB", lambda r: "%.1f" % (r.rss_bytes / 2**20)), ("not 2xx", lambda r: "%d" % r.non_2xx),
         ("socket errors", lambda r: "%d" % r.socket_errors), ("others' CPU %", lambda r: "%.0f" % r.others_percent))


def spread(values, form):
    return "%s (%s–%s)" % (form % statistics.median(values), form % min(values), form % max(values))


def show_comparison(results):
    print("\n| | " + " | ".join(title for title, *_ in COLUMNS + PLAIN) + " |")
    print("| --- |" + " ---: |" * len(COLUMNS + PLAIN))
    for name, rounds in results.items():
        cells = [spread([getattr(r, field) for r in rounds], form) for _, field, form in COLUMNS]
        middle = type(rounds[0])(*(statistics.median(column) for column in zip(*rounds)))
        print("| " + " | ".join([name] + cells + [show(middle) for _, show in PLAIN]) + " |")
    print("\nMedian (lowest–highest) of %d rounds." % len(next(iter(results.values()))))


def show_memory(rows):
    print("\n| | KiB |\n| --- | ---: |")
    for name, size in rows:
        print("| %s | %.0f |" % (name, size / 1024))


def version(command, pattern):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, encoding="utf-8")
    found = re.search(pattern, done.stdout)
    return found.group(1) if found else "?"


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return (re.findall(r"model name\s*: (.*)", f.read()) or [platform.machine()])[0]


def show_machine(run, a):
    print("%s, %d cores, Linux %s, load %.2f" % (processor(), os.cpu_count(), platform.release(), os.getloadavg()[0]))
    print("slotgate %s, nginx %s, HAProxy %s, Redis %s, wrk %s" % (
        version([a.builds[0][1], "-V"], r"slotgate (\S+)"), version(["nginx", "-v"], r"nginx/(\S+)"),
        version(["haproxy", "-v"], r"version (\S+)"), version(["redis-server", "-v"], r"v=(\S+)"),
        version(["wrk", "-v"], r"wrk (?:debian/)?(\S+)")))
    print("%d connections, %g s each; gateway on core 0, everything else on core 1%s; priority %s" % (
        run.connections, run.seconds, "" if run.pin else " (not pinned: one core)",
        "raised alike for all" if run.prefix else "not raised (needs root)"), flush=True)
