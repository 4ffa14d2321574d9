"""Facades: documented modules that define nothing and gather what plain modules define."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazily", "publish"]


def publish(module: str, *objects: Any) -> None:
    """Let `objects` carry the documented module `module` in tracebacks, pickles and docs.

    Parameters
    ----------
    module : str
        Name of the facade, usually its ``__name__``.
    *objects : Any
        Classes and functions that the facade re-exports.

    Examples
    --------
    >>> def helper():
    ...     pass
    >>> publish("mixle.utils.vector", helper)
    >>> helper.__module__
    'mixle.utils.vector'
    """
    for item in objects:
        item.__module__ = module


def lazily(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a facade's ``__getattr__``, which loads and publishes a name when it is first used.

    Parameters
    ----------
    module : str
        Name of the facade.
    homes : mapping of str to str
        The module that defines each name.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(homes[name]), name)
        publish(module, found)
        setattr(sys.modules[module], name, found)
        return found

    return load
