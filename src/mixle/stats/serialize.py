"""Models as text: constructor-form reprs, JSON without pickle, canonical digests.

A serialisable class names its constructor arguments in `_fields`; each is an attribute of the same name. Those of
`_keyword_fields` are printed by name. Everything else (reprs, JSON, digests, copies) follows from that.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar, TypeVar

import numpy as np

from mixle._json import parsed
from mixle.errors import SerializationError

__all__ = ["Serializable", "digest", "from_plain", "register_function", "register_model", "to_plain"]

SCHEMA = 1
F = TypeVar("F", bound=Callable[..., Any])
_REGISTERED: dict[str, type] = {}
_FUNCTIONS: dict[str, Callable[..., Any]] = {}
#: Bits of the largest integer that is written in decimal digits: Python refuses those of several thousand digits.
_PRINTED = 2048
_TAGS: dict[str, Any] = {
    "integer": lambda digits: int(digits, 16),
    "date": dt.date.fromisoformat,
    "datetime": dt.datetime.fromisoformat,
    "time": dt.time.fromisoformat,
    "timedelta": lambda parts: dt.timedelta(*parts),
    "numpy": lambda pair: np.array(pair[1], np.int64).astype(np.dtype(pair[0]))[()],
    "function": lambda name: _function(str(name)),
}


def register_model(cls: type) -> type:
    """Let `from_json` build `cls` (a user's own serialisable class); usable as a decorator."""
    _REGISTERED[cls.__name__] = cls
    return cls


def register_function(function: F, name: str | None = None) -> F:
    """Let models that hold `function` be written and read: JSON names it, the reading side must have registered it.

    Parameters
    ----------
    function : callable
        A function of your own.
    name : str, optional
        What stands for it in a file; its module and qualified name by default.

    Raises
    ------
    ValueError
        If it has no name of its own (a lambda) and none is given, or another function has the name.

    Examples
    --------
    >>> def sign(x):
    ...     return int(x > 0)
    >>> register_function(sign, "sign") is sign
    True
    """
    own = name or f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '<none>')}"
    if "<" in own:
        raise ValueError(f"{function!r} has no name of its own; pass register_function(function, 'a name')")
    if _FUNCTIONS.setdefault(own, function) is not function:
        raise ValueError(f"the name {own!r} already stands for another function; pass another name")
    return function


def _lookup(name: str) -> type:
    import mixle.stats

    found = _REGISTERED.get(name)
    if found is None and name in mixle.stats.__all__:
        found = getattr(mixle.stats, name)
    if not (isinstance(found, type) and issubclass(found, Serializable)):
        raise SerializationError(
            f"unknown model type {name!r}; a class of your own is made known with mixle.stats.register_model"
        )
    return found


