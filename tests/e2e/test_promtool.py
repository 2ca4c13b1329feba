"""What Prometheus' own linter says of a live /metrics. Collected only where PROMTOOL names it: `make check-e2e` says when it does not,
and .ci/run always has it."""
import os
import subprocess

from test_metrics import config, every_kind


def test_promtool_finds_nothing(gateway, upstream, redis):
    """prometheus' own linter: names, units, HELP and TYPE."""
    g = gateway(config(upstream, store='{type: redis, url: "unix://%s", timeout: 2s}' % redis.path))
    every_kind(g)
    text = g.admin("/metrics")[2]
    r = subprocess.run([os.environ["PROMTOOL"], "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
