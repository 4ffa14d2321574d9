"""Every module says what it is; every public name says what it takes."""

import ast
import doctest
import importlib
import inspect
import re
from functools import cache

import pytest
from source_tree import FILES, MODULES, ROOT, module_of, tree_of

#: Where users import from: here every parameter is described. Elsewhere a docstring is enough.
DOORS = {
    "mixle.inference",
    "mixle.inference.estimation",
    "mixle.inference.streaming",
    "mixle.sklearn",
    "mixle.stats",
    "mixle.stats.compute.pdist",
    "mixle.tables",
    "mixle.testing",
    "mixle.utils.parallel.balance",
    "mixle.utils.parallel.em_observability",
    "mixle.utils.parallel.mpi",
    "mixle.utils.parallel.multiprocessing",
    "mixle.utils.parallel.planner",
    "mixle.utils.parallel.resilient_em",
    "mixle.utils.parallel.sdc_audit",
}


def parameters(obj):
    try:
        signature = inspect.signature(obj)
    except (TypeError, ValueError):
        return []
    named = (p for p in signature.parameters.values() if p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD})
    return [p.name for p in named if p.name not in {"self", "cls"} and not p.name.startswith("_")]


def undocumented(obj):
    """Return the parameters that no docstring of the object describes."""
    text = inspect.getdoc(obj) or ""
    if inspect.isclass(obj):
        text += "\n" + (inspect.getdoc(obj.__init__) or "")
    section = re.search(r"^(Parameters|Attributes)\n-+\n", text, flags=re.MULTILINE)
    body = text[section.end() :] if section else ""
    described = set(re.findall(r"\w+", " ".join(re.findall(r"^[*\w][*\w, ]*(?= ?:|$)", body, flags=re.MULTILINE))))
    return [name for name in parameters(obj) if name not in described]


@pytest.mark.parametrize("path", FILES, ids=[module_of(path) for path in FILES])
def test_module_has_a_docstring(path):
    assert (ast.get_docstring(tree_of(path)) or "").strip()


def exported(module):
    """Yield the functions and classes that a module exports."""
    loaded = importlib.import_module(module)
    for name in getattr(loaded, "__all__", ()):
        obj = getattr(loaded, name)
        if inspect.isfunction(obj) or inspect.isclass(obj):
            yield name, obj


@pytest.mark.parametrize("module", sorted(MODULES.keys() - {"mixle.__main__"}))
def test_exported_names_have_a_docstring(module):
    assert not [name for name, obj in exported(module) if not (obj.__doc__ or "").strip()]


@pytest.mark.parametrize("module", sorted(DOORS & MODULES.keys()))
def test_parameters_of_public_names_are_described(module):
    public = [
        (name, obj) for name, obj in exported(module) if not (inspect.isclass(obj) and issubclass(obj, BaseException))
    ]
    silent = {name: undocumented(obj) for name, obj in public}
    assert not {name: names for name, names in silent.items() if names}


def is_shown(text):
    return bool(doctest.DocTestParser().get_examples(text or ""))


@cache
def named_in_examples():
    """Return the words of all examples in docstrings and on pages, which run."""
    code = []
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                examples = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
                code += [example.source for example in examples]
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        code += re.findall(r"^ *```python.*?\n(.*?)```", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"\w+", "\n".join(code)))


@pytest.mark.parametrize("module", sorted((DOORS | {"mixle", "mixle.plotting", "mixle.telemetry"}) & MODULES.keys()))
def test_every_public_name_has_an_example(module):
    """In its docstring, or beside others that name it; exceptions are shown on the page of errors."""
    public = [
        (name, obj) for name, obj in exported(module) if not (inspect.isclass(obj) and issubclass(obj, BaseException))
    ]
    bare = [name for name, obj in public if not is_shown(obj.__doc__)]
    assert not [name for name in bare if name not in named_in_examples()]


def test_an_example_is_told_from_none():
    assert is_shown("Return one.\n\n>>> one()\n1\n")
    assert not is_shown("Return one, as ``one()``.")
    assert {"encoded_data", "optimize"} <= named_in_examples()
    assert "a_name_that_nobody_shows" not in named_in_examples()


#: Laws that do nothing which could have a source.
WITHOUT_SOURCE = {"IgnoredDistribution", "NullDistribution"}


def laws():
    """Return the laws of `mixle.stats`: families, combinators, mixtures, chains, priors."""
    import mixle.stats

    return [getattr(mixle.stats, name) for name in mixle.stats.__all__ if name.endswith("Distribution")]


@pytest.mark.parametrize("cls", laws(), ids=lambda cls: cls.__name__)
def test_a_law_has_its_formula_a_source_and_examples(cls):
    """The domain of each parameter stands in its description, which the test above asks for."""
    import mixle.stats

    text = inspect.getdoc(cls) or ""
    summary, _, rest = text.partition("\nParameters\n")
    assert re.search(r"``[^`]*[=^/ΠΣ√|(\[1][^`]*``", summary), "a formula in double backquotes, before the parameters"
    source = re.search(r"^References\n-+\n.*\b(19|20)\d\d\b", rest, flags=re.MULTILINE | re.DOTALL)
    assert (source is None) is (cls.__name__ in WITHOUT_SOURCE), "a source and its year"
    estimator = getattr(mixle.stats, cls.__name__.replace("Distribution", "Estimator"), cls)
    for thing in (cls, estimator):
        assert re.search(r"^Examples\n-+\n(>>>|.+\n\n>>>) ", inspect.getdoc(thing) or "", flags=re.MULTILINE), thing
