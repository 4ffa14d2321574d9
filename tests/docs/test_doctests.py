"""Every example in a docstring runs."""

import doctest
import importlib
import pkgutil

import pytest

import mixle

MODULES = sorted(module.name for module in pkgutil.walk_packages(mixle.__path__, "mixle."))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_of(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert failed == 0
