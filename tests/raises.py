"""Name every ``raise`` of the library that no test reaches, out of what coverage measured.

    coverage combine && python tests/raises.py

A raise of a transport for an engine is reached by the tests of that engine, which need it: they are left out.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import coverage

ENGINES = ("dask", "mpi", "ray", "spark")


def raises(path: Path) -> list[int]:
    """Return the lines of the raise statements of a file."""
    return [node.lineno for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Raise)]


def main() -> int:
    """Print the raises that were not reached; 1 if there are any."""
    import mixle

    measured = coverage.Coverage()
    measured.load()
    root = Path(mixle.__file__).parent
    silent = 0
    for path in sorted(root.rglob("*.py")):
        if path.parent.parent.name == "transports" and path.parent.name in ENGINES:
            continue
        _, _, excluded, missing, _ = measured.analysis2(str(path))
        for line in sorted(set(raises(path)) & set(missing) - set(excluded)):
            print(f"{path.relative_to(root)}:{line}: {path.read_text('utf-8').splitlines()[line - 1].strip()}")
            silent += 1
    print(f"{silent} raises are reached by no test")
    return int(silent > 0)


if __name__ == "__main__":
    sys.exit(main())
