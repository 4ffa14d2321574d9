"""The page that helps to choose names and draws every family, and its pictures are those of the laws as they are."""

import importlib.util
import re
from pathlib import Path

import pytest
from reference_tables import FAMILIES

import mixle.stats as st

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "which-family.md").read_text(encoding="utf-8")
PICTURES = ROOT / "docs" / "pictures"
LEAVES = [
    name for name in FAMILIES if getattr(st, f"{name}Distribution").__module__.startswith("mixle.stats.families.")
]


def script():
    spec = importlib.util.spec_from_file_location("densities", ROOT / "benchmarks" / "densities.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("family", LEAVES)
def test_a_family_has_a_line_and_a_picture(family):
    lines = re.findall(rf"^\| [^|]+ \| {family} \| `(st\.[^|]+)` \|$", PAGE, flags=re.MULTILINE)
    assert len(lines) == 1
    assert eval(lines[0], {"st": st, "n": 6, "d": 3, "N": 9}) is not None
    assert any(f">{family}</text>" in path.read_text(encoding="utf-8") for path in PICTURES.glob("*.svg"))


def test_the_pictures_are_those_that_the_script_draws():
    """To the numbers; digits may round differently on another processor."""
    number = re.compile(r"-?\d+(?:\.\d+)?")
    module = script()
    for file, pictures in module.PICTURES.items():
        kept = (PICTURES / f"{file}.svg").read_text(encoding="utf-8")
        drawn = module.drawing(pictures)
        assert number.sub("", kept) == number.sub("", drawn), "python benchmarks/densities.py draws them anew"
        assert [float(x) for x in number.findall(kept)] == pytest.approx(
            [float(x) for x in number.findall(drawn)], abs=0.2
        )
