"""Backends that are engines of their own, as `encoded_data` reaches them."""

from __future__ import annotations

from typing import Any

from mixle.utils.parallel.folding.controls import MODEL_PARTS, Builtin

__all__ = ["PACKAGES", "dask", "spark"]

#: What a backend needs: the module that must be there, and the line that installs it.
PACKAGES = {
    "dask": ("distributed", 'pip install "distributed>=2024.8"'),
    "spark": ("pyspark", 'pip install "pyspark>=3.5"'),
}

_TAKES = frozenset({*MODEL_PARTS, "client", "num_shards", "policies", "sub_chunks", "weights"})
_DASK = Builtin("dask", "mixle.utils.parallel.transports.dask", "DaskEncodedData", _TAKES)
_SPARK = Builtin("spark", "mixle.utils.parallel.transports.spark.handle", "spark_backend", _TAKES)


def dask(data: Any, **controls: Any) -> Any:
    """Build the Dask handle; `num_workers` means as many contiguous shards of rows of this process."""
    return _DASK(data, **_split(data, "backend 'dask'", controls))


def spark(data: Any, **controls: Any) -> Any:
    """Build the Spark handle; `num_workers` means as many contiguous shards of rows of this process."""
    return _SPARK(data, **_split(data, "backend 'spark'", controls))


def _split(data: Any, title: str, controls: dict[str, Any]) -> dict[str, Any]:
    """Return controls with one shard map instead of the several ways to ask for it."""
    from mixle.utils.parallel.folding.inputs import check_count, check_engine, check_fits, choose_map
    from mixle.utils.parallel.folding.shards import Contiguous

    check_engine(title, controls.pop("engine", None), controls.pop("precision", None))
    ways = {name: controls.pop(name, None) for name in ("num_shards", "num_chunks", "placement")}
    check_fits(title, ways["placement"], controls.pop("force", False))
    workers = check_count(controls.pop("num_workers", None), "num_workers", optional=True)
    rows = len(data) if hasattr(data, "__len__") and not hasattr(data, "to_delayed") else 0
    shard_map = choose_map(None, rows, **ways)
    controls["num_shards"] = Contiguous(workers) if shard_map is None and workers is not None else shard_map
    return controls
