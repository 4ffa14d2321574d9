"""The digest of a model as it stands in memory: what a worker was sent, and computes from."""

from __future__ import annotations

import io
import marshal
import pickle
import weakref
import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from mixle.stats.label_table import LabelTable
from mixle.stats.serialize import Serializable

__all__ = ["model_digest"]

PLAIN = {str, int, float, bool, type(None), bytes}
_STATES: Any = (Serializable.__getstate__, object.__getstate__)
_REDUCE: Any = (object.__reduce_ex__, object.__reduce__)


def model_digest(model: Any) -> int | None:
    """Return a checksum of a model's parameters as they stand in memory now; None where they cannot be told.

    Where they lie is remembered as long as the model lives: a worker asks again with each shard.

    Parameters
    ----------
    model : distribution or None
        What is pickled for it, arrays by their numbers. Models of classes that only the main script has are not told.

    Examples
    --------
    >>> import pickle
    >>> from mixle.stats import GaussianDistribution
    >>> model = GaussianDistribution(0.0, 1.0)
    >>> model_digest(model) == model_digest(pickle.loads(pickle.dumps(model)))
    True
    """
    if model is None:
        return None
    layout = _known.get(id(model))
    if layout is not None:
        with suppress(Exception):  # something may have become something else
            if layout.stands():
                return layout.digest()
    try:
        return _Layout(model).digest()
    except Exception:  # noqa: BLE001 - a user's class that does not pickle by name
        return None


class _Layout:
    """Where the numbers of a model lie: containers with keys, so that a replaced number is seen as well."""

    def __init__(self, model: Any) -> None:
        place = id(model)
        _known.pop(place, None)
        self.sizes: list[tuple[Any, int]] = []
        self.parts: list[tuple[Any, Any, Any]] = []
        self.arrays: list[tuple[Any, Any]] = []
        self.plain: list[tuple[Any, Any]] = []
        self.others: list[tuple[Any, Any]] = []
        if _is_open(type(model)):  # any other root is pickled each time: its layout would keep it alive
            shape = self._state(model)
            _known[place] = self
            self.owner = weakref.ref(model, lambda _: _known.pop(place, None))
        else:
            shape = self._of({None: model}, None)
        text = marshal.dumps(shape, 2)
        self.main, self.seed = b"__main__" in text, zlib.crc32(text)

    def stands(self) -> bool:
        """Return whether all objects, lists and dicts are the same ones, and none has got or lost an item."""
        for container, key, part in self.parts:
            if container[key] is not part:
                return False
        return all(len(container) == size for container, size in self.sizes)

    def digest(self) -> int | None:
        """Return the checksum of the numbers as they stand now."""
        if self.main:
            return None
        found = zlib.crc32(b"".join([container[key].tobytes() for container, key in self.arrays]), self.seed)
        found = zlib.crc32(marshal.dumps([_mapped(container[key]) for container, key in self.plain], 2), found)
        for container, key in self.others:
            text = _stream(container[key])
            if b"__main__" in text:
                return None
            found = zlib.crc32(text, found)
        return found

    def _of(self, container: Any, key: Any) -> Any:
        """Note where a value lies; return its shape as plain data."""
        value = container[key]
        kind = type(value)
        if kind in PLAIN or ((kind is tuple or kind is list) and _only_plain(value)):
            self.plain.append((container, key))
            return None
        if kind is dict and _only_plain(value.values()) and _only_plain(value):
            self.plain.append((container, key))
            return None
        if kind is LabelTable and _only_plain(value.labels):  # it is a dict as soon as somebody asks for it
            self.plain.append((container, key))
            return None
        if kind is np.ndarray and not value.dtype.hasobject:
            self.arrays.append((container, key))
            return value.dtype.str, value.shape
        if kind is dict or kind is list or kind is tuple:
            self.parts.append((container, key, value))
            self.sizes.append((value, len(value)))
            if kind is dict:
                return [(one if type(one) in PLAIN else _stream(one), self._of(value, one)) for one in value]
            return [self._of(value, place) for place in range(len(value))]
        if _is_open(kind):
            self.parts.append((container, key, value))
            return self._state(value)
        self.others.append((container, key))
        return kind.__name__

    def _state(self, value: Any) -> list[Any]:
        kind, state = type(value), value.__dict__
        self.sizes.append((state, len(state)))
        shape: list[Any] = [kind.__module__, kind.__qualname__]
        for name, one in state.items():
            if not name.startswith("_cached"):
                shape.append(name)
                if type(one) in PLAIN:  # most are: no call for them
                    self.plain.append((state, name))
                else:
                    shape.append(self._of(state, name))
        return shape


_known: dict[int, _Layout] = {}  # by the id of the model, as long as that lives
_open: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def _is_open(kind: Any) -> bool:
    """Return whether an object of this class is its attributes: its pickle has these, and nothing else."""
    found = _open.get(kind)
    if found is None:
        found = _open[kind] = _has_state_only(kind)
    return found


def _has_state_only(kind: Any) -> bool:
    if kind.__reduce_ex__ is not _REDUCE[0] or kind.__reduce__ is not _REDUCE[1] or kind.__new__ is not object.__new__:
        return False
    return kind.__getstate__ in _STATES and not any(vars(base).get("__slots__") for base in kind.__mro__)


def _mapped(value: Any) -> Any:
    return value.mapping() if type(value) is LabelTable else value


def _only_plain(values: Iterable[Any]) -> bool:
    return PLAIN.issuperset(map(type, values))


class _Canonical(pickle.Pickler):
    """A pickler that writes arrays by type, shape and bytes, wherever their memory lies."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and obj.dtype.kind != "O":
            return np.frombuffer, (obj.tobytes(), obj.dtype.str, *obj.shape)
        return NotImplemented


def _stream(value: Any) -> bytes:
    file = io.BytesIO()
    pickler = _Canonical(file, 5)
    pickler.fast = True  # no memo: whether equal text is one object differs between a model and its copy
    pickler.dump(value)
    return file.getvalue()
