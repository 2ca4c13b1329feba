"""HTTP/1.1 case by case: http_cases.json says what is sent, and what may come of it.

A group says what its cases have in common, a case may say otherwise:

    send       the request's bytes (latin-1); {N} stands for N bytes, {fieldsN} and {argsN} for N fields or arguments
    status     of the answer, or statuses of all answers; a list of numbers: any of them
    silent     the connection may also just be closed
    lenient    the last answer may be missing
    closed     whether the connection ends after it (absent: either)
    verbatim   method and target reach the upstream as they were sent
    method, target, version, body, fields, absent, count      what the upstream gets
    targets, bodies                                           of several requests
    partial    the upstream may see the beginning of the request, never all of it
    answer     the bytes of the upstream's answer; then: keep, close or reset its connection; late: bytes after the answer was read
    answer_body, answer_fields, answer_absent, interim        what the client gets
    cut        the answer breaks off, so that the client can tell
    library_1  what is otherwise with libmicrohttpd 1.0
"""
import json
import os
import pathlib
import re
import threading

import pytest

from harness.client import Malformed
from harness.gateway import LIBRARY_1, Gateway
from harness.upstream import Upstream, script

CONFIG = """
server: {{listen: "127.0.0.1:0", workers: 1}}
admin: {{listen: "127.0.0.1:0"}}
log: {{access: "@ACCESS@"}}
upstreams: {{up: {{targets: [{{url: "{url}"}}], retries: 0, timeout: 10s}}}}
routes:
  - {{name: odd, match: {{path: /odd/*}}, auth: none, upstream: up, odd_paths: pass}}
  - {{name: all, match: {{path: /*}}, auth: none, upstream: up}}
"""


def load():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "http_cases.json"), encoding="utf-8") as f:
        groups = json.load(f)
    for group in groups:
        common = {k: v for k, v in group.items() if k != "cases"}
        for case in group["cases"]:
            whole = dict(common, **case)
            if LIBRARY_1:
                whole.update(common.get("library_1", {}), **case.get("library_1", {}))
            yield pytest.param(whole, id=case["id"])


def fill(text):
    text = re.sub(r"\{fields(\d+)\}", lambda m: "".join("X-%d: v\r\n" % i for i in range(int(m.group(1)))), text)
    text = re.sub(r"\{args(\d+)\}", lambda m: "&".join("a%d=1" % i for i in range(int(m.group(1)))), text)
    return re.sub(r"\{(\d+)\}", lambda m: "a" * int(m.group(1)), text)


@pytest.fixture(scope="module")
def origin():
    with Upstream() as u:
        yield u


@pytest.fixture(scope="module")
def server(origin, tmp_path_factory):
    g = Gateway(str(tmp_path_factory.mktemp("cases")), CONFIG.format(url=origin.url)).start()
    yield g
    status = g.stop()
    log = g.log()
    assert status == 0 and "Sanitizer" not in log and "runtime error:" not in log, log[-20000:]


def send(connection, data):
    try:
        connection.send(data)
    except OSError:
        pass                # refused before all of it was taken: the answer says so


def read(connection, method):
    """An answer; None when the connection ended instead."""
    try:
        if not connection.buffer and connection.at_end():
            return None
        return connection.answer(method)
    except ConnectionResetError:
        return None


def read_cut(connection):
    """The answer begins well and breaks off."""
    try:
        answer = connection.answer()
    except (Malformed, ConnectionResetError):
        return
    raise AssertionError("a cut answer looks complete: %r" % answer)


def allowed(status, want):
    return status in (want if isinstance(want, list) else [want])


def check_answers(connection, case):
    method = case["send"].split(" ")[0]
    wanted = case.get("statuses") or [case["status"]]
    answers = []
    for want in wanted:
        answer = read(connection, method)
        if answer is None:
            assert case.get("silent") or (case.get("lenient") and answers), "closed without an answer"
            return answers
        assert allowed(answer.status, want), answer
        answers.append(answer)
    return answers


