"""What ./bootstrap run promises on the screen is what its own commands show."""

import hashlib
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from harness.sockets import free_port

ROOT = pathlib.Path(os.environ.get("SG_SRCDIR", pathlib.Path(__file__).resolve().parents[2]))
SLOTGATE = os.environ.get("SLOTGATE", str(ROOT / "_build" / "slotgate"))
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def poll(what, check, seconds=15):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = check()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def answers(url):
    try:
        with DIRECT.open(url, timeout=2) as response:
            return response.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """The environment of the printed commands, with upstream and gateway up; both must end cleanly."""
    port_file = tmp_path_factory.mktemp("quickstart") / "port"
    upstream = subprocess.Popen(["python3", ROOT / "etc" / "quickstart_upstream.py", "--port-file", port_file])
    gateway = None
    try:
        poll("the upstream's start", port_file.exists)
        env = dict(os.environ, PORT=str(free_port()), ADMIN_PORT=str(free_port()), NO_PROXY="*", no_proxy="*")
        env["UPSTREAM"] = "http://127.0.0.1:" + port_file.read_text().strip()
        gateway = subprocess.Popen([SLOTGATE, "-c", ROOT / "etc" / "quickstart.yaml"], env=env)
        poll("readiness", lambda: gateway.poll() is not None or answers(f"http://127.0.0.1:{env['ADMIN_PORT']}/readyz"))
        assert gateway.poll() is None, "slotgate ended at once"
        yield env
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(timeout=10) == 0
        upstream.send_signal(signal.SIGTERM)
        assert upstream.wait(timeout=10) == 0
    finally:
        for process in (gateway, upstream):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def printed_commands():
    text = (ROOT / "bootstrap").read_text()
    return re.findall(r"^   ((?:curl|for) .*)$", text, re.MULTILINE)


def shell(command, env):
    return subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, check=True).stdout


def test_printed_keys_are_the_configured_ones():
    config = (ROOT / "etc" / "quickstart.yaml").read_text()
    keys = re.findall(r"key ([a-z-]+-key)", (ROOT / "bootstrap").read_text())
    assert len(keys) == 2
    for key in keys:
        assert hashlib.sha256(key.encode()).hexdigest() in config


def test_commands_show_what_is_printed(quickstart):
    allowed, burst, use = printed_commands()

    answer = shell(allowed, quickstart)
    assert answer.startswith("HTTP/1.1 200 ")
    assert re.search(r'^RateLimit: .*"api\.burst";r=99;', answer, re.MULTILINE | re.IGNORECASE)
    assert '"path": "/v1/things"' in answer
    assert "acme-gold-demo-key" not in answer

    lines = [line.split() for line in shell(burst, quickstart).splitlines()]
    assert [line[0] for line in lines] == ["200"] * 5 + ["429"] * 2
    assert [line[2:] for line in lines[:5]] == [[]] * 5
    assert all(line[2] in ("9", "10") for line in lines[5:])

    shown = shell(use, quickstart)
    assert re.search(r'^slotgate_tenant_requests_total\{tenant="acme",result="allowed"\} 1$', shown, re.MULTILINE)
    assert re.search(r'^slotgate_tenant_requests_total\{tenant="demo",result="allowed"\} 5$', shown, re.MULTILINE)
    assert re.search(r'^slotgate_tenant_requests_total\{tenant="demo",result="limited"\} 2$', shown, re.MULTILINE)
