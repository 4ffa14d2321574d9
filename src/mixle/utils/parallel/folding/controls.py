"""The controls of `encoded_data`: their defaults, and who takes which."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from mixle.errors import BackendError

__all__ = ["DEFAULTS", "INSTEAD", "MODEL_PARTS", "NEW", "Builtin", "same"]

DEFAULTS: dict[str, Any] = {
    "estimator": None,
    "model": None,
    "encoder": None,
    "placement": None,
    "resources": None,
    "engine": None,
    "precision": None,
    "num_chunks": None,
    "sub_chunks": 1,
    "num_workers": None,
    "client": None,
    "comm": None,
    "root": 0,
    "root_only": False,
    "parallel_chunks": False,
    "chunk_workers": None,
    "num_shards": None,
    "weights": None,
    "force": False,
    "policies": None,
    "materialize": True,
}
#: Controls that the published pages do not have; a foreign factory gets them only if given.
NEW = frozenset({"force", "materialize", "num_shards", "policies", "weights"})
MODEL_PARTS = frozenset({"estimator", "model", "encoder"})
INSTEAD = {
    "num_workers": "use backend='mp' or chunk_workers={value!r}",
    "chunk_workers": "use backend='local' or num_workers={value!r}",
    "parallel_chunks": "use backend='local', or num_workers with backend='mp'",
    "num_chunks": "use num_shards=Contiguous({value!r})",
    "client": "it belongs to backend='dask', 'spark' or 'futures'",
    "comm": "it belongs to backend='mpi'",
    "root": "it belongs to backend='mpi'",
    "root_only": "it belongs to backend='mpi'",
    "materialize": "it belongs to backend='dask', 'spark' or 'ray', which can encode again in every round",
}


def same(value: Any, default: Any) -> bool:
    """Return whether a control has its default value."""
    return value is default or (isinstance(value, (bool, int)) and type(value) is type(default) and value == default)


@dataclass(frozen=True, eq=False)
class Builtin:
    """A handle of this library: where it is, and the controls it uses."""

    backend: str
    module: str
    name: str
    takes: frozenset[str]

    def __call__(self, data: Any, **controls: Any) -> Any:
        """Build the handle; BackendError names a control that it does not take."""
        for key, value in controls.items():
            if key not in self.takes and not same(value, DEFAULTS[key]):
                instead = INSTEAD.get(key, "leave it out").format(value=value)
                raise BackendError(f"backend {self.backend!r} takes no {key}; {instead}")
        given = {key: controls[key] for key in self.takes if key in controls}
        return getattr(importlib.import_module(self.module), self.name)(data, **given)
