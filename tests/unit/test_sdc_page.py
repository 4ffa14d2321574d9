"""The table of the reference page names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/sdc_audit.md"
HOME = "tests/chaos/test_audit.py"


def test_every_named_test_exists():
    named = re.findall(r"`((?:[\w/]+\.py::)?test_\w+)`", PAGE.read_text(encoding="utf-8"))
    missing = []
    for name in named:
        file, _, test = name.rpartition("::")
        if not re.search(rf"^def {test}\(", (ROOT / (file or HOME)).read_text(encoding="utf-8"), flags=re.MULTILINE):
            missing.append(name)
    assert len(named) > 30
    assert not missing
