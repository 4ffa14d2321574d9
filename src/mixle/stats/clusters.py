"""Where the functions over encoded rows find those who serve a cluster's collection."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["cluster_of", "register_cluster"]

#: Root package of a collection's class, and the module that serves it; that is imported when one is met.
_CLUSTERS = {"pyspark": "mixle.utils.parallel.transports.spark.functions"}


def register_cluster(package: str, module: str) -> None:
    """Let `module` serve the collections whose classes come from `package`.

    Parameters
    ----------
    package : str
        Root package, e.g. ``"pyspark"``.
    module : str
        Name of a module with ``encoded(collection, encoder, **options)``, which returns a collection of
        ``(count, payload)``, and ``handle(collection, encoder)``, which returns a handle over one.

    Examples
    --------
    >>> register_cluster("some_cluster", "some_package.clusters")
    >>> _ = _CLUSTERS.pop("some_cluster")
    """
    _CLUSTERS[package] = module


def cluster_of(data: Any) -> Any:
    """Return the module that serves a collection, None for anything else.

    Examples
    --------
    >>> cluster_of([1, 2]) is None
    True
    """
    if isinstance(data, (list, tuple, dict)) or not hasattr(data, "mapPartitions"):
        return None
    home = _CLUSTERS.get(type(data).__module__.partition(".")[0])
    return None if home is None else importlib.import_module(home)
