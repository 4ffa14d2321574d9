"""Every error says what is wrong, and what to do next."""

import ast
import builtins
import re
from itertools import product

import pytest
from source_tree import FILES, module_of, tree_of

from mixle import errors

OURS = set(errors.__all__)
BUILTIN = {"ValueError", "TypeError", "RuntimeError", "KeyError", "ImportError", "MemoryError", "OSError"}
#: Words that begin the advice of a message.
VERBS = "add ask build call clear divide flatten give import install leave make mend move name open pass plan put"
VERBS += " repartition say send set start stay take unset use write"
STEP = "|".join([*VERBS.split(), *VERBS.title().split()])
ADVICE = re.compile(
    rf"; |\b(must|pass|needs?|use|give|Install|make it|say which|Usable here)\b|\bnot \{{\}}|[:.,?] ({STEP})(\b|_)"
)
#: Messages that nobody can act on, and why they are none a user is left with.
INNER = {
    ("mixle.utils.parallel.transports.process.wire", "checksum"): "the reader's worker counts as lost, and is replaced",
    ("mixle.utils.parallel.transports.process.parcels", "checksum"): "the same",
    ("mixle.utils.parallel.transports.process.worker", "checksum"): "the worker ends, and is replaced",
    ("mixle.utils.parallel.transports.process.spool", "not complete"): "read by workers only, which end",
    ("mixle.inference.checkpoint_file", "torn"): "`CheckpointFile.read` says what to do with such a file",
    ("mixle.inference.checkpoint_file", "altered"): "the same",
    ("mixle.inference.checkpoint_file", "not a checkpoint"): "the same",
    ("mixle.utils.parallel.folding.fold", "non-finite statistic"): "documented to the letter",
    ("mixle.utils.parallel.policies.conservation", "not of one shape"): "caught: such a statistic counts as wrong",
    ("mixle.utils.parallel.policies.conservation", "unlike labels"): "the same",
    ("mixle.testing.task", "a planned fault"): "planned by the one who reads it",
    ("mixle.testing.chaos", "planned"): "the same",
    ("mixle.testing.cases", "below the limit"): "the failure that a conformance case asks for",
    ("mixle.utils.parallel.transports.process.member", "born with a socket"): "the launcher never sends such a birth",
}
#: What says nothing.
EMPTY = re.compile(r"^(an? )?(invalid|bad|wrong|illegal|unknown|unexpected)( \w+)?( error)?\.?$", re.IGNORECASE)


def given(scope):
    """Return what each name of a function (or module) may be; ``name()`` is what a function returns, if anything."""
    found = {}
    for node in own(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            found[name] = [ast.BinOp(before, ast.Add(), node.value) for before in found.get(name, [])]
        if isinstance(node, ast.FunctionDef):
            said = [inner.value for inner in own(node) if isinstance(inner, ast.Return) and inner.value is not None]
            found[f"{node.name}()"] = [value for value in said if getattr(value, "value", value) not in (None, "")]
    return found


def words(node, names):
    """Return the texts that a message may have, ``{}`` for what is filled in; None where it is made elsewhere."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else None
    name = (
        node.id
        if isinstance(node, ast.Name)
        else f"{getattr(node.func, 'id', '')}()"
        if isinstance(node, ast.Call)
        else ""
    )
    if name:
        made = [words(value, {**names, name: []}) for value in names.get(name, [])]
        return None if None in made or not made else [text for texts in made for text in texts]
    if isinstance(node, ast.IfExp):
        parts = words(node.body, names), words(node.orelse, names)
        return None if None in parts else [*parts[0], *parts[1]]
    if isinstance(node, ast.JoinedStr):
        parts = [words(part, names) for part in node.values]
    elif isinstance(node, ast.FormattedValue):
        return words(node.value, names) or ["{}"]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [words(node.left, names), words(node.right, names)]
    else:
        return None
    return None if None in parts else ["".join(texts) for texts in product(*parts)]


def raised(path):
    """Yield (line, name, arguments, texts) of every exception that is made, raised here or handed on."""
    tree = tree_of(path)
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]:
        names = {**given(tree), **given(scope)}
        for node in own(scope):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in OURS | BUILTIN:
                    yield node.lineno, name, node.args, words(node.args[0], names) if node.args else None


def own(scope):
    """Yield the nodes of a function or module that are not in a function inside it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef):
            yield from own(node)


def bare(path):
    """Yield the lines that raise a class instead of an instance with a message."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id in OURS | BUILTIN:
            yield node.lineno


def test_names_are_exceptions():
    classes = [getattr(errors, name) for name in OURS] + [getattr(builtins, name) for name in BUILTIN]
    assert all(issubclass(one, Exception) for one in classes)
    for name in OURS:
        assert issubclass(getattr(errors, name), (errors.MixleError, errors.MixleWarning))


@pytest.mark.parametrize("path", FILES, ids=[module_of(path) for path in FILES])
def test_every_error_says_what_is_wrong_and_what_to_do(path):
    made = list(raised(path))
    told = [(line, text) for line, _, _, texts in made for text in texts or ()]
    assert not [line for line, _, arguments, _ in made if not arguments] + list(bare(path))
    empty = [(line, text) for line, text in told if not text.strip("{} ,:;.") or EMPTY.match(text)]
    assert not [(line, text) for line, text in empty if text.count("{}") < 2]
    inner = [part for module, part in INNER if module == module_of(path)]
    plain = [
        (line, text)
        for line, name, _, texts in made
        for text in texts or ()
        if name != "KeyError" and text.strip("{} ,:;.") and not ADVICE.search(text)
    ]
    assert not [(line, text) for line, text in plain if not any(part in text for part in inner)]
    assert all(any(part in text for _, text in plain) for part in inner), "an exception that is none any more"
