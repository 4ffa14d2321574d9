"""Rows in shards, shards on workers, statistics added up in shard order."""

__all__ = [
    "ComponentParallelEncodedData",
    "ComponentParallelEstimator",
    "EncodedDataControlConflictError",
    "ModelParallelEncodedData",
    "ModelParallelEstimator",
    "Resources",
    "component_parallel_fold",
    "encoded_data",
    "is_encoded_data_handle",
    "model_parallel_fold",
    "model_sharding_plan",
    "plan",
    "register_encoded_data_backend",
]

_PAGES = {"balance", "em_observability", "model_decomposition", "model_parallel", "mpi", "multiprocessing"}
_PAGES |= {"planner", "resilient_em", "sdc_audit"}


def __getattr__(name):  # type: ignore[no-untyped-def] # any type, which cannot be named without an import
    if name not in _PAGES and name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = name if name in _PAGES else "model_parallel" if "parallel" in name.lower() else "planner"
    __import__(f"{__name__}.{home}")
    return globals()[home] if home == name else getattr(globals()[home], name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PAGES})
