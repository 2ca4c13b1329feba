"""What the documents say is so: configs pass the check, links lead somewhere, names exist, output is real."""
import json
import os
import pathlib
import re
import subprocess

import pytest

from harness.upstream import Upstream
from harness.wait import until

ROOT = pathlib.Path(os.environ.get("SG_SRCDIR", pathlib.Path(__file__).resolve().parents[2]))
SLOTGATE = os.environ.get("SLOTGATE", str(ROOT / "_build" / "slotgate"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
MAN_PAGES = sorted((ROOT / "docs" / "man").glob("*.[58]"))


def name_of(path):
    return str(path.relative_to(ROOT))


def fenced(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def sections(config):
    """{'server': its lines}, by top-level key."""
    parts = re.split(r"^([a-z_]+):", config, flags=re.MULTILINE)
    return {key: f"{key}:{rest}" for key, rest in zip(parts[1::2], parts[2::2])}


def readme_config():
    return next(c for c in fenced(ROOT / "README.md", "yaml") if "routes" in sections(c))


def whole_configs():
    """Configs of the documents as they stand; a fragment of the README replaces its sections of the config there."""
    found = []
    for path in DOCUMENTS:
        for number, config in enumerate(fenced(path, "yaml")):
            if {"routes", "upstreams"} <= set(sections(config)):
                found.append(pytest.param(config, id=f"{name_of(path)}-{number}"))
            elif path.name == "README.md":
                whole = {**sections(readme_config()), **sections(config)}
                found.append(pytest.param("".join(whole.values()), id=f"{name_of(path)}-{number}"))
    return found


def check(folder, config):
    path = os.path.join(folder, "slotgate.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(config)
    return subprocess.run([SLOTGATE, "check", "-c", path], capture_output=True, text=True, check=False)


def test_readme_has_the_config_it_promises():
    own = sections(readme_config())
    assert set(own) >= {"classes", "plans", "tenants", "upstreams", "routes"}
    assert len(whole_configs()) >= 2
    assert readme_config().count("\n") < 50


@pytest.mark.parametrize("config", whole_configs())
def test_config_passes_the_check(folder, config):
    done = check(folder, config)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_the_error_in_the_readme_is_what_check_says(folder):
    shown = re.search(r"^    slotgate\.yaml:\d+:\d+: (error: .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    broken = readme_config().replace("search.burst:", "serch.burst:", 1)
    done = check(folder, broken)
    assert done.returncode == 78
    where = done.stderr.splitlines()[0].split("/")[-1]
    assert where.endswith(shown.group(1))
    assert shown.group(0).strip() == where


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text()))
    missing = []
    for link in links:
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = path.parent / target if target else path
        if not there.exists() or (anchor and anchor not in anchors(there)):
            missing.append(link)
    assert missing == []


def anchors(path):
    """GitHub's names of headings."""
    heads = re.findall(r"^#+ +(.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def sources():
    return "".join(p.read_text() for p in sorted((ROOT / "src").glob("**/*.[ch]")))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_named_files_exist(path):
    named = re.findall(r"`((?:src|tests|lua|docs|etc|systemd)/[\w./-]+)`", path.read_text())
    assert [n for n in named if not re.search(r"[A-Z]", n) and not (ROOT / n).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_named_functions_exist(path):
    code = sources()
    assert [n for n in set(re.findall(r"\bsg_[a-z0-9_]+\b", path.read_text())) if n not in code] == []


def test_architecture_names_every_room():
    order = re.search(r'split\("([a-z ]+)", rooms', (ROOT / "tests" / "lint" / "layers.sh").read_text()).group(1).split()
    rooms = re.findall(r"^\| `([a-z]+)/` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert rooms == order


def metric_names():
    names = set(re.findall(r'"(slotgate_\w+|process_\w+)"', (ROOT / "src" / "metrics" / "metrics.def").read_text()))
    assert "slotgate_http_requests_total" in names
    return names


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_metrics_exist(path):
    known = metric_names()
    wrong = [m for m in re.findall(r"\bslotgate_[a-z_]+\b(?!\.)", path.read_text())
             if m not in known and re.sub(r"_(bucket|sum|count)$", "", m) not in known]
    assert wrong == []


def subcommands():
    usage = subprocess.run([SLOTGATE, "-h"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"slotgate ([a-z]+)\b", usage))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_subcommands_exist(path):
    """`slotgate WORD` in code, fenced, indented or in backticks."""
    text = path.read_text()
    code = re.findall(r"`([^`\n]*)`", text) + re.findall(r"^(?:    |\$ ).*$", text, re.MULTILINE)
    code += [line for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
             for line in block.splitlines()]
    used = {m for line in code for m in re.findall(r"(?:^|[`;&|$] *|^ +)slotgate ([a-z]+)\b", line)}
    assert used - subcommands() - {"is"} == set()


@pytest.mark.parametrize("path", MAN_PAGES, ids=name_of)
def test_subcommands_of_the_manual_exist(path):
    text = path.read_text()
    used = set(re.findall(r"^\.Nm slotgate\n\.Cm ([a-z]+)", text, re.MULTILINE))
    listed = text.partition(".Sh SUBCOMMANDS")[2].partition("\n.Sh ")[0]
    used |= set(re.findall(r"^\.It Cm ([a-z]+)", listed, re.MULTILINE))
    assert used <= subcommands()
    assert path.suffix != ".8" or used == subcommands()


def head_and_body(text):
    head, _, body = text.partition("\n\n")
    return head.splitlines()[0], dict(line.split(": ", 1) for line in head.splitlines()[1:]), json.loads(body)


def without_moment(value):
    """What differs from run to run: seconds until midnight, ids."""
    value = re.sub(r'("all\.daily";r=\d+;t=)\d+', r"\1_", value)
    return re.sub(r"\burn:uuid:[0-9a-f-]{36}$|^[0-9a-f]{32}$|^\w{3}, .* GMT$", "_", value)


def test_denied_caller_gets_what_the_readme_shows(gateway):
    shown_line, shown_fields, shown_body = head_and_body(fenced(ROOT / "README.md", "http")[0])
    key = re.search(r"'X-API-Key: (\S+)'", (ROOT / "README.md").read_text()).group(1)
    with Upstream() as upstream:
        config = readme_config().replace("127.0.0.1:8080", "127.0.0.1:0").replace(
            "http://127.0.0.1:8000", f"http://127.0.0.1:{upstream.port}")
        g = gateway(config + 'admin: {listen: "127.0.0.1:0"}\nlog: {access: "@ACCESS@"}\n')
        answers = [g.get("/v1/users/search", [("X-API-Key", key)]) for _ in range(6)]
        until("one line for each request", lambda: len(g.access()) == 6)
    assert [a.status for a in answers] == [200] * 5 + [429]
    last = answers[-1]
    assert shown_line == "HTTP/1.1 429 Too Many Requests"
    got = {k: without_moment(v) for k, v in last.headers if k != "Connection"}
    assert got == {k: without_moment(v) for k, v in shown_fields.items()}
    body = json.loads(last.body)
    assert {**body, "instance": ""} == {**shown_body, "instance": ""}
    assert without_moment(body["instance"]) == without_moment(shown_body["instance"]) == "_"


def test_keys_that_wait_for_a_start_are_listed():
    source = (ROOT / "src" / "gateway.c").read_text()
    fixed = re.findall(r'fixed\[n\+\+\] = "([a-z_.]+)"', source)
    assert "server.listen" in fixed
    row = re.search(r"^\|(.*)\| at the next start;", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE).group(1)
    assert sorted(re.findall(r"`([a-z_.]+)`", row)) == sorted(fixed)


def access_fields():
    """Every name that src/proxy/account.c writes into a line."""
    source = (ROOT / "src" / "proxy" / "account.c").read_text()
    names = set(re.findall(r'"((?:[a-z_]+\.)+[a-z_]+)"', source)) | set(re.findall(r'\\"([a-z_.]+)\\":', source))
    names -= {n for n in names if n.endswith(".h")}
    assert {"timestamp", "http.request.method", "slotgate.limit.violated"} <= names
    return names


def test_access_log_fields_are_explained():
    text = (ROOT / "docs" / "operations.md").read_text()
    explained = set(re.findall(r"^\| `([a-z_.]+)`(?:, `[a-z_.]+`)* \|", text, re.MULTILINE))
    for line in re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE):
        explained |= set(re.findall(r"`([a-z_.]+)`", line))
    assert access_fields() - explained == set()
