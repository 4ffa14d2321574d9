"""The mutation campaign leaves out no module of folding and policies, and names only tests that are there."""

from collections import Counter
from pathlib import Path

from tests.mutants.groups import GROUPS

TESTS = Path(__file__).parents[1]
PARALLEL = TESTS.parent / "src" / "mixle" / "utils" / "parallel"


def test_every_module_of_folding_and_policies_is_in_one_group():
    files = [path for name in ("folding", "policies") for path in (PARALLEL / name).glob("*.py")]
    modules = {f"{path.parent.name}.{path.stem}" for path in files if path.stem != "__init__"}
    assert Counter(module for group in GROUPS for module in group.modules) == Counter(modules)


def test_every_group_names_tests_that_are_there():
    assert [name for group in GROUPS for name in group.tests if not (TESTS / name).is_file()] == []
