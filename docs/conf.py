"""The site: ``sphinx-build -W docs dist/site``, or ``nox -s site``.

The pages are plain Markdown that reads as well where the source is hosted; what a site needs beyond them (the order of
its pages, the reference of all public names) is made here from what stands there already.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib import import_module
from importlib.metadata import version as installed
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import notebooks  # noqa: E402 - beside this file

import mixle  # noqa: E402 - after the path

project = "mixle"
author = "The mixle developers"
copyright = "The mixle developers"  # noqa: A001 - Sphinx's own name
release = installed("mixle")
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
templates_path = ["_templates"]
exclude_patterns = ["_templates", "_notebooks"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
root_doc = "index"

myst_heading_anchors = 3
#: Numbers and names stand in the pages as they are typed.
myst_enable_extensions: list[str] = []

autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
default_role = "autolink"
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()

html_theme = "pydata_sphinx_theme"
html_title = "mixle"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "mixle"},
    "navbar_align": "left",
    "show_prev_next": True,
    "collapse_navigation": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

#: Modules whose ``__all__`` is public, with what they are for.
MODULES = (
    "mixle",
    "mixle.tables",
    "mixle.sklearn",
    "mixle.stats",
    "mixle.inference",
    "mixle.utils.parallel.planner",
    "mixle.utils.parallel.balance",
    "mixle.utils.parallel.model_decomposition",
    "mixle.utils.parallel.model_parallel",
    "mixle.utils.parallel.multiprocessing",
    "mixle.utils.parallel.mpi",
    "mixle.utils.parallel.resilient_em",
    "mixle.utils.parallel.sdc_audit",
    "mixle.utils.parallel.em_observability",
    "mixle.telemetry",
    "mixle.testing",
    "mixle.plotting",
    "mixle.errors",
)
_ROW = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\]\(([\w./-]+)\.md\)")


def sections() -> dict[str, list[str]]:
    """Return the pages under each heading of the first page's table, in its order."""
    text = (HERE / "index.md").read_text("utf-8")
    return {caption: _LINK.findall(cell) for caption, cell in _ROW.findall(text)}


def write_sections() -> list[str]:
    """Write a page for each heading, which lists what is under it, and return their names."""
    names = []
    for caption, pages in sections().items():
        name = f"sections/{caption.lower().replace(' ', '-')}"
        listed = "\n".join(f"/{page}" for page in pages)
        write(HERE / f"{name}.md", f"# {caption}\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n")
        names.append(name)
    return names


def add_contents(app: Any, name: str, source: list[str]) -> None:
    """Give the first page its tree, and the decisions theirs."""
    if name == "index":
        pages = "\n".join([*write_sections(), "api/index"])
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    elif name == "decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"


def run_blocks(app: Any, name: str, source: list[str]) -> None:
    """Show what the blocks of a page print; a tutorial is a notebook too."""
    pieces = notebooks.cells(source[0])
    blocks = [cell.text for cell in pieces if cell.code]
    if not blocks:
        return
    printed = notebooks.run(blocks)
    page = notebooks.with_outputs(pieces, printed)
    folder, _, stem = name.rpartition("/")
    if folder == "tutorials":
        made = json.dumps(notebooks.notebook(pieces, printed, HERE / folder), indent=1, ensure_ascii=False)
        write(HERE / "_notebooks" / f"{stem}.ipynb", made + "\n")
        heading, rest = page.split("\n", 1)
        page = f"{heading}\n\n{{download}}`This page as a notebook <../_notebooks/{stem}.ipynb>`\n{rest}"
    source[0] = page


def digest_of_code() -> str:
    """Return a digest of the library and of what runs the pages: they are run again when it changes."""
    files = sorted(Path(mixle.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in [*files, Path(notebooks.__file__)])).hexdigest()


def write_reference(app: Any, config: Any) -> None:
    """Write a page for each public module: its names, each with a page of its own."""
    write_sections()
    folder = HERE / "api"
    pages = []
    for name in MODULES:
        module = import_module(name)
        listed = getattr(module, "__all__", None) or [item for item in dir(module) if not item.startswith("_")]
        names = [item for item in listed if not isinstance(getattr(module, item), ModuleType)]
        told = (module.__doc__ or "").strip()
        lines = [name, "=" * len(name), "", told, "", f".. currentmodule:: {name}", ""]
        if names:
            lines += [".. autosummary::", "   :toctree: generated", "", *(f"   {item}" for item in names), ""]
        write(folder / f"{name}.rst", "\n".join(lines))
        pages.append(f"   {name}")
    head = ["API", "===", "", ".. toctree::", "   :maxdepth: 1", "", *pages, ""]
    write(folder / "index.rst", "\n".join(head))


def skip_requests(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator for the routing of metadata."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def write(path: Path, text: str) -> None:
    """Write a file that changed: the others need not be built again."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Connect them to the build."""
    app.connect("config-inited", write_reference)
    app.add_config_value("code_digest", digest_of_code(), "env")
    app.connect("source-read", run_blocks)
    app.connect("source-read", add_contents)
    app.connect("autodoc-skip-member", skip_requests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
