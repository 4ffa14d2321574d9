"""The source tree as the architecture tests see it: files, modules, syntax trees."""

import ast
import functools
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
FILES = sorted(SRC.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions_of(path: Path):
    """Yield (qualified name, node) for every function of a file, methods and inner ones too."""

    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            name = f"{prefix}{child.name}" if named else ""
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, child
            yield from walk(child, f"{name}." if named else prefix)

    yield from walk(tree_of(path), "")


def project_files() -> list[Path]:
    """Return the files that a commit holds or would hold; without git, all but build products."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    built = {".git", ".nox", ".venv", "__pycache__", "build", "dist"}
    caches = (".cache", "_cache", ".hypothesis", ".egg-info")
    paths = (path for path in ROOT.rglob("*") if path.is_file())
    return [
        path
        for path in paths
        if not any(part in built or part.endswith(caches) for part in path.relative_to(ROOT).parts)
    ]
