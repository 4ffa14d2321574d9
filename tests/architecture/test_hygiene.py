"""What may not stand in the tree: secrets of a machine, unsafe reading, orders that differ from run to run."""

import ast

import pytest
from source_tree import FILES, ROOT, SRC, module_of, project_files, tree_of

#: Where bytes become objects; each of these decides what it trusts.
UNPICKLING = (
    "mixle.utils.parallel.folding.faults",  # a user's exception, from a worker of this job
    "mixle.utils.parallel.folding.fold",  # the documented folds read what their caller hands them
    "mixle.utils.parallel.folding.payload",  # statistics: a typed frame, checked before it is read
    "mixle.utils.parallel.transports.process",  # tasks and rows, between the processes of this job
)
#: Written in two parts, so that this file does not find itself.
UNWANTED = ["/" + "work/", "/" + "root/", "/" + "farm/", "bash_" + "jobs", "sub" + "agent", "/tmp/" + "brief"]
IDS = [module_of(path) for path in FILES]


def calls(path):
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]


def test_no_path_or_tool_of_a_workplace():
    found = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {word}" for word in UNWANTED if word in text]
    assert not found


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_pickles_are_read_in_few_places(path):
    readers = {"loads", "load", "Unpickler"}
    found = [
        f"line {node.lineno}: {ast.unparse(node.func)}"
        for node in calls(path)
        if isinstance(node.func, ast.Attribute)
        and node.func.attr in readers
        and ast.unparse(node.func.value) in {"pickle", "cloudpickle", "dill", "marshal"}
    ]
    found += [
        f"line {node.lineno}: from {node.module}"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom)
        and node.module in {"pickle", "cloudpickle", "marshal"}
        and readers & {alias.name for alias in node.names}
    ]
    assert module_of(path).startswith(UNPICKLING) or not found


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_hash_is_never_used(path):
    """The hash of a string differs from process to process: __hash__ may call hash(), and a test of hashability."""
    tree = tree_of(path)
    free = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__":
            free |= {id(call) for call in ast.walk(node)}
    asked = [node for node in calls(path) if isinstance(node.func, ast.Name) and node.func.id == "hash"]
    assert not [f"line {node.lineno}" for node in asked if id(node) not in free]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_no_shell_and_no_eval(path):
    shells = [node.lineno for node in calls(path) for keyword in node.keywords if keyword.arg == "shell"]
    names = {"eval", "exec", "os.system", "os.popen"}
    runs = [node.lineno for node in calls(path) if ast.unparse(node.func) in names]
    assert not shells
    assert not runs


def test_the_package_ships_its_types():
    assert (SRC / "mixle" / "py.typed").exists()
