"""Change the code of folding and policies a little, many times, and ask the tests whether they notice.

mutmut writes the mutants and runs the tests; this draws the same sample of them everywhere and counts. Each group of
modules has tests of its own (groups.py), so that a mutant is judged in seconds. A mutant that no test reaches counts
as survived, one that hangs until its time limit as killed. A mutant belongs to a function: mutmut leaves decorated
functions, enumerations and code of a module's top level as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from groups import GROUPS, LEFT_OUT, Group

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("src/mixle/utils/parallel")
KILLED = {1, 3}
SURVIVED = {0, 5, 33, None}
#: The tests' own settings, without those that need more of the tree than is copied.
COPIED = ("src", "tests", "pyproject.toml")
SETTINGS = """[mutmut]
source_paths = src
only_mutate =
{modules}
pytest_add_cli_args_test_selection =
{tests}
pytest_add_cli_args =
    -p
    no:cacheprovider
{left_out}
use_git_change_detection = false
track_dependencies = false
timeout_multiplier = 5
timeout_constant = 4
"""


def path_of(module: str) -> Path:
    """Return the file of a module such as ``folding.fold``, below the root."""
    return PACKAGE / (module.replace(".", "/") + ".py")


def sample_of(module: str, size: int, seed: int) -> list[str]:
    """Return the names of the mutants to try: the same on every machine, one draw per module."""
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.utils.format_utils import get_mutant_name

    path = path_of(module)
    made = mutate_file_contents(str(path), (ROOT / path).read_text(encoding="utf-8"))
    names = [get_mutant_name(path, name) for name in made.mutant_names]
    return sorted(random.Random(f"{seed} {module}").sample(names, min(size, len(names))))


def lay(folder: Path, group: Group, modules: list[str]) -> None:
    """Copy what mutmut needs into an empty folder, so that the tree itself is never changed."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "mutants" / "src").mkdir(parents=True)  # it is on the path already when Python starts
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    lines = {
        "modules": [str(path_of(module)) for module in modules],
        "tests": [f"tests/{test}" for test in group.tests],
        "left_out": [f"--deselect=tests/{test}" for test in LEFT_OUT],
    }
    indented = {key: "\n".join(f"    {value}" for value in values) for key, values in lines.items()}
    with (folder / "tests" / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write("\n__import__('sys').setrecursionlimit(5000)\n")  # a call of a mutated function takes three
    (folder / "setup.cfg").write_text(SETTINGS.format(**indented), encoding="utf-8")


def verdicts(folder: Path, module: str) -> dict[str, int | None]:
    """Return the exit code of the tests for every mutant of a module."""
    meta = json.loads((folder / "mutants" / f"{path_of(module)}.meta").read_text(encoding="utf-8"))
    return dict(meta["exit_code_by_key"])


def run_group(folder: Path, group: Group, chosen: dict[str, list[str]], children: int) -> dict[str, int | None]:
    """Run the chosen mutants of a group; return their verdicts by name."""
    lay(folder, group, list(chosen))
    names = [name for sample in chosen.values() for name in sample]
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(children), *names]
    with (folder / "log").open("w", encoding="utf-8") as log:
        env = os.environ | {"PYTHONPATH": str(folder.resolve() / "mutants" / "src")}  # of processes that tests start
        ended = subprocess.run(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT, check=False)
    if ended.returncode:
        tail = (folder / "log").read_text(encoding="utf-8", errors="replace")[-3000:]
        raise SystemExit(f"{tail}\nmutmut failed on {', '.join(chosen)}; all it said is in {folder / 'log'}")
    found = {module: verdicts(folder, module) for module in chosen}
    return {name: found[module][name] for module, sample in chosen.items() for name in sample}


def show(folder: Path, module: str, name: str) -> str:
    """Return the changed lines of a mutant."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    with contextlib.chdir(folder):
        shown = get_diff_for_mutant(name, path=path_of(module))
    lines = [line for line in shown.splitlines() if line[:1] in {"-", "+"} and line[:3] not in {"---", "+++"}]
    return "\n".join([f"  survived {name.removeprefix('mixle.utils.parallel.')}", *(f"    {line}" for line in lines)])


def main() -> int:
    """Run the campaign and print its share of killed mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="such as folding.fold, or policies for all of them; default all")
    parser.add_argument("--sample", type=int, default=10, help="mutants per module (default 10; 0 means every one)")
    parser.add_argument("--seed", type=int, default=10, help="of the sample")
    parser.add_argument("--least", type=float, default=0.85, help="share that must be killed")
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants")
    args = parser.parse_args()

    size = args.sample or sys.maxsize
    print(f"mutants per module: {args.sample or 'all'}, drawn with seed {args.seed}", flush=True)
    survived = tried = 0
    for index, group in enumerate(GROUPS):
        wanted = [module for module in group.modules if any(matches(module, name) for name in args.modules or [""])]
        if not wanted:
            continue
        folder = args.folder / str(index)
        chosen = {module: names for module in wanted if (names := sample_of(module, size, args.seed))}
        outcome = run_group(folder, group, chosen, args.children)
        for module, names in chosen.items():
            alive = [name for name in names if outcome[name] in SURVIVED]
            late = sum(outcome[name] not in KILLED | SURVIVED for name in names)
            print(f"{module}: {len(names)} tried, {len(names) - len(alive)} killed ({late} by the clock)", flush=True)
            print("".join(show(folder, module, name) + "\n" for name in alive), end="", flush=True)
            survived, tried = survived + len(alive), tried + len(names)
    share = 1 - survived / tried if tried else 0.0
    print(f"{tried - survived} of {tried} mutants killed: {share:.1%} (at least {args.least:.0%} is asked for)")
    return int(share < args.least)


def matches(module: str, name: str) -> bool:
    """Say whether a module is the one that a name of the command line means, or lies in that package."""
    return not name or module == name or module.startswith(name + ".")


if __name__ == "__main__":
    sys.exit(main())
