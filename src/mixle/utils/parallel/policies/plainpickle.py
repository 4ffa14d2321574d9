"""Read a pickle that may have been altered: plain data, arrays and known NamedTuples come out, nothing is run.

The opcodes are those that `pickletools` lists; a small machine of our own obeys the ones that pickles of statistics
have. It imports nothing by name, calls nothing but the constructors below, and takes no more memory than the bytes it
is given justify.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixle.errors import PayloadError
from mixle.utils.parallel.folding.named import named

__all__ = ["read_plain_pickle"]

_DEPTH = 100_000  # of the stack


def _refused(what: str) -> PayloadError:
    return PayloadError(f"{what}; give pickle.dumps of numbers, text or arrays")


@dataclass(frozen=True)
class _Name:
    """A global that the pickle names; it is never imported."""

    module: str
    name: str


class _DType:
    """A dtype under construction."""

    def __init__(self, text: Any) -> None:
        if not isinstance(text, str) or text[:1] not in {"b", "i", "u", "f", "c", "S", "U", "O"}:
            raise _refused(f"the dtype {text!r} is not read")
        self.text, self.order = text, "="

    def build(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in {"<", ">", "|", "="}:
            raise _refused("a dtype has an unknown state")
        if any(part is not None for part in state[2:5]):
            raise _refused("a structured dtype is not read")
        self.order = state[1]

    def made(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.text if self.order in "<>" and self.text[0] not in "bSO" else self.text)


class _Mark:
    """A place on the stack."""


_MARK = _Mark()


def _dtype(value: Any) -> np.dtype[Any]:
    if not isinstance(value, _DType):
        raise _refused("an array has no dtype")
    return value.made()


def _checked(raw: Any, shape: Any, kind: np.dtype[Any]) -> tuple[int, ...]:
    """Return a shape that the bytes (or the list of objects) fill exactly."""
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise _refused(f"an array has the shape {shape!r}")
    items = math.prod(shape)
    fills = isinstance(raw, list) and len(raw) == items
    if not kind.hasobject:
        fills = isinstance(raw, (bytes, bytearray)) and len(raw) == items * kind.itemsize
    if not fills or not kind.itemsize:
        raise _refused(f"an array of shape {shape} and dtype {kind} does not have the bytes it needs")
    return shape


def _from_buffer(raw: Any, kind: Any, shape: Any, order: Any) -> Any:
    dtype = _dtype(kind)
    shape = _checked(raw, shape, dtype)
    if dtype.hasobject or order not in {"C", "F"}:
        raise _refused("an array has an unknown layout")
    return np.frombuffer(raw, dtype).reshape(shape, order=order).copy(order="K")


def _scalar(kind: Any, raw: Any) -> Any:
    dtype = _dtype(kind)
    _checked(raw, (1,), dtype)
    if dtype.hasobject:
        raise _refused("a scalar of objects is not read")
    return np.frombuffer(raw, dtype)[0]


def _encoded(text: Any, codec: Any = "latin1") -> bytes:
    if not isinstance(text, str) or codec not in {"latin1", "latin-1"}:
        raise _refused("bytes have an unknown encoding")
    return text.encode("latin-1")


def _complex(*parts: Any) -> complex:
    if not all(type(part) in {int, float} for part in parts):
        raise _refused("a complex number is not made of numbers")
    return complex(*parts)


def _no_bytes() -> bytes:
    return b""


_CALLS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy._core.multiarray", "_reconstruct"): lambda *_: np.empty(0),
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "dtype"): lambda text, *_: _DType(text),
    ("_codecs", "encode"): _encoded,
    ("builtins", "complex"): _complex,
    ("builtins", "bytes"): _no_bytes,
    ("copyreg", "_reconstructor"): lambda cls, _, items: _record(cls, items),
}


def _record(cls: Any, items: Any) -> Any:
    known = named(f"{cls.module}.{cls.name}") if isinstance(cls, _Name) else None
    if known is None or not isinstance(items, tuple):
        raise _refused(f"{_text(cls)} is not read: only plain data, arrays and registered NamedTuples are")
    make: Callable[[Any], Any] = known._make
    return make(items)


def _text(cls: Any) -> str:
    return f"{cls.module}.{cls.name}" if isinstance(cls, _Name) else type(cls).__name__


def read_plain_pickle(data: bytes) -> Any:
    """Return the plain value of a pickle.

    Parameters
    ----------
    data : bytes
        A pickle of any protocol.

    Raises
    ------
    Exception
        Of any type, if the bytes are no pickle of plain data: PayloadError, ValueError, IndexError ...

    Examples
    --------
    >>> import pickle
    >>> read_plain_pickle(pickle.dumps((3.0, {"a": [1, None]})))
    (3.0, {'a': [1, None]})
    >>> import os
    >>> read_plain_pickle(pickle.dumps(os.getcwd))
    Traceback (most recent call last):
        ...
    mixle.errors.PayloadError: a pickle of plain data ends in a _Name; give pickle.dumps of numbers, text or arrays
    """
    import pickletools

    machine = _Machine()
    for opcode, argument, _ in pickletools.genops(data):
        machine.step(opcode.name, argument)
    if len(machine.stack) != 1:
        raise _refused("a pickle does not end in one value")
    value = machine.stack[0]
    if isinstance(value, (_Name, _DType, _Mark)):
        raise _refused(f"a pickle of plain data ends in a {type(value).__name__}")
    return value


class _Machine:
    """The stack and the memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in {"PROTO", "FRAME", "STOP"}:
            raise _refused(f"the pickle opcode {name} is not obeyed")
        if len(self.stack) > _DEPTH:
            raise _refused("a pickle is nested too deep")

    def since_mark(self) -> list[Any]:
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                items = self.stack[place + 1 :]
                del self.stack[place:]
                return items
        raise _refused("a pickle has no mark")

    def take(self, count: int) -> list[Any]:
        items = self.stack[-count:]
        if len(items) < count or any(item is _MARK for item in items):
            raise _refused("a pickle takes more than it has")
        del self.stack[-count:]
        return items

    def push_tuple(self, items: list[Any]) -> None:
        self.stack.append(tuple(items))

    def mapping(self, items: list[Any]) -> None:
        self.stack.append({})
        self.assign(items)

    def extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise _refused("a pickle appends to what is no list")
        target.extend(items)

    def assign(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise _refused("a pickle assigns to what is no dict")
        target.update(zip(items[::2], items[1::2], strict=True))

    def name(self, words: Any) -> None:
        module, _, name = words.partition(" ")
        self.stack.append(_name(module, name))

    def stack_name(self) -> None:
        module, name = self.take(2)
        if not (isinstance(module, str) and isinstance(name, str)):
            raise _refused("a pickle names a class by what is no text")
        self.stack.append(_name(module, name))

    def call(self) -> None:
        function, arguments = self.take(2)
        known = _CALLS.get((function.module, function.name)) if isinstance(function, _Name) else None
        if known is None or not isinstance(arguments, tuple):
            raise _refused(f"{_text(function)} is not called")
        self.stack.append(known(*arguments))

    def new(self) -> None:
        self.stack.append(_record(*self.take(2)))

    def build(self) -> None:
        (state,) = self.take(1)
        target = self.stack[-1]
        if isinstance(target, _DType):
            target.build(state)
        elif type(target) is np.ndarray and isinstance(state, tuple) and len(state) == 5:
            _, shape, kind, fortran, raw = state
            dtype = _dtype(kind)
            checked: Any = (1, _checked(raw, shape, dtype), dtype, bool(fortran), raw)
            target.__setstate__(checked)
        else:
            raise _refused(f"a pickle sets the state of a {type(target).__name__}")

    def remember(self, place: Any) -> None:
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def recall(self, place: Any) -> None:
        self.stack.append(self.memo[place])


def _name(module: str, name: str) -> _Name:
    module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
    return _Name(module.replace("numpy.core.", "numpy._core."), name)


_LITERALS = frozenset(
    {
        *("INT", "LONG", "LONG1", "LONG4", "BININT", "BININT1", "BININT2", "FLOAT", "BINFLOAT"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    }
)
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "MARK": lambda: _MARK,
}
_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "TUPLE": lambda machine, _: machine.push_tuple(machine.since_mark()),
    "TUPLE1": lambda machine, _: machine.push_tuple(machine.take(1)),
    "TUPLE2": lambda machine, _: machine.push_tuple(machine.take(2)),
    "TUPLE3": lambda machine, _: machine.push_tuple(machine.take(3)),
    "LIST": lambda machine, _: machine.stack.append(machine.since_mark()),
    "DICT": lambda machine, _: machine.mapping(machine.since_mark()),
    "APPEND": lambda machine, _: machine.extend(machine.take(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.assign(machine.take(2)),
    "SETITEMS": lambda machine, _: machine.assign(machine.since_mark()),
    "GLOBAL": lambda machine, words: machine.name(words),
    "STACK_GLOBAL": lambda machine, _: machine.stack_name(),
    "REDUCE": lambda machine, _: machine.call(),
    "NEWOBJ": lambda machine, _: machine.new(),
    "BUILD": lambda machine, _: machine.build(),
    **dict.fromkeys(("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"), _Machine.remember),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.recall),
}
