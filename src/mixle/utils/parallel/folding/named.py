"""NamedTuples that travel in frames: by a stable name, so that decoding builds no other class."""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

__all__ = ["name_of", "named", "register_namedtuple"]

OWN = ("mixle.stats.", "mixle.utils.parallel.")  # importing these runs nothing
T = TypeVar("T", bound=type[Any])

_records_by_name: dict[str, type[Any]] = {}
_names_by_record: dict[type[Any], str] = {}


def register_namedtuple(cls: T, name: str | None = None) -> T:
    """Let a NamedTuple class travel inside frames; usable as a decorator.

    Parameters
    ----------
    cls : type
        A NamedTuple class that both ends import.
    name : str, optional
        Its stable name on the wire; module and qualified name if not given.

    Raises
    ------
    TypeError
        If `cls` is no NamedTuple class.
    ValueError
        If the name stands for another class.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Pair(NamedTuple):
    ...     left: int
    ...     right: float
    >>> _ = register_namedtuple(Pair, "doctest.Pair")
    >>> named(name_of(Pair))(1, 2.5)
    Pair(left=1, right=2.5)
    """
    if not hasattr(cls, "_fields") or not issubclass(cls, tuple):
        raise TypeError(f"register_namedtuple takes a NamedTuple class, not {cls!r}")
    name = f"{cls.__module__}.{cls.__qualname__}" if name is None else name
    known = _records_by_name.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"the name {name!r} already stands for {known!r}: give register_namedtuple another name")
    _records_by_name[name] = cls
    _names_by_record[cls] = name
    return cls


def name_of(cls: type[Any]) -> str | None:
    """Return the name of a NamedTuple class on the wire; those of this library need no registration."""
    known = _names_by_record.get(cls)
    if known is None and cls.__module__.startswith(OWN) and hasattr(cls, "_fields") and "." not in cls.__qualname__:
        named(f"{cls.__module__}.{cls.__qualname__}")
        known = _names_by_record.get(cls)
    return known


def named(name: str) -> type[Any] | None:
    """Return the NamedTuple class of a name, importing modules of this library only."""
    known = _records_by_name.get(name)
    if known is None and name.startswith(OWN):
        module, _, attribute = name.rpartition(".")
        try:
            cls = getattr(importlib.import_module(module), attribute, None)
        except ImportError:
            return None
        if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields") and cls.__module__ == module:
            register_namedtuple(cls)
        known = _records_by_name.get(name)
    return known
