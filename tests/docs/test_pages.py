"""Every Python block of the README and of docs/ runs, and every link inside the project leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import notebooks
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def blocks(page):
    return [cell.text for cell in notebooks.cells(page.read_text(encoding="utf-8")) if cell.code]


def name_of(page):
    return str(page.relative_to(ROOT))


FIGURES = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?|\b[A-E]{10,}")


def shape(text):
    """Return a text without its figures, which may differ in the last digit, and the spaces that make room for them."""
    return [" ".join(FIGURES.sub("0", line).split()) for line in text.strip().splitlines()]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_python_blocks_run(page, tmp_path):
    """The blocks of a page run one after the other, and print what the page says they print."""
    pieces = [cell for cell in notebooks.cells(page.read_text(encoding="utf-8")) if cell.code]
    printed = notebooks.run([cell.text for cell in pieces], folder=tmp_path)
    for cell, out in zip(pieces, printed, strict=True):
        if cell.recorded is not None and out:
            assert shape(out) == shape(cell.recorded)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    links = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
    local = [link for link in links if link and "://" not in link and not link.startswith("mailto:")]
    assert not [link for link in local if not (page.parent / link).exists()]


def test_readme_shows_running_code():
    assert blocks(ROOT / "README.md")


def test_readme_shows_what_its_example_prints():
    """All but the digits of the digests, which depend on the build of numpy."""
    page = ROOT / "README.md"
    (shown,) = re.findall(r"^<!-- output -->\n```text\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    command = [sys.executable, "-W", "error", "-c", blocks(page)[0]]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    digest = re.compile(r"\b[0-9a-f]{16}\b")
    assert digest.sub("", printed) == digest.sub("", shown)
    for text in (printed, shown):
        assert len(set(digest.findall(text))) == 1


def test_names_are_found_after_importing_the_package_alone():
    code = "import mixle; help(mixle.inference.optimize); mixle.stats.GaussianEstimator; mixle.telemetry.Telemetry; "
    code += "mixle.errors.RowError; assert 'inference' in dir(mixle) and not hasattr(mixle, 'nothing')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Fit a model to rows by EM" in done.stdout
    code = "import mixle; mixle.utils.parallel.planner.encoded_data"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_hidden_markov_models_are_promised_because_they_are_there():
    import mixle

    assert "hidden Markov" in mixle.__doc__
    assert mixle.stats.HiddenMarkovModelDistribution
