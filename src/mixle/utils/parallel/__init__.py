"""Rows in shards, shards on workers, statistics added up in shard order."""

_PAGES = {"em_observability", "multiprocessing", "planner", "resilient_em", "sdc_audit"}


def __getattr__(name: str) -> object:
    if name not in _PAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    __import__(f"{__name__}.{name}")
    return globals()[name]
