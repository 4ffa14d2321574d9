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
AGAIN = "what it met is raised again, after something was tidied up, or was named for sure"
RACE = "a process that dies in a certain moment: tests kill processes, but not in every moment"
WORKER = "raised in a process that then ends without a word, so that nothing is measured"
#: Functions whose errors no test has to reach, and why; some of them are reached now and then.
UNREACHED = {
    "cli/demo.py:_workers": "a job of MPI, which the tests of engines start",
    "cli/main.py:main": AGAIN,
    "cli/page_file.py:refuse_place": "a folder that takes no file takes one from the superuser, who may run the tests",
    "inference/checkpoint_file.py:CheckpointFile._write_aside": AGAIN,
    "inference/checkpoint_file.py:CheckpointFile.write": AGAIN,
    "stats/cholesky.py:_double_cholesky": "a matrix that rounding alone makes singular: others are refused before",
    "stats/combinators/record.py:RecordEncoder.split": AGAIN,
    "stats/latent/hmm_encoder.py:HiddenMarkovDataEncoder.seq_encode": AGAIN,
    "stats/reading.py:read_labels": AGAIN,
    "testing/bound.py:Chaos.load": AGAIN,
    "testing/conformance.py:BackendConformance._refused": "the failure of a case that a backend does not meet",
    "testing/faults.py:_Fit._rounds": AGAIN,
    "testing/task.py:ChaosEncoder.__getattr__": WORKER,
    "testing/task.py:Letter.__reduce__": WORKER,
    "testing/task.py:Letter._meet": WORKER,
    "utils/parallel/transports/futures/remote.py:_read": "a file of another user: the tests have one user",
    "utils/parallel/transports/futures/transport.py:FuturesTransport._job": RACE,
    "utils/parallel/transports/futures/transport.py:FuturesTransport._run": RACE,
    "utils/parallel/transports/futures/transport.py:FuturesTransport._submit": RACE,
    "utils/parallel/transports/futures/transport.py:FuturesTransport.start": RACE,
    "utils/parallel/transports/process/crew.py:Crew.disown": "abstract",
    "utils/parallel/transports/process/crew.py:Crew.take": "abstract",
    "utils/parallel/transports/process/crew.py:Crew.ensure": RACE,
    "utils/parallel/transports/process/holdings.py:Pool.rows": RACE,
    "utils/parallel/transports/process/launcher.py:receive": RACE,
    "utils/parallel/transports/process/member.py:Member.__init__": "the launcher never sends such a birth",
    "utils/parallel/transports/process/supervisor.py:Supervisor.take": RACE,
    "utils/parallel/transports/process/transport.py:ProcessTransport.run": RACE,
}


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
