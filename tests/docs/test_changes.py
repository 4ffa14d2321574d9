"""Each change to come is a file that the change list can take."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in RULES["type"]]
FRAGMENTS = sorted(path for path in (ROOT / RULES["directory"]).iterdir() if path.name not in RULES["ignore"])


def test_the_list_has_a_place_for_them():
    assert (ROOT / RULES["filename"]).read_text("utf-8").count(RULES["start_string"]) == 1


def test_the_page_about_them_names_every_kind():
    page = (ROOT / RULES["directory"] / "README.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == KINDS


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_change_is_named_by_its_kind_and_said_in_sentences(path):
    assert re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(KINDS)})\.md", path.name)
    text = path.read_text("utf-8")
    assert text.strip().endswith((".", "`."))
    assert not text.lstrip().startswith(("-", "*", "#"))  # the list adds its own marks
    assert max(map(len, text.splitlines())) <= 130
