"""Pages as notebooks: what is run, what is shown, what is written."""

import ast
import json
import re
from pathlib import Path

import notebooks
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = """# A page

Some [words](other.md) and a [far link](https://example.org).

```python
x = 6
x * 7
```

```text
41
```

```python engine
never_run()
```

```python
y = x
```

![A drawing](a.svg)
"""
PATHS = {
    "A newcomer's path": "first-fit",
    "A data scientist's notebook": "mixed-table",
    "A cluster user's script": "laptop-to-cluster",
    "A test engineer's chaos suite": "chaos",
}


def test_a_page_is_run_and_shows_what_it_printed():
    pieces = notebooks.cells(PAGE)
    assert [cell.code for cell in pieces] == [False, True, False, True, False]
    assert pieces[1].recorded == "41\n"
    printed = notebooks.run([cell.text for cell in pieces if cell.code])
    assert printed == ["42\n", ""]
    shown = notebooks.with_outputs(pieces, printed)
    assert ":class: output\n\n42\n" in shown
    assert "41" not in shown
    assert "```python engine\nnever_run()" in shown


def test_a_text_after_a_silent_cell_stays():
    pieces = notebooks.cells("```python\nx = 1\n```\n\n```text\na picture\n```\n")
    assert "a picture" in notebooks.with_outputs(pieces, [""])


def test_a_notebook_has_the_cells_the_outputs_and_the_pictures(tmp_path):
    (tmp_path / "a.svg").write_text("<svg/>")
    made = notebooks.notebook(notebooks.cells(PAGE), ["42\n", ""], tmp_path)
    json.dumps(made)
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code", "markdown", "code", "markdown"]
    assert len({cell["id"] for cell in made["cells"]}) == 5
    first, code, _, silent, last = made["cells"]
    assert "Some words and a [far link](https://example.org)." in first["source"]
    assert code["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "42\n"}]
    assert silent["outputs"] == []
    assert "![A drawing](attachment:a.svg)" in last["source"]
    assert set(last["attachments"]) == {"a.svg"}


@pytest.mark.parametrize("block", ["1 / 0", "import warnings; warnings.warn('odd')"])
def test_a_block_that_fails_or_warns_is_told(block):
    with pytest.raises(notebooks.PageFailed, match=re.escape(block)):
        notebooks.run(["x = 1", block])


@pytest.mark.parametrize("name", PATHS)
def test_each_path_is_a_page_that_runs_and_is_found_under_its_name(name):
    index = (DOCS / "index.md").read_text("utf-8")
    (line,) = [line for line in index.splitlines() if line.startswith(f"- **{name}**")]
    page = DOCS / "tutorials" / f"{PATHS[name]}.md"
    assert f"(tutorials/{page.name})" in line
    assert any(cell.code for cell in notebooks.cells(page.read_text("utf-8")))


def lines_of(page, *names):
    """Return how many lines of code the classes and constants take, without blank lines, comments and imports."""
    count = 0
    for cell in notebooks.cells((DOCS / "tutorials" / page).read_text("utf-8")):
        for node in ast.parse(cell.text).body if cell.code else ():
            named = getattr(node, "name", None) or getattr(getattr(node, "targets", [None])[0], "id", None)
            if named in names:
                count += sum(
                    bool(line.strip()) for line in (ast.get_source_segment(cell.text, node) or "").splitlines()
                )
    return count


def test_the_promised_numbers_of_lines():
    sampler, ends = 2, 2  # the method that returns one; the quotes around the worker's code
    assert 0 < lines_of("own-family.md", "Maxwell", "MaxwellDistribution", "MaxwellEstimator") - sampler <= 20
    assert 0 < lines_of("own-backend.md", "Pipes", "WORKER") - ends <= 30
