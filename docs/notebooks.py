"""Pages as notebooks: run the Python blocks of a page, show what they print, write the page as an ``.ipynb`` file.

A page is plain Markdown. Its blocks that begin with a bare ``python`` are cells, run one after the other in a process
of its own, as a reader would paste them into one session; a warning is an error. A ``text`` block right after a cell
that prints is a record of its output for those who read the source: the site and the notebook show the real one.
The tests run pages with this module too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any, NamedTuple

_CELL = re.compile(r"^```python\n(.*?)^```$(?:\s*?\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([\w.-]+\.svg)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:)[^)\s]+\)")

#: What the process does with the blocks: run each, keep what it prints and the value of its last expression.
DRIVER = """
def _page():
    import ast, contextlib, io, json, sys

    names = sys.modules["__main__"].__dict__

    def cell(block):
        tree = ast.parse(block)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<page>", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<page>", "eval"), names)
        if value is not None:
            print(repr(value))

    told = []
    for block in json.load(sys.stdin):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                cell(block)
            except BaseException:
                sys.stderr.write("In the block\\n\\n" + block + "\\n")
                raise
        told.append(out.getvalue())
    json.dump(told, sys.stdout)

_page()
"""


class Cell(NamedTuple):
    """A piece of a page.

    Attributes
    ----------
    text : str
        Markdown, or the code of a cell.
    code : bool
        Whether it is run.
    recorded : str or None
        The output that stands in the page.
    """

    text: str
    code: bool = False
    recorded: str | None = None


class PageFailed(Exception):
    """A block of a page raised or warned."""


def cells(page: str) -> list[Cell]:
    """Return the Markdown and the code of a page, in order."""
    found, end = [], 0
    for match in _CELL.finditer(page):
        found += [Cell(page[end : match.start()]), Cell(match[1], True, match[2])]
        end = match.end()
    return [*found, Cell(page[end:])]


def run(blocks: list[str], folder: str | Path | None = None, timeout: float = 120.0) -> list[str]:
    """Run blocks in one new process and return what each printed.

    Raises
    ------
    PageFailed
        With the block and the traceback.
    """
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-W", "error", "-c", DRIVER]
        options: dict[str, Any] = {"capture_output": True, "encoding": "utf-8", "timeout": timeout}
        done = subprocess.run(command, input=json.dumps(blocks), cwd=folder or scratch, check=False, **options)
    if done.returncode:
        raise PageFailed(done.stderr)
    printed: list[str] = json.loads(done.stdout)
    return printed


def with_outputs(pieces: list[Cell], printed: list[str]) -> str:
    """Return the page as MyST Markdown, what each cell printed beneath it."""
    outputs, page = iter(printed), []
    for cell in pieces:
        if not cell.code:
            page.append(cell.text)
            continue
        page.append(f"```python\n{cell.text}```\n")
        out = next(outputs).rstrip()
        if out:
            page.append(f"\n`````{{code-block}} text\n:class: output\n\n{out}\n`````\n")
        elif cell.recorded is not None:  # a text that is no output
            page.append(f"\n```text\n{cell.recorded}```\n")
    return "".join(page)


def notebook(pieces: list[Cell], printed: list[str], folder: Path) -> dict[str, Any]:
    """Return the page as a notebook (nbformat 4.5); pictures travel inside, links to other pages become words."""
    outputs, made = iter(printed), []
    for number, cell in enumerate(pieces):
        head: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}}
        if cell.code:
            out = next(outputs)
            streams = [{"output_type": "stream", "name": "stdout", "text": out}] if out else []
            made.append(
                head
                | {"cell_type": "code", "execution_count": None, "source": cell.text.rstrip("\n"), "outputs": streams}
            )
        elif cell.text.strip():
            text, pictures = _with_pictures(_LINK.sub(r"\1", cell.text.strip()), folder)
            made.append(head | {"cell_type": "markdown", "source": text} | pictures)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "cells": made,
    }


def _with_pictures(text: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """Return Markdown that shows the pictures of `folder` as attachments, and these."""
    names = [name for _, name in _IMAGE.findall(text)]
    held = {name: {"image/svg+xml": b64encode((folder / name).read_bytes()).decode()} for name in names}
    return _IMAGE.sub(r"![\1](attachment:\2)", text), {"attachments": held} if held else {}
