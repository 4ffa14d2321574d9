"""What a statistic has to look like: the layout that its type declares, and the one of its family."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from mixle.errors import ContractError
from mixle.stats.refusals import told
from mixle.stats.sums import Moments

__all__ = ["ADVICE", "check_layout", "check_type"]

ADVICE = "pass what value() of an accumulator of this estimator returned"
_NUMBER, _NUMBERS, _ARRAY, _TUPLE = "a number", "a number or an array of them", "an array of numbers", "a tuple"
_KINDS = {"float": _NUMBER, "int": _NUMBER, "ndarray": _ARRAY, "Numbers": _NUMBERS, "tuple": _TUPLE}
_layouts: dict[type, tuple[tuple[int, str, str], ...]] = {}


def check_layout(value: Any, where: str, leaf: Any = None) -> None:
    """Hold a statistic to the layout of its type, and to that of a family.

    Types that are not of this library may hold anything.

    Raises
    ------
    ContractError
        Naming the field that is of another kind than declared.
    """
    kinds = _declared(type(value))
    for i, name, kind in kinds:
        if type(value[i]) is not float and not _is(value[i], kind):
            _refuse(f"{where}: field {name!r} of {type(value).__name__} is {kind}, not {told(value[i])}")
    if leaf is not None:
        _check_leaf(value, where, leaf)


def check_type(value: Any, own: Any, where: str) -> None:
    """Raise ContractError for a statistic of this library's of another type than the `own` of a model."""
    if _is_ours(type(value)) and _is_ours(type(own)) and type(value) is not type(own):
        _refuse(f"{where}: {told(value)} is not the statistic of this model, which is {told(own)}")


def _refuse(text: str) -> NoReturn:
    raise ContractError(f"{text}; {ADVICE}")


def _declared(cls: type) -> tuple[tuple[int, str, str], ...]:
    """Return (place, field, kind) of the fields of a NamedTuple of this library whose annotation tells a kind."""
    found = _layouts.get(cls)
    if found is None:
        notes = cls.__annotations__.items() if _is_ours(cls) else ()
        kinds = ((i, name, _kind_of(getattr(note, "__forward_arg__", note))) for i, (name, note) in enumerate(notes))
        found = _layouts[cls] = tuple((i, name, kind) for i, name, kind in kinds if kind)
    return found


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "mixle" and issubclass(cls, tuple) and hasattr(cls, "_fields")


def _kind_of(note: Any) -> str:
    words = [word.partition("[")[0].rpartition(".")[2] for word in str(note).split(" | ")]
    kind = _KINDS.get(words[0], "")
    return f"{kind} or None" if kind and "None" in words else kind


def _is(value: Any, kind: str) -> bool:
    if value is None:
        return kind.endswith("or None")
    kind = kind.removesuffix(" or None")
    if isinstance(value, numbers.Number) or (isinstance(value, np.ndarray) and not value.ndim):
        return kind in {_NUMBER, _NUMBERS} and _numeric(value)
    if kind == _TUPLE:
        return isinstance(value, (tuple, list))
    return kind != _NUMBER and isinstance(value, (np.ndarray, list, tuple)) and _numeric(value)


def _numeric(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except ValueError:  # rows of several lengths
        return False


def _check_leaf(value: Any, where: str, leaf: Any) -> None:
    """Hold a statistic to that of a family without rows: its type, or its length and the kinds of its entries."""
    zero = leaf.zero()
    own = leaf.to_value(zero)
    if _is_ours(type(value)):
        if type(value) not in {type(own), type(zero)}:
            _refuse(f"{where}: {told(value)} is not the statistic of this family, which is {told(own)}")
        if isinstance(value, Moments):
            _check_moments(value, where, leaf)
    elif isinstance(own, dict) and not isinstance(value, Mapping):
        _refuse(f"{where}: the statistic of this family is a dict, not {told(value)}")
    elif isinstance(own, Moments):
        _check_raw_sums(value, where, leaf)
    elif isinstance(own, tuple) and not _is_ours(type(own)):
        _check_entries(value, own, where)


def _check_moments(value: Moments, where: str, leaf: Any) -> None:
    dim = getattr(leaf, "dim", None) if leaf.vector else None
    for name, part in zip(Moments._fields, value, strict=True):
        shape = np.shape(part)
        if shape and (name == "weight" or not leaf.vector):
            _refuse(f"{where}: field {name!r} of Moments is a number here, not {told(part)}")
        if shape and dim is not None and set(shape) != {dim}:
            _refuse(f"{where}: field {name!r} of Moments is of {dim} entries here, not {told(part)}")
    if leaf.vector and value.weight != 0.0 and not np.ndim(value.centre):
        _refuse(f"{where}: field 'centre' of Moments is an array of numbers here, not {told(value.centre)}")


def _check_raw_sums(value: Any, where: str, leaf: Any) -> None:
    """Hold ``(sum, sum of squares or products, weight)`` to its form; a square leaf takes the weight twice."""
    lengths = (3, 4) if leaf.kind == "square" else (3,)
    if not isinstance(value, (tuple, list)) or len(value) not in lengths:
        _refuse(f"{where}: the statistic of this family is Moments or raw sums, a tuple of 3, not {told(value)}")
    for i, entry in enumerate(value):
        kind = f"{_NUMBERS} or None" if leaf.vector and i < 2 else _NUMBER
        if not _is(entry, kind):
            _refuse(f"{where}: entry {i} of the raw sums is {kind}, not {told(entry)}")


def _check_entries(value: Any, own: tuple[Any, ...], where: str) -> None:
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != len(own):
        _refuse(f"{where}: the statistic of this family is {told(own)}, not {told(value)}")
    for i, (entry, zero) in enumerate(zip(value, own, strict=True)):
        kind = _NUMBER if isinstance(zero, numbers.Number) else _ARRAY if isinstance(zero, np.ndarray) else ""
        if (kind and not _is(entry, kind)) or (isinstance(zero, dict) and not isinstance(entry, Mapping)):
            _refuse(f"{where}: entry {i} of the statistic is {kind or 'a dict'}, not {told(entry)}")
