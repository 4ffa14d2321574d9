"""Every error says what is wrong; those at the doors of the library say what to do next."""

import ast
import builtins
import re

import pytest
from source_tree import FILES, module_of, tree_of

from mixle import errors

OURS = set(errors.__all__)
BUILTIN = {"ValueError", "TypeError", "RuntimeError", "KeyError", "ImportError", "MemoryError", "OSError"}
#: Where users who never read the source arrive.
DOORS = ("mixle.tables", "mixle.sklearn", "mixle.inference.inferring", "mixle.inference.rules")
DOORS += ("mixle.inference.selecting", "mixle.inference.bootstrapping", "mixle.inference.conditioning")
DOORS += ("mixle.inference.imputing", "mixle.inference.using")
DOORS += (
    "mixle.stats.families",
    "mixle.stats.keys",
    "mixle.stats.combinators.record",
    "mixle.stats.combinators.weighted",
)
#: Words that begin the advice of a message.
ADVICE = re.compile(r"; |\b(must|pass|needs?|use|give|Install|make it|say which)\b|\bnot \{\}")
#: What says nothing.
EMPTY = re.compile(r"^(an? )?(invalid|bad|wrong|illegal|unknown|unexpected)( \w+)?( error)?\.?$", re.IGNORECASE)


def words(node):
    """Return the literal text of a message, ``{}`` for what is filled in; None where it is made elsewhere."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = words(node.left), words(node.right)
        return None if None in parts else "".join(parts)
    return None


def raised(path):
    """Yield (line, name, arguments) of every exception that is made, raised here or handed on."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in OURS | BUILTIN:
                yield node.lineno, name, node.args


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
def test_every_error_says_what_is_wrong(path):
    mute = [line for line, _, arguments in raised(path) if not arguments] + list(bare(path))
    told = [(line, words(arguments[0])) for line, _, arguments in raised(path) if arguments]
    empty = [
        (line, text) for line, text in told if text is not None and (not text.strip("{} ,:;.") or EMPTY.match(text))
    ]
    assert not [(line, text) for line, text in empty if text.count("{}") < 2]
    assert not mute


@pytest.mark.parametrize("path", [p for p in FILES if module_of(p).startswith(DOORS)], ids=module_of)
def test_errors_at_the_doors_say_what_to_do(path):
    told = [(line, words(arguments[0])) for line, name, arguments in raised(path) if arguments and name != "KeyError"]
    assert not [(line, text) for line, text in told if text is not None and not ADVICE.search(text)]
