"""The manual page names every key of the config's schema, in the key's own section."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(os.environ.get("SG_SRCDIR", pathlib.Path(__file__).resolve().parents[2]))
SLOTGATE = os.environ.get("SLOTGATE", str(ROOT / "_build" / "slotgate"))


def schema_keys():
    text = subprocess.run([SLOTGATE, "check", "--schema"], capture_output=True, text=True, check=True).stdout
    return [line for line in text.splitlines() if re.match(r"[a-z]", line)]


def test_every_key_is_in_the_manual():
    page = (ROOT / "docs" / "man" / "slotgate.yaml.5").read_text()
    sections = dict(zip(*[iter(re.split(r"^\.Ss (\w+)$", page, flags=re.MULTILINE)[1:])] * 2))
    keys = schema_keys()
    assert "server.listen" in keys and "routes[].match.path" in keys
    missing = []
    for key in keys:
        parts = key.replace("[]", "").split(".")
        section = f"{parts[0]}\n{sections.get(parts[0], page)}"
        if parts[0] == "plans":  # a plan overrides the numbers of the classes
            section += sections["classes"]
        if not re.search(rf"\b{re.escape(parts[-1])}\b", section):
            missing.append(key)
    assert missing == []
