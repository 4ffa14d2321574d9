"""Mixtures, hidden Markov models and records of mixed types, fitted by EM on one core or many with the same bits."""

__version__ = "1.0.0.dev0"

#: Loaded when first used, as in ``mixle.inference.optimize``: importing the package costs nothing.
_LAZY = {
    "errors": "mixle.errors",
    "inference": "mixle.inference",
    "sklearn": "mixle.sklearn",
    "stats": "mixle.stats",
    "tables": "mixle.tables",
    "telemetry": "mixle.telemetry",
    "utils": "mixle.utils",
}
#: Names of `mixle.tables` that are the front door.
_TABLES = ("fit", "load", "schema")


def __getattr__(name: str) -> object:
    if name in _TABLES:
        return getattr(__import__("mixle.tables", fromlist=[name]), name)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    __import__(_LAZY[name])
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_TABLES})