class Serializable:
    """Constructor-form repr and JSON for a class that names its constructor arguments in `_fields`."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _keyword_fields: ClassVar[tuple[str, ...]] = ()
    #: What is written where it is not None, and given to the built object by ``set_<name>``: no constructor's argument.
    _extras: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """Return the names of the constructor's arguments that make up an object."""
        return (*cls._fields, *cls._keyword_fields)

    def _argument(self, name: str) -> Any:
        """Return the constructor's argument `name` as it is written down."""
        return getattr(self, name)

    def __repr__(self) -> str:
        if not self._fields and not self._keyword_fields:
            return object.__repr__(self)
        parts = [_text(self._argument(name)) for name in self._fields]
        parts += [f"{name}={_text(self._argument(name))}" for name in self._keyword_fields]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __str__(self) -> str:
        return repr(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_cached")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data from which `from_dict` builds an equal object.

        Raises
        ------
        SerializationError
            If a part has no JSON form.
        """
        if not self._fields and not self._keyword_fields:
            raise SerializationError(
                f"{type(self).__name__} has no JSON form; give it _fields, the names of its arguments"
            )
        result: dict[str, Any] = {"type": type(self).__name__, "schema": SCHEMA}
        for name in (*self._fields, *self._keyword_fields):
            result[name] = to_plain(self._argument(name))
        for name in self._extras:
            if getattr(self, name, None) is not None:
                result[name] = to_plain(getattr(self, name))
        return result

    @classmethod
    def from_dict(cls, payload: dict[str, Any]) -> Any:
        """Build an object from what `to_dict` returned; nothing is unpickled.

        Raises
        ------
        SerializationError
            If `payload` names an unknown type, another schema, or a type that is not a `cls`, or is damaged.
        """
        try:
            built = from_plain(payload)
        except SerializationError:
            raise
        except RecursionError:
            raise SerializationError(
                f"the JSON of a {cls.__name__} is nested too deep to be a model; pass what to_json or to_dict returned"
            ) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise SerializationError(f"damaged JSON of a {cls.__name__}: {error}; use another copy") from error
        if not isinstance(built, cls):
            found = type(built).__name__
            what = (
                f"use {found}.from_dict" if isinstance(built, Serializable) else "pass what to_json or to_dict returned"
            )
            raise SerializationError(f"expected a {cls.__name__}, found a {found}; {what}")
        return built

    def to_json(self, **kwargs: Any) -> str:
        """Return `to_dict` as JSON text; `kwargs` go to ``json.dumps``. Floats survive exactly."""
        import json

        return json.dumps(self.to_dict(), **kwargs)

    @classmethod
    def from_json(cls, text: str) -> Any:
        """Build an object from what `to_json` returned; errors as of `from_dict`."""
        return cls.from_dict(parsed(text))


def _text(value: Any) -> str:
    """Return `value` as source text that evaluates back, numpy scalars as plain numbers."""
    if isinstance(value, np.ndarray):
        return _text(value.tolist())
    if isinstance(value, np.generic):
        return _text(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, int) and value.bit_length() > _PRINTED:
        return hex(value)
    return value.__qualname__ if isinstance(value, FunctionType) else repr(value)


def to_plain(value: Any) -> Any:
    """Return `value` in JSON types; tuples, arrays, maps, times and non-finite floats are tagged."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return {"numpy": [value.dtype.str, int(value.astype(np.int64))]}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and value.bit_length() > _PRINTED:
        return {"integer": hex(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, Serializable):
        return value.to_dict()
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [to_plain(item) for item in value]}
    if isinstance(value, dict):
        return {"map": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    return _rare_to_plain(value)


def _rare_to_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        flat = [to_plain(x) for x in value.ravel().tolist()]
        return {"array": flat, "shape": list(value.shape), "dtype": value.dtype.str}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        raise SerializationError(f"{value!r:.80} has no JSON form: its nanoseconds; round it to microseconds")
    for kind in (dt.datetime, dt.date, dt.time):  # also a Timestamp of pandas; a datetime is a date
        if isinstance(value, kind) and value == value:  # NaT is not
            return {kind.__name__: value.isoformat()}
    if isinstance(value, dt.timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if callable(value):
        return {"function": _name_of(value)}
    raise SerializationError(
        f"a value of type {type(value).__name__} has no JSON form: {value!r:.80}; use numbers, text, arrays or models"
    )


def _name_of(function: Any) -> str:
    for name, known in _FUNCTIONS.items():
        if known is function:
            return name
    raise SerializationError(
        f"the function {getattr(function, '__qualname__', function)!s:.80} has no JSON form; where it is defined, call "
        "mixle.stats.register_function(function, 'a name'), and do so too where the model is read"
    )


def from_plain(value: Any) -> Any:
    """Build the value that `to_plain` wrote."""
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "type" in value:
        return _build(value)
    if "float" in value:
        return float(value["float"])
    if "array" in value:
        flat = np.array([from_plain(x) for x in value["array"]], dtype=np.dtype(value["dtype"]))
        return flat.reshape([int(n) for n in value["shape"]])
    if "tuple" in value:
        return tuple(from_plain(item) for item in value["tuple"])
    if "map" in value:
        return {from_plain(key): from_plain(item) for key, item in value["map"]}
    if "bytes" in value:
        return bytes.fromhex(value["bytes"])
    if len(value) == 1 and (tag := next(iter(value))) in _TAGS:
        return _TAGS[tag](value[tag])
    raise SerializationError(
        f"JSON of an unknown form, keys {sorted(map(str, value))}; pass what to_json or to_dict returned"
    )


def _function(name: str) -> Any:
    if name not in _FUNCTIONS:
        raise SerializationError(
            f"the function {name!r} is not registered here; call mixle.stats.register_function(function, {name!r})"
        )
    return _FUNCTIONS[name]


def _build(value: dict[str, Any]) -> Any:
    cls = _lookup(str(value["type"]))
    if value.get("schema") != SCHEMA:
        raise SerializationError(f"{value['type']}: schema {value.get('schema')!r} is not {SCHEMA}")
    names = (*cls._fields, *cls._keyword_fields)  # type: ignore[attr-defined]  # _lookup returns Serializable classes
    extras = [name for name in getattr(cls, "_extras", ()) if name in value]
    unknown = sorted(set(value) - set(names) - {"type", "schema", *extras})
    if unknown:
        raise SerializationError(
            f"{value['type']}: unknown arguments {', '.join(unknown)}; read it with the version that wrote it"
        )
    arguments = {name: from_plain(value[name]) for name in names if name in value}
    try:
        built = cls(**arguments)
    except TypeError as error:
        raise SerializationError(
            f"{value['type']} cannot be built: {error}; pass what to_json or to_dict returned"
        ) from error
    for name in extras:
        getattr(built, f"set_{name}")(from_plain(value[name]))
    return built


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return float(value).hex()
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, dict):
        result = {key: _canonical(item) for key, item in value.items()}
        if "map" in result:
            result["map"] = sorted(result["map"], key=repr)
        return result
    return value


def digest(model: Serializable) -> str:
    """Return the sha256 (hex) of the canonical JSON of `model`: floats as hex, maps sorted."""
    import hashlib
    import json

    text = json.dumps(_canonical(model.to_dict()), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