def check_answer(answer, case):
    for name, values in case.get("answer_fields", {}).items():
        assert answer.all(name) == values, answer
    for name in case.get("answer_absent", []):
        assert answer.all(name) == [], answer
    if "answer_body" in case:
        assert answer.body == fill(case["answer_body"]).encode("latin-1")
    if "interim" in case:
        assert answer.interim == case["interim"]


def check_request(request, case):
    line = fill(case["send"]).lstrip("\r\n").split("\r\n")[0].split(" ")
    if case.get("verbatim"):
        assert [request.method, request.target] == line[:2]
    assert request.version == "HTTP/1.1"
    for name in ("method", "target"):
        if name in case:
            assert getattr(request, name) == case[name]
    if "target_bytes" in case:
        assert len(request.target) > case["target_bytes"] and request.target == line[1]
    if "body" in case:
        assert request.complete and request.body == fill(case["body"]).encode("latin-1")
    for name, values in case.get("fields", {}).items():
        assert request.all(name) == values, request.headers
    for name, n in case.get("count", {}).items():
        assert len(request.all(name)) == n, request.headers
    for name in case.get("absent", []):
        assert request.all(name) == [], request.headers


def still_in_step(get):
    """The next answer is the next request's own."""
    answer = get("/after")
    assert answer.status == 200 and json.loads(answer.text)["target"] == "/after", answer


@pytest.mark.parametrize("case", load())
def test_case(server, origin, case):
    with origin.lock:
        mark, heads = len(origin.requests), len(origin.heads)
    go = threading.Event()
    go.sent = threading.Event()
    if "answer" in case:
        late = case.get("late")
        origin.on("/answer", script(fill(case["answer"]), case.get("then", "keep"), late, go))
    with server.connect(timeout=10) as c:
        send(c, fill(case["send"]).encode("latin-1"))
        if case.get("cut"):
            read_cut(c)
        else:
            answers = check_answers(c, case)
            if answers:
                check_answer(answers[-1], case)
            if case.get("closed") is True:
                assert c.at_end(), c.buffer[:200]
        if "late" in case:
            go.set()
            assert go.sent.wait(10)
        if case.get("closed") is False:
            still_in_step(lambda path: c.request("GET", path))
    if "answer" in case:
        still_in_step(server.get)
        still_in_step(server.get)
        return
    with origin.lock:
        seen = [r for r in origin.requests[mark:] if r.path != "/after"]
        seen_heads = [h for h in origin.heads[heads:] if b" /after " not in h]
    statuses = case.get("statuses") or [case["status"]]
    passed = sum(1 for s in statuses if s == 200)
    assert [r.target for r in seen if r.complete and r.target == "/next"] == []
    assert len([r for r in seen if r.complete]) == passed, [r.target for r in seen]
    if passed == 0 and not case.get("partial"):
        assert seen_heads == []
    if passed == 1:
        check_request(seen[-1], case)
    for name in ("targets", "bodies"):
        if name in case:
            assert [getattr(r, "target") if name == "targets" else r.body.decode() for r in seen] == case[name]


def test_every_request_has_one_line_and_one_result(server):
    """Runs last in this file: whatever the cases were, each request that was read is counted once and logged once."""
    total = server.metric("slotgate_http_requests_total")
    assert total > 200
    assert server.metric("slotgate_tenant_requests_total") == total
    server.access_count(int(total))
    assert server.metric("slotgate_requests_in_flight") == 0


def test_the_document_names_every_refusal():
    root = pathlib.Path(os.environ.get("SG_SRCDIR", pathlib.Path(__file__).resolve().parents[2]))
    document = (root / "docs" / "http.md").read_text(encoding="utf-8")
    code = (root / "src" / "server" / "refusal.c").read_text(encoding="utf-8")
    table = re.findall(r'= \{"([a-z_]+)", (\d+),[^}]*?(true|false),\s*(?:true|false)\}', code)
    assert len(table) == len(re.findall(r"^    \[SG_REFUSE_[A-Z_]+\] =", code, re.MULTILINE)) > 25
    for word, status, closes in table:
        assert re.search(r"^\| `%s` \| %s \| .* \| %s \|$" % (word, status, "yes" if closes == "true" else "no"), document, re.MULTILINE), word
