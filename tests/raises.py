"""Name every ``raise`` of the library that no test reaches, out of what coverage measured, except those of the list.

    coverage combine && python tests/raises.py

Where an engine is needed, its own tests reach it: such modules are left out. A function of the list may raise without
a test, each for a reason; a function that is not there any more has no place in the list.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import coverage

#: Modules that the tests of engines run.
ENGINES = ("transports/dask/", "transports/mpi/", "transports/ray/", "transports/spark/", "utils/parallel/mpi.py")
AGAIN = "raises what it met again, after it has tidied up"
#: Functions whose errors no test has to reach, and why.
UNREACHED: dict[str, str] = {}


def raises(path: Path) -> list[tuple[str, int]]:
    """Return (function, line) of the raise statements of a file."""
    found: list[tuple[str, int]] = []

    def walk(node: ast.AST, name: str) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{name}.{node.name}" if name else node.name
        if isinstance(node, ast.Raise):
            found.append((name, node.lineno))
        for child in ast.iter_child_nodes(node):
            walk(child, name)

    walk(ast.parse(path.read_text("utf-8")), "")
    return found


def main() -> int:
    """Print the raises that were not reached; 1 if there are any that are not listed."""
    import mixle

    measured = coverage.Coverage()
    measured.load()
    root = Path(mixle.__file__).parent
    there, silent = set(), 0
    for path in sorted(root.rglob("*.py")):
        module = path.relative_to(root).as_posix()
        if any(part in module for part in ENGINES):
            continue
        _, _, excluded, missing, _ = measured.analysis2(str(path))
        lines, unreached = path.read_text("utf-8").splitlines(), set(missing) - set(excluded)
        for function, line in raises(path):
            name = f"{module}:{function}"
            there.add(name)
            if line in unreached and name not in UNREACHED:
                print(f"{name}, line {line}: {lines[line - 1].strip()}")
                silent += 1
    gone = sorted(set(UNREACHED) - there)
    print(*(f"{name} is listed and raises nothing" for name in gone), sep="\n", end="\n" if gone else "")
    print(f"{silent} raises are reached by no test; reach each, or list its function in {Path(__file__).name} with why")
    return int(silent + len(gone) > 0)


if __name__ == "__main__":
    sys.exit(main())
