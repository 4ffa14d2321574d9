"""The import graph runs downwards only."""

import ast
import os
import re
import subprocess
import sys
import tomllib

import pytest
from source_tree import MODULES, ROOT, SRC, tree_of

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
FLOORS = next(contract["layers"] for contract in SETTINGS["contracts"] if contract["id"] == "floors")
HOMES = [home for floor in FLOORS for home in re.findall(r"[\w.]+", floor)]
#: Folders that hold floors and import nothing themselves.
FRAMES = {"mixle", "mixle.utils", "mixle.utils.parallel"}


def test_contracts_hold():
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(SRC), "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", sorted(MODULES))
def test_every_module_has_a_floor(module):
    homes = [home for home in HOMES if module == home or module.startswith(home + ".")]
    assert module in FRAMES or len(homes) == 1, f"{module} stands on {homes or 'no floor'}: see pyproject.toml"


@pytest.mark.parametrize("module", sorted(FRAMES & MODULES.keys()))
def test_frames_import_nothing(module):
    imports = [node for node in ast.walk(tree_of(MODULES[module])) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [node for node in imports if getattr(node, "module", "") != "__future__"]


def test_every_folder_is_a_package():
    """A folder without __init__.py would be left out of tools that walk packages."""
    folders = {path.parent for path in MODULES.values()}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]
