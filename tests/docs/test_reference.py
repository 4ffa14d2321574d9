"""The tables of docs/reference say what the library does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import reference_tables
from reference_tables import FAMILIES, PAGES, TABLES, parts

import mixle.stats


@pytest.mark.skipif(sys.platform == "win32", reason="one line forks")
@pytest.mark.parametrize("name", TABLES)
def test_table_is_what_the_library_says(name):
    """In a process of its own: backends that other tests registered would be listed in a message."""
    code = "import reference_tables, sys; sys.stdout.reconfigure(encoding='utf-8'); "
    code += f"print(reference_tables.TABLES[{name!r}](), end='')"
    folder = Path(reference_tables.__file__).parent
    command = [sys.executable, "-c", code]
    made = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True, timeout=120).stdout.decode()
    _, table, _ = parts((PAGES / name).read_text(encoding="utf-8"))
    assert table == made, "python tests/docs/reference_tables.py writes the table anew"


def test_every_family_is_listed():
    laws = {name.removesuffix("Distribution") for name in mixle.stats.__all__ if name.endswith("Distribution")}
    named = {name for name in laws if f"{name}Estimator" in mixle.stats.__all__}  # others are laws of parameters
    assert named == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_and_support_are_as_listed(family):
    _, _, arguments, inside, outside = FAMILIES[family]
    law = getattr(mixle.stats, f"{family}Distribution")(*arguments)
    assert law.log_density(inside) > -float("inf")
    if outside is not None:
        assert law.log_density(outside) == -float("inf")


HOME = re.compile(r"Tests without a folder are in `(tests/[\w/]+\.py)`")
SENTENCES = sorted(page.name for page in PAGES.glob("*.md") if HOME.search(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", SENTENCES)
def test_every_test_that_a_page_names_is_there(name):
    text, root = (PAGES / name).read_text(encoding="utf-8"), PAGES.parents[1]
    home = HOME.search(text)[1]
    named = [(path.rstrip(":") or home, test) for path, test in re.findall(r"`(tests/[\w/]+\.py::)?(test_\w+)`", text)]
    assert named
    missing = [f"{path}::{test}" for path, test in named if f"def {test}(" not in (root / path).read_text("utf-8")]
    assert not missing
